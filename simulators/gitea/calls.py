"""What all routes of the REST API share: who calls, which repository, pages."""

import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from simulators.gitea import access
from simulators.gitea.access import Caller, Json, message
from simulators.gitea.deliveries import Deliveries
from simulators.gitea.state import Doc, State

REPO = "/api/v1/repos/{owner}/{repo}"
_PAGE, _LONGEST_PAGE = 30, 50
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def state_of(request: Request) -> State:
    found: State = request.app.state.gitea
    return found


def deliveries_of(request: Request) -> Deliveries:
    found: Deliveries = request.app.state.deliveries
    return found


def enter(request: Request, area: str, *, write: bool = False, login: bool = False) -> tuple[State, Caller, Doc]:
    """State, caller and repository of a call, after token, scope and visibility were checked in Gitea's order."""
    state = state_of(request)
    who = access.caller(state, request)
    if login or write:
        access.need_login(who)
    access.need_scope(who, area, write=write)
    return state, who, access.repository_of(state, who, request)


def not_found(*errors: str) -> access.RefusedError:
    """Gitea's 404: the same words for all that is missing or hidden."""
    return message(404, "The target couldn't be found.", {"errors": list(errors) or None})


def issue_of(state: State, repo: Doc, request: Request) -> Doc:
    """The issue of the path; an index that is no number is a 500, as measured."""
    number = str(request.path_params["number"])
    if not number.isdecimal():
        raise message(500, "")
    found = state.issue(repo, int(number))
    if found is None:
        raise not_found()
    return found


def pull_of(state: State, repo: Doc, request: Request) -> Doc:
    found = issue_of(state, repo, request)
    if not found["pull"]:
        raise not_found()
    return found


def between(request: Request, found: list[Doc]) -> list[Doc]:
    """`since` and `before` compare with `updated_at` and include the second itself."""
    since, before = _time(request, "since"), _time(request, "before") or "9"
    return [one for one in found if since <= one["updated_at"] <= before]


def _time(request: Request, name: str) -> str:
    given = request.query_params.get(name, "")
    if given and not _TIME.fullmatch(given):
        layout = "2006-01-02T15:04:05Z07:00"
        raise message(422, f'parsing time "{given}" as "{layout}": cannot parse "{given}" as "2006"')
    return given


def page_of(request: Request, shown: list[Any]) -> list[Any]:
    page = max(_number(request, "page", 1), 1)
    limit = min(_number(request, "limit", _PAGE) or _PAGE, _LONGEST_PAGE)
    return shown[(page - 1) * limit : page * limit]


def _number(request: Request, name: str, otherwise: int) -> int:
    given = request.query_params.get(name, "")
    return int(given) if given.isdecimal() else otherwise


def paged(request: Request, shown: list[Any]) -> Response:
    """One page with the number of all; `Link` comes with `linked` only."""
    return Json(page_of(request, shown), headers={"X-Total-Count": str(len(shown))})


def linked(request: Request, shown: list[Any]) -> Response:
    """A page with `Link` to its neighbours where there are any."""
    answer = paged(request, shown)
    limit = min(_number(request, "limit", _PAGE) or _PAGE, _LONGEST_PAGE)
    last = max(-(-len(shown) // limit), 1)
    page = min(max(_number(request, "page", 1), 1), last)
    targets = []
    if page < last:
        targets += [(page + 1, "next"), (last, "last")]
    if page > 1:
        targets += [(1, "first"), (page - 1, "prev")]
    links = [f'<{request.url.include_query_params(page=number)}>; rel="{name}"' for number, name in targets]
    if links:
        answer.headers["Link"] = ",".join(links)
    return answer


def whole(shown: list[Any]) -> Response:
    """All at once, with the number of all."""
    return Json(shown, headers={"X-Total-Count": str(len(shown))})
