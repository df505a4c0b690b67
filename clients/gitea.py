"""A thin typed client of Gitea's REST API (Gitea 1.22): no policy, no retries.

Answers are validated here, errors mapped once to `GiteaError`. Bodies of errors are never trusted to be JSON.
A renamed repository answers 307: it is followed on the same host only, the token goes nowhere else.
"""

from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import httpx
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from domain.errors import ErrorCode, GiteaError
from settings import Settings

_MOST_REDIRECTS = 3
_PAGE = 50
_MOST_PAGES = 100
T = TypeVar("T")


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class User(_Answer):
    """`id` is negative for Gitea's own accounts (ghost, actions)."""

    id: int = 0
    login: str


class Permissions(_Answer):
    """The asking user's own."""

    push: bool = False
    admin: bool = False


class Repository(_Answer):
    id: int
    name: str
    full_name: str
    owner: User
    default_branch: str
    archived: bool = False
    permissions: Permissions | None = None


class Comment(_Answer):
    """A comment of a conversation; one of `issue_url` and `pull_request_url` ends with its number."""

    id: int
    user: User
    body: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    issue_url: str = ""
    pull_request_url: str = ""


class Issue(_Answer):
    """An issue, or a pull request as an issue: then `pull_request` is there."""

    number: int
    state: str = "open"
    title: str = ""
    body: str | None = None
    user: User | None = None
    assignees: list[User] | None = None
    pull_request: dict[str, Any] | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


class TimelineEntry(_Answer):
    """What happened to an issue; of type `assignees`: who was assigned by whom, or no longer."""

    id: int
    type: str = ""
    user: User | None = None
    assignee: User | None = None
    removed_assignee: bool = False
    created_at: datetime


class PullSide(_Answer):
    ref: str
    sha: str = ""
    repo: Repository | None = None


class Pull(_Answer):
    number: int
    head: PullSide
    base: PullSide


class Permission(_Answer):
    permission: str


class Reaction(_Answer):
    user: User | None = None
    content: str


class Review(_Answer):
    """A review, or a request for one (`state` REQUEST_REVIEW); PENDING ones are its author's alone."""

    id: int
    user: User | None = None
    state: str = ""
    body: str = ""
    submitted_at: datetime


class ReviewComment(_Answer):
    """An inline comment; `path` and `diff_hunk` say where."""

    id: int
    user: User
    body: str = ""
    path: str = ""
    diff_hunk: str = ""


class GiteaClient:
    """Speaks as the bot. Use as an async context manager."""

    def __init__(self, settings: Settings) -> None:
        self._host = urlsplit(settings.gitea_url).netloc
        self._http = httpx.AsyncClient(
            base_url=f"{settings.gitea_url}/api/v1",
            headers={"Authorization": f"token {settings.gitea_token.get_secret_value()}"},
            timeout=settings.rpc_timeout,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self._http.aclose()

    async def repository(self, full_name: str) -> Repository:
        return await self._get(f"/repos/{full_name}", Repository)

    async def pull(self, full_name: str, number: int) -> Pull:
        return await self._get(f"/repos/{full_name}/pulls/{number}", Pull)

    async def comments(self, full_name: str, number: int) -> list[Comment]:
        """The whole discussion of an Issue or PR: this call has no pages.

        Raises:
            GiteaError: repository_unavailable also for a missing issue, which Gitea answers with a 500.
        """
        path = f"/repos/{full_name}/issues/{number}"
        response = await self._request("GET", f"{path}/comments")
        if response.status_code == httpx.codes.INTERNAL_SERVER_ERROR:
            await self._get(path, Issue)
        return _read(response, list[Comment])

    async def create_comment(self, full_name: str, number: int, body: str) -> Comment:
        """Posts a comment; not idempotent, look before and after."""
        response = await self._request("POST", f"/repos/{full_name}/issues/{number}/comments", {"body": body})
        return _read(response, Comment)

    async def react(self, full_name: str, target: str, content: str) -> None:
        """Adds a reaction to `comments/<id>` or `<number>`; adding it again changes nothing."""
        response = await self._request("POST", f"/repos/{full_name}/issues/{target}/reactions", {"content": content})
        _read(response, dict[str, Any])

    async def reactions(self, full_name: str, target: str) -> list[Reaction]:
        """Who reacted to `comments/<id>` or `<number>` with what."""
        response = await self._request("GET", f"/repos/{full_name}/issues/{target}/reactions")
        return _read_list(response, Reaction)

    async def assignees(self, full_name: str) -> list[User]:
        """Everybody who may write, the owner included."""
        return await self._get(f"/repos/{full_name}/assignees", list[User])

    async def my_repositories(self) -> list[Repository]:
        """Every repository that the bot owns or was given."""
        return await self._pages("/user/repos", Repository)

    async def comments_since(self, full_name: str, since: datetime) -> list[Comment]:
        """Comments of all conversations written or changed since then, the second itself included."""
        return await self._pages(f"/repos/{full_name}/issues/comments", Comment, since=_time(since))

    async def issues_since(self, full_name: str, since: datetime) -> list[Issue]:
        """Issues and pull requests in any state that changed since then."""
        return await self._pages(f"/repos/{full_name}/issues", Issue, state="all", since=_time(since))

    async def timeline(self, full_name: str, number: int) -> list[TimelineEntry]:
        """Everything that happened to an Issue or PR, oldest first."""
        return await self._pages(f"/repos/{full_name}/issues/{number}/timeline", TimelineEntry, counted=False)

    async def reviews(self, full_name: str, number: int) -> list[Review]:
        """All reviews of a PR, oldest first."""
        return await self._pages(f"/repos/{full_name}/pulls/{number}/reviews", Review)

    async def review_comments(self, full_name: str, number: int, review: int) -> list[ReviewComment]:
        """The inline comments of one review."""
        return await self._get(f"/repos/{full_name}/pulls/{number}/reviews/{review}/comments", list[ReviewComment])

    async def permission(self, full_name: str, login: str) -> Permission:
        """A user's level; needs the bot to be an admin of the repository."""
        return await self._get(f"/repos/{full_name}/collaborators/{login}/permission", Permission)

    async def _get(self, path: str, kind: type[T]) -> T:
        return _read(await self._request("GET", path), kind)

    async def _pages(self, path: str, kind: type[T], *, counted: bool = True, **query: str | int) -> list[T]:
        """Every page of a list; `counted` says that X-Total-Count counts all of it.

        Gitea caps `limit`, so the first short page is not yet the end, an empty one is.
        """
        found: list[T] = []
        for page in range(1, _MOST_PAGES + 1):
            parameters = urlencode({**query, "page": page, "limit": _PAGE})
            answer = await self._request("GET", f"{path}?{parameters}")
            items = _read_list(answer, kind)
            found += items
            total = int(answer.headers.get("X-Total-Count", len(found) + 1))
            if not items or (counted and len(found) >= total):
                return found
        return found

    async def _request(self, method: str, path: str, body: dict[str, str] | None = None) -> httpx.Response:
        url: str | httpx.URL = path
        for _ in range(_MOST_REDIRECTS):
            try:
                response = await self._http.request(method, url, json=body)
            except httpx.HTTPError as error:
                raise GiteaError(ErrorCode.GITEA_UNAVAILABLE, f"{method} {path}: {type(error).__name__}") from error
            if not response.is_redirect:
                return response
            url = response.url.join(response.headers["location"])
            if url.netloc.decode() != self._host:
                raise GiteaError(ErrorCode.REPOSITORY_UNAVAILABLE, "redirected to another host")
        raise GiteaError(ErrorCode.REPOSITORY_UNAVAILABLE, "redirected too often")


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read(response: httpx.Response, kind: type[T]) -> T:
    if not response.is_success:
        raise _error(response)
    try:
        return TypeAdapter(kind).validate_json(response.content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        detail = f"{response.request.url.path}: {first['loc']}: {first['msg']}"
        raise GiteaError(ErrorCode.GITEA_UNAVAILABLE, detail) from error


def _read_list(response: httpx.Response, kind: type[T]) -> list[T]:
    """Some of Gitea's lists are `null` when they are empty."""
    found: list[T] | None = _read(response, list[kind] | None)  # type: ignore[valid-type, arg-type]
    return found or []


def _error(response: httpx.Response) -> GiteaError:
    """The code of a refusal; a 403 names a missing scope in words, if it says anything at all."""
    status, text = response.status_code, response.text[:300]
    match status:
        case 401:
            code = ErrorCode.GITEA_AUTH_FAILED
        case 403:
            code = ErrorCode.TOKEN_SCOPE_MISSING if "scope" in text else ErrorCode.REPOSITORY_UNAVAILABLE
        case _ if status >= 500 or status in {408, 429}:
            code = ErrorCode.GITEA_UNAVAILABLE
        case _:
            code = ErrorCode.REPOSITORY_UNAVAILABLE
    return GiteaError(code, f"{response.request.method} {response.request.url.path}: {status}")
