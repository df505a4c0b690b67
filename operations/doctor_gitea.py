"""`ccweb doctor`: Gitea. Its version, the bot and its token, one repository and its webhook."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

import preflight
from operations import webhooks
from operations.findings import Finding, fail, ok, skip, warn
from settings import Settings

AREA = "gitea"
_LIMIT = 10.0
_SCOPES = "make a new token with write:issue, write:repository and read:user"
_OLDEST = (1, 22)
_CLOCK_SKEW = 30.0
NO_SUCH_BRANCH = "ccweb-doctor-no-such-branch"


async def examine(settings: Settings, repo: str | None) -> list[Finding]:
    """With `repo` (owner/name) that one is looked at, else the first that the bot may see."""
    if problems := await preflight.gitea(settings):
        return [
            fail(AREA, "bot and token", problem.detail, "see the message; all settings: ccweb settings")
            for problem in problems
        ]
    async with webhooks.api(settings, settings.gitea_token.get_secret_value()) as http:
        findings = [ok(AREA, "bot and token", f"{settings.gitea_url} knows {settings.bot_name}")]
        findings += await server(http)
        found = await _repository(http, repo)
        if isinstance(found, Finding):
            return [*findings, found]
        findings += [permission(found), await issue_scope(http, found), await repository_scope(http, found)]
        return [*findings, await webhook(http, settings, found)]


async def server(http: httpx.AsyncClient) -> list[Finding]:
    answer = await http.get("/version")
    version = str(answer.json().get("version", "?")) if answer.is_success else "?"
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    findings = [ok(AREA, "version", version)]
    if parts < _OLDEST:
        findings = [warn(AREA, "version", version, "ccweb is made for Gitea 1.22 or newer")]
    return [*findings, clock(answer.headers.get("date", ""))]


def clock(date: str, now: datetime | None = None) -> Finding:
    """Markers and the reconciler compare times of both."""
    try:
        skew = abs((parsedate_to_datetime(date) - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, TypeError):
        return skip(AREA, "clock", "Gitea does not tell its time")
    if skew > _CLOCK_SKEW:
        return warn(AREA, "clock", f"Gitea's clock and this host's differ by {skew:.0f} s", "use NTP on both")
    return ok(AREA, "clock", f"agrees with Gitea's within {skew:.0f} s")


async def _repository(http: httpx.AsyncClient, repo: str | None) -> dict[str, Any] | Finding:
    if repo is None:
        answer = await http.get("/user/repos", params={"limit": 1})
        listed = answer.json() if answer.is_success else []
        if listed:
            found: dict[str, Any] = listed[0]
            return found
        fix = "add the bot to a repository as a collaborator who may write"
        return warn(AREA, "repository", "the bot can see no repository yet", fix)
    answer = await http.get(f"/repos/{repo}", follow_redirects=True)
    if answer.status_code == 403:
        return fail(AREA, "token scopes", "the token may not read repositories", _SCOPES)
    if not answer.is_success:
        fix = "check the name; add the bot as a collaborator who may write"
        return fail(AREA, "repository", f"{repo} is not there, or hidden from the bot", fix)
    named: dict[str, Any] = answer.json()
    return named


def permission(repo: dict[str, Any]) -> Finding:
    name = repo["full_name"]
    if repo.get("archived"):
        return fail(AREA, "repository", f"{name} is archived", "nobody can write there; take it out of the archive")
    if not (repo.get("permissions") or {}).get("push"):
        fix = "make the bot a collaborator with write permission"
        return fail(AREA, "repository", f"the bot may not write to {name}", fix)
    return ok(AREA, "repository", f"the bot may write to {name}")


async def issue_scope(http: httpx.AsyncClient, repo: dict[str, Any]) -> Finding:
    """Asks for a reaction to a comment that cannot exist: 404 with the scope, 403 without."""
    path = f"/repos/{repo['full_name']}/issues/comments/0/reactions"
    answer = await http.post(path, json={"content": "eyes"})
    return _scope(answer, "write:issue")


async def repository_scope(http: httpx.AsyncClient, repo: dict[str, Any]) -> Finding:
    """Asks for a pull request of a branch that does not exist: 404 with the scope, 403 without."""
    asked = {"head": NO_SUCH_BRANCH, "base": repo.get("default_branch", "main"), "title": "ccweb doctor"}
    answer = await http.post(f"/repos/{repo['full_name']}/pulls", json=asked)
    return _scope(answer, "write:repository")


def _scope(answer: httpx.Response, scope: str) -> Finding:
    if answer.status_code == 403 and "scope" in answer.text:
        return fail(AREA, "token scopes", f"the token lacks {scope}", _SCOPES)
    return ok(AREA, "token scopes", f"{scope} works")


async def webhook(http: httpx.AsyncClient, settings: Settings, repo: dict[str, Any]) -> Finding:
    """Only an admin of the repository may look at its webhooks."""
    name = repo["full_name"]
    answer = await http.get(f"/repos/{name}/hooks")
    look = f"ccweb repo add {name} --token-file FILE (an admin's token) makes and tests it"
    if answer.status_code in {401, 403}:
        return skip(AREA, "webhook", f"the bot is no admin of {name}, so it cannot look (that is fine)", look)
    ours = [hook for hook in answer.json() if webhooks.is_ours(hook)]
    if not ours:
        told = f"{name} has no webhook to ccweb of its own"
        return warn(AREA, "webhook", told, f"{look}; an organisation's or the system's does as well")
    problems = webhooks.faults(ours[0])
    if problems:
        return fail(AREA, "webhook", f"{ours[0]['config']['url']}: {'; '.join(problems)}", look)
    return ok(AREA, "webhook", f"{ours[0]['config']['url']} sends what is needed")
