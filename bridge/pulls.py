"""The pull request of this session's branch: look, then open."""

from typing import Any

from bridge import rpc
from bridge.calls import Call, RefusedError, success
from bridge.replies import limit, read, read_result
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
        return _named("opened", read_result(upstream.call("create_pull_request", arguments, limit(call))))
    except StartError as error:
        raise RefusedError(ErrorCode.GITEA_UNAVAILABLE, str(error)) from None
    except ToolFailedError as error:
        return _after_unknown(upstream, call, ErrorCode.PUBLISH_REFUSED, f"{error} (publish first)")
    except (NoAnswerError, KeyError, TypeError, ValueError) as error:
        return _after_unknown(upstream, call, ErrorCode.GITEA_UNAVAILABLE, str(error))


def _find(upstream: Upstream, call: Call) -> Any:
    """The open pull request whose head is this session's branch of this repository."""
    full = "list_repo_pull_requests_full"  # the newer version's plain list leaves the branches out
    tool = full if full in upstream.tools else "list_repo_pull_requests"
    config = call.config
    for page in range(1, _PAGES + 1):
        if call.expired():
            raise RefusedError(ErrorCode.TOOL_TIMEOUT, "the call took too long")
        place = {"owner": config.owner, "repo": config.repo, "state": "open", "page": page, "pageSize": _PAGE}
        found = read(upstream, call, tool, place) or []
        for pull in found:
            head, base = pull.get("head") or {}, pull.get("base") or {}
            if head.get("ref") == config.branch and head.get("repo_id") == base.get("repo_id"):
                return pull
        if len(found) < _PAGE:
            return None
    return None


def _named(message: str, pull: Any) -> rpc.Message:
    return success(message, pullRequest=int(pull["number"]), url=str(pull.get("html_url", "")))


def _after_unknown(upstream: Upstream, call: Call, code: ErrorCode, detail: str) -> rpc.Message:
    if (found := _find(upstream, call)) is not None:
        return _named("opened; the answer of Gitea got lost", found)
    raise RefusedError(code, detail)
