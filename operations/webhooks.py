"""The webhook of a repository: what it must be, how it is made, and whether a delivery of it arrives."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from domain.audit import AuditEvent
from domain.errors import CcwebError, ErrorCode
from operations import trail
from operations.findings import Finding, fail, ok, skip
from settings import Settings

AREA = "webhook"
EVENTS = (
    "issues_only",
    "issue_assign",
    "issue_comment",
    "pull_request_only",
    "pull_request_assign",
    "pull_request_comment",
    "pull_request_review",
    "pull_request_sync",
)
"""What ingress can use, as the API calls it; its answer lists the types that came of it."""
NEEDED = ("issues", "issue_comment", "pull_request", "pull_request_comment")
PATHS = ("/api/gitea/webhook", "/webhook/gitea")
_LIMIT = 10.0
_POLL = 0.2


@asynccontextmanager
async def api(settings: Settings, token: str) -> AsyncIterator[httpx.AsyncClient]:
    """Gitea's API as whoever the token belongs to.

    Raises:
        CcwebError: `gitea_unavailable`; may be retried.
    """
    headers = {"Authorization": f"token {token}"}
    try:
        async with httpx.AsyncClient(
            base_url=f"{settings.gitea_url}/api/v1", headers=headers, timeout=_LIMIT
        ) as http:
            yield http
    except httpx.HTTPError as error:
        raise CcwebError(ErrorCode.GITEA_UNAVAILABLE, f"{settings.gitea_url}: {type(error).__name__}") from None


def is_ours(hook: dict[str, Any]) -> bool:
    """Whether it leads to an ingress of ccweb."""
    return str(hook.get("config", {}).get("url", "")).rstrip("/").endswith(PATHS)


def faults(hook: dict[str, Any]) -> list[str]:
    """What would keep deliveries away, or unreadable."""
    found = [] if hook.get("active") else ["it is not active"]
    if hook.get("config", {}).get("content_type") not in {"json", "form"}:
        found.append("its content type is neither json nor form")
    missing = [event for event in NEEDED if event not in (hook.get("events") or [])]
    return [*found, *([f"it does not send {', '.join(missing)}"] if missing else [])]


async def add(settings: Settings, token: str, repo: str, url: str, wait: float) -> list[Finding]:
    """Makes the webhook, or mends the one that is there, and sends a test delivery through it, which has `wait`
    seconds to arrive.

    Raises:
        CcwebError: `settings_invalid`, there is no secret; `gitea_unavailable`, may be retried.
    """
    if not settings.secrets:
        raise CcwebError(ErrorCode.SETTINGS_INVALID, "CCWEB_WEBHOOK_SECRETS: set it before the webhook is made")
    async with api(settings, token) as http:
        made = await _make(http, settings, repo, url)
        if isinstance(made, Finding):
            return [made]
        findings = [ok(AREA, "webhook", f"{repo} sends to {url}")]
        return [*findings, await _test(http, settings, f"/repos/{repo}/hooks/{made['id']}/tests", wait)]


async def _make(http: httpx.AsyncClient, settings: Settings, repo: str, url: str) -> dict[str, Any] | Finding:
    wanted = {
        "type": "gitea",
        "config": {"url": url, "content_type": "json", "secret": settings.secrets[0]},
        "events": list(EVENTS),
        "active": True,
        "branch_filter": "*",
    }
    listed = await http.get(f"/repos/{repo}/hooks")
    if refusal := _refused(listed, repo):
        return refusal
    same = [hook for hook in listed.json() if hook.get("config", {}).get("url") == url]
    if same:
        answer = await http.patch(f"/repos/{repo}/hooks/{same[0]['id']}", json=wanted)
    else:
        answer = await http.post(f"/repos/{repo}/hooks", json=wanted)
    if refusal := _refused(answer, repo):
        return refusal
    made: dict[str, Any] = answer.json()
    problems = faults(made)
    return fail(AREA, "webhook", "; ".join(problems), "make it by hand in the web page") if problems else made


def _refused(answer: httpx.Response, repo: str) -> Finding | None:
    if answer.is_success:
        return None
    match answer.status_code:
        case 401:
            return fail(AREA, "webhook", "Gitea refuses the token", "give the token of an admin: --token-file FILE")
        case 403:
            fix = "give the token (write:repository) of an admin of the repository: --token-file FILE"
            return fail(AREA, "webhook", f"this token may not make webhooks of {repo}", fix)
        case 404:
            return fail(AREA, "webhook", f"{repo} is not there, or hidden from this token", "check the name")
        case status:
            return fail(AREA, "webhook", f"Gitea answers {status}", "look at Gitea's log")


async def _test(http: httpx.AsyncClient, settings: Settings, path: str, wait: float) -> Finding:
    """Gitea's test is a normal signed push, which ingress ignores and notes in its stream on this host."""
    known = {event.event_id for event in trail.of_ingress(settings)}
    answer = await http.post(path)
    if answer.status_code >= 500:
        return skip(AREA, "delivery", "an empty repository cannot be tested", "push a commit, then run this again")
    if not answer.is_success:
        return fail(AREA, "delivery", f"the test was refused with {answer.status_code}", "look at Gitea's log")
    arrived = await _arrived(settings, known, wait)
    if arrived is None:
        fix = (
            "is the ingress running on this host, and can Gitea reach the URL? Gitea only calls what [webhook]"
            " ALLOWED_HOST_LIST allows (default: no private addresses); the webhook's page shows each delivery"
        )
        return fail(AREA, "delivery", f"nothing arrived within {wait:g} s", fix)
    if arrived.to_state == "refused":
        fix = "the ingress runs with another CCWEB_WEBHOOK_SECRETS; set both alike and restart it"
        return fail(AREA, "delivery", "it arrived, but its signature does not fit", fix)
    return ok(AREA, "delivery", "a signed test delivery arrived")


async def _arrived(settings: Settings, known: set[str], wait: float) -> AuditEvent | None:
    until = time.monotonic() + wait
    while time.monotonic() < until:
        fresh = [event for event in trail.of_ingress(settings) if event.event_id not in known]
        if fresh:
            return fresh[-1]
        await asyncio.sleep(_POLL)
    return None
