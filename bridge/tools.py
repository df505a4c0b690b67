"""The bridge's own tools: reply, ask_user, publish and open_pull_request (design section 9)."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridge import pulls, replies, rpc
from bridge.calls import Call, RefusedError, refusal, success
from bridge.upstream import Upstream
from domain import marker
from domain.errors import CcwebError, ErrorCode

_TITLE_CHARS = 255
_MESSAGE_CHARS = 10_000
_ANSWER_FIRST = 0.9
"""Git's share of a call's time: it ends, in the journal too, before the call is given up."""


def _schema(name: str, description: str, **properties: str) -> rpc.Message:
    return {
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {key: {"type": "string", "description": text} for key, text in properties.items()},
            "required": list(properties),
            "additionalProperties": False,
        },
    }


OWN: tuple[rpc.Message, ...] = (
    _schema(
        "reply",
        "Posts your final answer as a comment on this issue or pull request. Once per round.",
        body="The answer, in Markdown.",
    ),
    _schema(
        "ask_user",
        "Posts a question as a comment when you cannot go on without an answer, instead of a reply. "
        "End your turn after it; the answer comes as the next message.",
        question="The question, in Markdown.",
    ),
    _schema(
        "publish",
        "Commits everything in the workspace and pushes it to this session's branch. git commit and git push "
        "do not work here; use this.",
        message="The commit message.",
    ),
    _schema(
        "open_pull_request",
        "Opens a pull request from this session's published branch to the default branch.",
        title="Its title.",
        body="Its description, in Markdown.",
    ),
)
NAMES = frozenset(str(tool["name"]) for tool in OWN)


def call(upstream: Upstream, call: Call, arguments: rpc.Message) -> rpc.Message:
    """Runs one own tool; every outcome is a result whose text is JSON, a refusal too."""
    tool: Callable[[Upstream, Call, rpc.Message], rpc.Message] = _TOOLS[call.tool]
    try:
        return tool(upstream, call, arguments)
    except CcwebError as error:
        return refusal(error.code, error.detail)
    except OSError as error:
        return refusal(ErrorCode.DISK_FULL, f"nothing was done: {error.strerror}")


def _reply(upstream: Upstream, call: Call, arguments: rpc.Message) -> rpc.Message:
    return _comment(upstream, call, "final", arguments.get("body"))


def _ask_user(upstream: Upstream, call: Call, arguments: rpc.Message) -> rpc.Message:
    return _comment(upstream, call, "question", arguments.get("question"))


def _comment(upstream: Upstream, call: Call, kind: str, given: Any) -> rpc.Message:
    text = _text(call, given, call.config.max_reply_chars)
    return call.journaled(_digest(text), lambda: replies.post(upstream, call, kind, text))


def _publish(_upstream: Upstream, call: Call, arguments: rpc.Message) -> rpc.Message:
    message = _text(call, arguments.get("message"), _MESSAGE_CHARS)
    return call.journaled(_digest(message), lambda: _push(call, message))


def _push(call: Call, message: str) -> rpc.Message:
    from clients import git  # noqa: PLC0415 - few sessions publish, and each pays for what it imports

    config = call.config
    published = git.publish(
        git.Repo(Path(config.git_dir), Path(config.common_dir), Path(config.worktree)),
        config.branch,
        message,
        f"{config.gitea_url.rstrip('/')}/{config.owner}/{config.repo}.git",
        call.token,
        config.bot_name,
        git.Limits(config.max_file_bytes, config.max_files),
        call.check_lease,
        config.call_timeout * _ANSWER_FIRST,
    )
    text = "published" if published.created else "it was published before"
    return success(text, commit=published.commit, branch=config.branch)


def _open_pull_request(upstream: Upstream, call: Call, arguments: rpc.Message) -> rpc.Message:
    title = _text(call, arguments.get("title"), _TITLE_CHARS)
    body = _clean(call, arguments.get("body"))
    if len(body) > call.config.max_reply_chars:
        raise RefusedError(ErrorCode.REPLY_TOO_LONG, f"at most {call.config.max_reply_chars} characters")
    return call.journaled(_digest(title + body), lambda: pulls.open_one(upstream, call, title, body))


_TOOLS: dict[str, Callable[[Upstream, Call, rpc.Message], rpc.Message]] = {
    "reply": _reply,
    "ask_user": _ask_user,
    "publish": _publish,
    "open_pull_request": _open_pull_request,
}


def _text(call: Call, given: Any, most: int) -> str:
    text = _clean(call, given)
    if not text.strip():
        raise RefusedError(ErrorCode.REPLY_EMPTY, "the text is empty")
    if len(text) > most:
        raise RefusedError(ErrorCode.REPLY_TOO_LONG, f"{len(text)} characters; at most {most}")
    return text


def _clean(call: Call, given: Any) -> str:
    """The agent's text without the token, anything marker-like and lone surrogates."""
    text = given if isinstance(given, str) else ""
    return marker.strip(rpc.scrub(text, call.token)).encode("utf-8", "replace").decode()


def _digest(text: str) -> rpc.Message:
    return {"chars": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
