"""The simulated repository of the demo and the end-to-end tests, and the people who act in it."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from demo.stack import BOT, Stack
from domain import marker
from operations.webhooks import EVENTS

OWNER, OUTSIDER, REPO = "alice", "carol", "demo"
FULL_NAME = f"{OWNER}/{REPO}"
FILES = {
    "README.md": "# demo\n\nA small calculator.\n",
    "calculator.py": "def add(a, b):\n    return a - b\n",
    "test_calculator.py": (
        "import unittest\n\nfrom calculator import add\n\n\nclass TestAdd(unittest.TestCase):\n"
        "    def test_adds(self):\n        self.assertEqual(add(2, 3), 5)\n\n\n"
        'if __name__ == "__main__":\n    unittest.main()\n'
    ),
    "AGENTS.md": "Run the tests with `python3 -m unittest`.\n",
}
T = TypeVar("T")


async def until(condition: Callable[[], Awaitable[T | None]], limit: float, what: str) -> T:
    """Waits until `condition` gives something true and returns it.

    Raises:
        TimeoutError: it did not within `limit` seconds; names `what` was waited for.
    """
    end = time.monotonic() + limit
    while True:
        found = await condition()
        if found:
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"waited {limit:g} s for {what}")
        await asyncio.sleep(0.05)


@dataclass(slots=True)
class Scene:
    """What people do and see in the simulated Gitea."""

    stack: Stack
    http: httpx.AsyncClient
    repo: str = REPO

    @property
    def full_name(self) -> str:
        return f"{OWNER}/{self.repo}"

    async def seed(self) -> int:
        """Makes the people, the repository with its failing test, issue 1 and the webhook; the repository's id."""
        people = [
            {"login": OWNER, "token": self.stack.secrets.owner_token, "scopes": ["all"]},
            {"login": OUTSIDER, "token": self.stack.secrets.outsider_token, "scopes": ["all"]},
            {
                "login": BOT,
                "token": self.stack.secrets.bot_token,
                "scopes": ["write:issue", "write:repository", "read:user"],
            },
        ]
        repository = {
            "owner": OWNER,
            "name": self.repo,
            "files": FILES,
            "collaborators": {BOT: "write"},
            "issues": [{"author": OWNER, "title": "add() subtracts", "body": "`add(2, 3)` gives -1."}],
            "hooks": [
                {
                    "events": list(EVENTS),
                    "active": True,
                    "url": f"{self.stack.ingress_url}/api/gitea/webhook",
                    "secret": self.stack.secrets.webhook,
                }
            ],
        }
        answer = await self.http.post(
            f"{self.stack.gitea_url}/_sim/seed", json={"users": people, "repositories": [repository]}
        )
        answer.raise_for_status()
        return int(answer.json()["repositories"][self.full_name])

    async def comment(self, text: str, number: int = 1, author: str = OWNER) -> int:
        """A person comments; returns the comment's id."""
        path = f"/repos/{self.full_name}/issues/{number}/comments"
        answer = await self.api("POST", path, token=self._tokens()[author], json={"body": text})
        return int(answer["id"])

    async def delivery_of(self, comment: int) -> dict[str, Any] | None:
        """Gitea's delivery of a comment, once it was answered."""
        answer = await self.http.get(f"{self.stack.gitea_url}/_sim/deliveries")
        for delivery in answer.json():
            body = json.loads(delivery["body"])
            made = body.get("action") == "created" and body.get("comment", {}).get("id") == comment
            if delivery["status"] and made:
                found: dict[str, Any] = delivery
                return found
        return None

    async def open_pull(self, head: str) -> int:
        """The owner opens a pull request to main; returns its number."""
        wanted = {"head": head, "base": "main", "title": "A change"}
        return int((await self.api("POST", f"/repos/{self.full_name}/pulls", json=wanted))["number"])

    async def comments(self, number: int = 1) -> list[dict[str, Any]]:
        """The discussion as it stands in Gitea, oldest first."""
        found: list[dict[str, Any]] = await self.api("GET", f"/repos/{self.full_name}/issues/{number}/comments")
        return found

    async def answers(self, task_id: str, number: int = 1) -> list[dict[str, Any]]:
        """The bot's comments that carry an answer or a question of the task."""
        return [
            comment
            for comment in await self.comments(number)
            if comment["user"]["login"] == BOT
            and isinstance(found := marker.parse(comment["body"]), marker.ReplyMarker)
            and found.task_id == task_id
        ]

    async def receipts(self, task_id: str, number: int = 1) -> list[dict[str, Any]]:
        """The bot's comments that are receipts of the task."""
        return [
            comment
            for comment in await self.comments(number)
            if comment["user"]["login"] == BOT
            and isinstance(found := marker.parse(comment["body"]), marker.ReceiptMarker)
            and found.comment_key.startswith(f"{task_id}:")
        ]

    async def reactions(self, comment_id: int) -> set[tuple[str, str]]:
        """Who reacted to a comment with what."""
        found = await self.api("GET", f"/repos/{self.full_name}/issues/comments/{comment_id}/reactions")
        return {(one["user"]["login"], one["content"]) for one in found or []}

    async def branch(self, name: str) -> str | None:
        """The commit a branch points to, if it exists."""
        answer = await self._request("GET", f"/repos/{self.full_name}/branches/{name}")
        return str(answer.json()["commit"]["id"]) if answer.is_success else None

    def _tokens(self) -> dict[str, str]:
        return {OWNER: self.stack.secrets.owner_token, OUTSIDER: self.stack.secrets.outsider_token}

    async def api(self, method: str, path: str, **arguments: Any) -> Any:
        """One call of the REST API, as the owner unless a `token` is given; raises for an error."""
        answer = await self._request(method, path, **arguments)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    async def _request(self, method: str, path: str, token: str | None = None, **arguments: Any) -> httpx.Response:
        return await self.http.request(
            method,
            f"{self.stack.gitea_url}/api/v1{path}",
            headers={"Authorization": f"token {token or self.stack.secrets.owner_token}"},
            **arguments,
        )
