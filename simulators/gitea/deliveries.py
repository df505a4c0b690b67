"""Webhooks as Gitea sends them: one after another for the whole server, 5 s each, never again."""

import asyncio
import contextlib
import hmac
import json
import uuid
from typing import Any

import httpx

from simulators.gitea import shapes
from simulators.gitea.state import Doc, State

_LIMIT = 5.0
_FAMILIES = ("X-Gitea", "X-Gogs", "X-GitHub")
# What each subscribed word really delivers.
_COVERS = {
    "issue_comment": {"issue_comment"},
    "pull_request_comment": {"pull_request_comment", "pull_request_review_comment"},
    "issues": {"issues", "issue_assign", "issue_label", "issue_milestone", "issue_comment"},
    "issues_only": {"issues"},
    "pull_request": {"pull_request", "pull_request_comment", "pull_request_sync", "pull_request_assign"},
    "pull_request_only": {"pull_request"},
    "pull_request_sync": {"pull_request_sync"},
    "pull_request_review": {"pull_request_review_approved", "pull_request_review_rejected"},
    "push": {"push"},
    "create": {"create"},
}


class Deliveries:
    """Queues deliveries in the state, so that those not yet sent survive a restart."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._more = asyncio.Event()

    def comment(self, repo: Doc, number: int, comment: Doc, action: str, sender: str, was: str | None = None) -> None:
        issue = self._state.issue(repo, number)
        if issue is None:
            return
        is_pull = bool(issue["pull"])
        body: dict[str, Any] = {
            "action": action,
            "issue": shapes.issue(self._state, repo, issue),
            "comment": shapes.comment(self._state, repo, comment),
        }
        if was is not None:
            body["changes"] = {"body": {"from": was}}
        body |= {
            "repository": shapes.repository(self._state, repo, sender),
            "sender": shapes.user(self._state, sender),
            "is_pull": is_pull,
        }
        self.add(repo, "issue_comment", "pull_request_comment" if is_pull else "issue_comment", body)

    def issue(self, repo: Doc, issue: Doc, action: str, sender: str) -> None:
        shown = shapes.issue(self._state, repo, issue)
        kind = "pull_request" if issue["pull"] else "issues"
        body = {
            "action": action,
            "number": issue["number"],
            ("pull_request" if issue["pull"] else "issue"): shown,
            "repository": shapes.repository(self._state, repo, issue["author"]),
            "sender": shapes.user(self._state, sender),
            "commit_id": "",
        }
        self.add(repo, kind, kind, body)

    def push(self, repo: Doc, ref: str, before: str, after: str, sender: str) -> None:
        body = {
            "ref": ref,
            "before": before,
            "after": after,
            "compare_url": "",
            "commits": [],
            "total_commits": 0,
            "head_commit": None,
            "repository": shapes.repository(self._state, repo, repo["owner"]),
            "pusher": shapes.user(self._state, sender),
            "sender": shapes.user(self._state, sender),
        }
        self.add(repo, "push", "push", body)

    def add(self, repo: Doc, event: str, event_type: str, body: Doc) -> None:
        """One delivery per matching webhook, each with its own id."""
        text = json.dumps(body, indent=2, ensure_ascii=False)
        for plain, written in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
            text = text.replace(plain, written)
        for hook in self._state.docs["hooks"]:
            covered: set[str] = set().union(*(_COVERS.get(word, set()) for word in hook["events"]))
            if hook["repository"] == repo["id"] and hook["active"] and event_type in covered:
                self._queue(hook, event, event_type, text)

    def again(self, delivery_id: str) -> bool:
        """A manual redelivery: the same bytes and signature under a new id."""
        known = next((one for one in self._state.docs["deliveries"] if one["id"] == delivery_id), None)
        hook = next((one for one in self._state.docs["hooks"] if known and one["id"] == known["hook"]), None)
        if known is None or hook is None:
            return False
        self._queue(hook, known["event"], known["type"], known["body"])
        return True

    def _queue(self, hook: Doc, event: str, event_type: str, text: str) -> None:
        delivery = {
            "id": str(uuid.uuid4()),
            "hook": hook["id"],
            "event": event,
            "type": event_type,
            "url": hook["url"],
            "body": text,
            "status": None,
        }
        self._state.docs["deliveries"].append(delivery)
        self._state.docs["queue"].append(delivery["id"])
        self._state.save()
        self._more.set()

    async def run(self) -> None:
        """Sends for ever. The one in flight when the server dies is not sent again."""
        async with httpx.AsyncClient(timeout=_LIMIT, headers={"User-Agent": "Go-http-client/1.1"}) as client:
            while True:
                while self._state.docs["queue"]:
                    number = self._state.docs["queue"].pop(0)
                    self._state.save()
                    await self._send(client, next(d for d in self._state.docs["deliveries"] if d["id"] == number))
                self._more.clear()
                await self._more.wait()

    async def _send(self, client: httpx.AsyncClient, delivery: Doc) -> None:
        hook = next(one for one in self._state.docs["hooks"] if one["id"] == delivery["hook"])
        delivery["status"] = 0
        with contextlib.suppress(httpx.HTTPError, TimeoutError):
            async with asyncio.timeout(_LIMIT):
                content = delivery["body"].encode()
                answer = await client.post(
                    delivery["url"], content=content, headers=_headers(delivery, hook["secret"])
                )
                delivery["status"] = answer.status_code
        self._state.save()


def _headers(delivery: Doc, secret: str) -> dict[str, str]:
    content = delivery["body"].encode()
    digests = {
        name: hmac.new(secret.encode(), content, name).hexdigest() if secret else "" for name in ("sha256", "sha1")
    }
    headers = {
        "Content-Type": "application/json",
        "X-Gitea-Signature": digests["sha256"],
        "X-Gogs-Signature": digests["sha256"],
        "X-Hub-Signature": f"sha1={digests['sha1']}",
        "X-Hub-Signature-256": f"sha256={digests['sha256']}",
    }
    for family in _FAMILIES:
        headers |= {
            f"{family}-Delivery": delivery["id"],
            f"{family}-Event": delivery["event"],
            f"{family}-Event-Type": delivery["type"],
        }
    return headers
