"""Who calls, what the token may do, and the refusals as Gitea words them."""

import base64
import binascii
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from simulators.gitea.state import LEVELS, Doc, State

_SCOPE_OF = {"issue": "issue", "repository": "repository", "user": "user"}


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
    return RefusedError(
        JSONResponse({**(more or {}), "message": text, "url": "http://127.0.0.1/api/swagger"}, status)
    )


def caller(state: State, request: Request) -> Caller:
    """The caller by `Authorization`; an unknown token is refused even where none is needed."""
    header = request.headers.get("authorization", "")
    kind, _, value = header.partition(" ")
    token = _basic(value) if kind.lower() == "basic" else value.strip()
    if not header:
        return Caller(None)
    found = state.user_of_token(token)
    if found is None:
        raise message(401, "user does not exist [uid: 0, name: ]")
    return Caller(found[0], tuple(found[1]))


def _basic(value: str) -> str:
    """The part of a Basic header that is a token: Gitea takes it as user or as password."""
    try:
        user, _, password = base64.b64decode(value).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return password if password and password != "x-oauth-basic" else user  # noqa: S105


def need_login(who: Caller) -> Doc:
    if who.user is None:
        raise message(401, "token is required")
    return who.user


def need_scope(who: Caller, area: str, *, write: bool) -> None:
    """`area` is issue, repository or user."""
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
            raise RefusedError(RedirectResponse(f"{path}{query}", 307))
    if found is None or state.level(found, who.user) == 0:
        raise message(404, "The target couldn't be found.", {"errors": None})
    return found


def need_level(state: State, repo: Doc, who: Caller, level: str) -> None:
    """A missing permission is an empty or HTML 403: errors are not always JSON."""
    if state.level(repo, need_login(who)) < LEVELS[level]:
        raise RefusedError(HTMLResponse("<!DOCTYPE html>\n<html><body>Forbidden</body></html>\n", 403))


def need_not_archived(repo: Doc) -> None:
    if repo["archived"]:
        raise message(423, f"Repo is archived [owner: {repo['owner']}, name: {repo['name']}]")


async def body_of(request: Request) -> Doc:
    try:
        found = await request.json()
    except ValueError:
        raise message(422, "invalid character in JSON") from None
    if not isinstance(found, dict):
        raise message(422, "json: cannot unmarshal into Go value")
    return found


def refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)  # noqa: S101  # registered for this class only
    return error.response


def not_found(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return Response("404 page not found\n", status, media_type="text/plain")
