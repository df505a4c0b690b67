"""Who calls, what the token may do, and the refusals as Gitea words them."""

import base64
import binascii
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from simulators.gitea.state import LEVELS, Doc, State


class Json(JSONResponse):
    """JSON with the content type as Gitea writes it."""

    media_type = "application/json;charset=utf-8"


class RefusedError(Exception):
    """Ends a request with the response that Gitea would give."""

    def __init__(self, response: Response) -> None:
        self.response = response


@dataclass(frozen=True, slots=True)
class Caller:
    user: Doc | None
    scopes: tuple[str, ...] = ()

    @property
    def login(self) -> str | None:
        return self.user["login"] if self.user else None


def message(status: int, text: str, more: Doc | None = None) -> RefusedError:
    return RefusedError(Json({**(more or {}), "message": text, "url": "http://127.0.0.1/api/swagger"}, status))


def caller(state: State, request: Request) -> Caller:
    """The caller by `Authorization`; an unknown token is refused even where none is needed."""
    header = request.headers.get("authorization", "")
    kind, _, value = header.partition(" ")
    token = _basic(value) if kind.lower() == "basic" else value.strip()
    token = token or request.query_params.get("token", "")
    if not header and not token:
        return Caller(None)
    found = state.user_of_token(token)
    if found is None:
        raise message(401, "user does not exist [uid: 0, name: ]")
    return Caller(found[0], tuple(found[1]))


def _basic(value: str) -> str:
    """The part of a Basic header that is a token: Gitea takes it as user or as password."""
    user, _, password = _decoded(value).partition(":")
    return password if password and password != "x-oauth-basic" else user  # noqa: S105


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def by_password(state: State, request: Request) -> Doc | None:
    """The user whose name and password a Basic header holds; nobody for a token."""
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    login, _, password = _decoded(value).partition(":") if kind.lower() == "basic" else ("", "", "")
    user = state.user(login)
    return user if user and password and user["password"] == password else None


def need_login(who: Caller) -> Doc:
    if who.user is None:
        raise message(401, "token is required")
    return who.user


def need_scope(who: Caller, area: str, *, write: bool) -> None:
    """`area` is issue, repository, user, organization or admin."""
    if who.user is None or "all" in who.scopes:
        return
    wanted = {f"write:{area}"} if write else {f"write:{area}", f"read:{area}"}
    if not wanted & set(who.scopes):
        name = f"{'write' if write else 'read'}:{area}"
        raise message(403, f"token does not have at least one of required scope(s): [{name}]")


def repository_of(state: State, who: Caller, request: Request) -> Doc:
    """The repository of the path: 404 when hidden or missing, 307 after a rename."""
    owner, name = request.path_params["owner"], request.path_params["repo"]
    found = state.repository(owner, name)
    if found is None:
        moved = state.renamed(owner, name)
        if moved is not None:
            path = request.url.path.replace(f"/{owner}/{name}", f"/{moved['full_name']}", 1)
            query = f"?{request.url.query}" if request.url.query else ""
            raise RefusedError(_moved(request, f"{path}{query}"))
    if found is None or state.level(found, who.user) == 0:
        raise message(404, "The target couldn't be found.", {"errors": None})
    return found


def _moved(request: Request, target: str) -> Response:
    answer = RedirectResponse(target, 307)
    if request.method == "GET":
        answer.headers["Content-Type"] = "text/html; charset=utf-8"
    return answer


def need_level(state: State, repo: Doc, who: Caller, level: str) -> None:
    """Here a missing permission is an HTML 403: errors are not always JSON."""
    if state.level(repo, need_login(who)) < LEVELS[level]:
        raise RefusedError(HTMLResponse("<!DOCTYPE html>\n<html><body>Forbidden</body></html>\n", 403))


def need_writer(state: State, repo: Doc, who: Caller) -> None:
    if state.level(repo, need_login(who)) < LEVELS["write"]:
        raise message(403, "user should have a permission to write to a repo")


def need_admin(state: State, repo: Doc, who: Caller) -> None:
    if state.level(repo, need_login(who)) < LEVELS["admin"]:
        raise message(403, "user should be an owner or a collaborator with admin write of a repository")


def need_owner(state: State, repo: Doc, who: Caller) -> None:
    if state.level(repo, need_login(who)) < LEVELS["owner"]:
        raise message(403, "user should be the owner of the repo")


def need_site_admin(who: Caller, *, write: bool) -> None:
    user = need_login(who)
    need_scope(who, "admin", write=write)
    if not user["admin"]:
        raise message(403, "user should be the site admin")


def need_issues(state: State, repo: Doc, who: Caller) -> None:
    """A switched-off tracker is hidden, but not from the owner."""
    if not repo["has_issues"] and state.level(repo, who.user) < LEVELS["owner"]:
        raise message(404, "The target couldn't be found.", {"errors": None})


def need_not_archived(repo: Doc) -> None:
    if repo["archived"]:
        raise message(423, f"<Repository {repo['id']}:{repo['full_name']}> is archived")


async def body_of(request: Request) -> Doc:
    try:
        found = await request.json()
    except ValueError:
        first = (await request.body())[:1].decode(errors="replace")
        raise message(422, f"[]: invalid character '{first}' looking for beginning of value") from None
    if not isinstance(found, dict):
        raise message(422, "json: cannot unmarshal into Go value")
    return found


def refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)  # noqa: S101  # registered for this class only
    return error.response


def not_found(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return Response("404 page not found\n", status, media_type="text/plain")
