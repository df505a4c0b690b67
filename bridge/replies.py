"""The comments of this very Issue/PR: look, then post, then look again when the answer got lost."""

from typing import Any

from bridge import dialect, rpc
from bridge.calls import Call, RefusedError, refusal, success
from bridge.upstream import NoAnswerError, StartError, ToolFailedError, Upstream
from domain import marker
from domain.errors import ErrorCode


def post(upstream: Upstream, call: Call, kind: str, text: str) -> rpc.Message:
    """Posts one answer or question of the call's round; a second one is refused, the same one is accepted.

    Raises:
        RefusedError: gitea_unavailable, reply_unknown, or why Gitea refused.
        WorkspaceError: the lease is gone.
    """
    if (earlier := look(upstream, call)) is not None:
        return _already(call, earlier, kind, text)
    turn = call.turn
    body = marker.stamp(text, marker.ReplyMarker(kind, turn.task_id, turn.turn_id, turn.round, turn.source_key))
    call.check_lease()
    try:
        made = act(upstream, call, "add_comment", {**place(call), "body": body})
        return success("posted", int(made["id"]))
    except StartError as error:
        raise RefusedError(ErrorCode.GITEA_UNAVAILABLE, str(error)) from None
    except ToolFailedError as error:
        return _after_unknown(upstream, call, ErrorCode.GITEA_UNAVAILABLE, str(error))
    except (NoAnswerError, LookupError, TypeError, ValueError) as error:
        return _after_unknown(upstream, call, ErrorCode.REPLY_UNKNOWN, str(error))


def look(upstream: Upstream, call: Call) -> rpc.Message | None:
    """The bot's comment that answers or asks for the call's task and round, of whichever turn.

    Raises:
        RefusedError: gitea_unavailable.
    """
    comments = read(upstream, call, "read_comments", place(call))
    for comment in comments if isinstance(comments, list) else []:
        found = marker.parse(str(comment.get("body") or ""))
        if not isinstance(found, marker.ReplyMarker) or not _is_bots(call, comment):
            continue
        if (found.task_id, found.round) == (call.turn.task_id, call.turn.round):
            return {"id": int(comment["id"]), "kind": found.kind, "body": str(comment["body"])}
    return None


def read(upstream: Upstream, call: Call, wanted: str, arguments: rpc.Message) -> Any:
    """A read for ourselves, a second time when gitea-mcp ended under the first.

    Raises:
        RefusedError: gitea_unavailable.
    """
    try:
        try:
            return act(upstream, call, wanted, arguments)
        except NoAnswerError:
            if call.expired():
                raise
            return act(upstream, call, wanted, arguments)
    except (StartError, NoAnswerError, ToolFailedError, LookupError, TypeError, ValueError) as error:
        raise RefusedError(ErrorCode.GITEA_UNAVAILABLE, f"{wanted}: {error}") from None


def act(upstream: Upstream, call: Call, wanted: str, arguments: rpc.Message) -> Any:
    """One act by whichever tool this gitea-mcp has for it, never repeated here.

    Raises:
        StartError, ToolFailedError, NoAnswerError: as `Upstream.call`.
        LookupError, TypeError, ValueError: an unreadable result.
    """
    upstream.start()
    tool, full = dialect.spoken(upstream.tools, wanted, arguments)
    return dialect.result(upstream.call(tool, full, limit(call)))


def place(call: Call) -> rpc.Message:
    return {"owner": call.config.owner, "repo": call.config.repo, "index": call.config.number}


def limit(call: Call) -> float:
    """Seconds for one call of gitea-mcp: a tool needs up to four (look, again, post, look)."""
    return call.config.call_timeout / 5


def _already(call: Call, earlier: rpc.Message, kind: str, text: str) -> rpc.Message:
    same = earlier["kind"] == kind and marker.strip(earlier["body"].replace("\r\n", "\n")) == marker.strip(text)
    if same:
        return success("it was posted before", earlier["id"])
    message = f"round {call.turn.round} already has its {earlier['kind']} comment; do not post another"
    return refusal(ErrorCode.REPLY_ALREADY_POSTED, message, earlier["id"])


def _after_unknown(upstream: Upstream, call: Call, code: ErrorCode, detail: str) -> rpc.Message:
    """Looks whether it arrived after all; never posts again."""
    try:
        found = look(upstream, call)
    except RefusedError as error:
        raise RefusedError(ErrorCode.REPLY_UNKNOWN, f"{detail}; {error.detail}") from None
    if found is not None:
        return success("posted; the answer of Gitea got lost", found["id"])
    raise RefusedError(code, detail)


def _is_bots(call: Call, comment: Any) -> bool:
    return dialect.login(comment.get("user")).casefold() == call.config.bot_name.casefold()
