"""The pull request of this session's branch: look, then open."""

from typing import Any

from bridge import dialect, rpc
from bridge.calls import Call, RefusedError, success
from bridge.replies import act, read
from bridge.upstream import NoAnswerError, StartError, ToolFailedError, Upstream
from domain.errors import ErrorCode

_PAGE = 50
_PAGES = 40


def open_one(upstream: Upstream, call: Call, title: str, body: str) -> rpc.Message:
    """Opens the pull request from this session's branch, or names the open one.

    Raises:
        RefusedError: gitea_unavailable, publish_refused (Gitea's reason).
        WorkspaceError: the lease is gone.
    """
    if (there := _find(upstream, call)) is not None:
        return _named("it is open already", there)
    config = call.config
    place = {"owner": config.owner, "repo": config.repo, "head": config.branch, "base": config.default_branch}
    call.check_lease()
    try:
        arguments = {**place, "title": title, "body": body}
        return _named("opened", act(upstream, call, "create_pull", arguments))
    except StartError as error:
        raise RefusedError(ErrorCode.GITEA_UNAVAILABLE, str(error)) from None
    except ToolFailedError as error:
        return _after_unknown(upstream, call, ErrorCode.PUBLISH_REFUSED, f"{error} (publish first)")
    except (NoAnswerError, LookupError, TypeError, ValueError) as error:
        return _after_unknown(upstream, call, ErrorCode.GITEA_UNAVAILABLE, str(error))


def _find(upstream: Upstream, call: Call) -> Any:
    """The open pull request whose head is this session's branch of this repository."""
    config = call.config
    for page in range(1, _PAGES + 1):
        if call.expired():
            raise RefusedError(ErrorCode.TOOL_TIMEOUT, "the call took too long")
        place = {"owner": config.owner, "repo": config.repo, "state": "open", "page": page, "pageSize": _PAGE}
        found = read(upstream, call, "list_pulls", place) or []
        for pull in found:
            if _is_ours(upstream, call, pull):
                return pull
        if len(found) < _PAGE:
            return None
    return None


def _is_ours(upstream: Upstream, call: Call, pull: Any) -> bool:
    """Whether it comes from our branch; a list that only names branches is looked behind."""
    if isinstance(pull.get("head"), str):
        if pull["head"] != call.config.branch:
            return False
        place = {"owner": call.config.owner, "repo": call.config.repo, "index": pull["number"]}
        pull = read(upstream, call, "read_pull", place)
    head, base = pull.get("head") or {}, pull.get("base") or {}
    return bool(head.get("ref") == call.config.branch and dialect.same_repository(head, base))


def _named(message: str, pull: Any) -> rpc.Message:
    return success(message, pullRequest=int(pull["number"]), url=str(pull.get("html_url", "")))


def _after_unknown(upstream: Upstream, call: Call, code: ErrorCode, detail: str) -> rpc.Message:
    if (found := _find(upstream, call)) is not None:
        return _named("opened; the answer of Gitea got lost", found)
    raise RefusedError(code, detail)
