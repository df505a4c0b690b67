"""Webhooks as Gitea sends them: one after another for the whole server, 5 s each, never again."""

import asyncio
import contextlib
import hmac
import json
import uuid

import httpx

from simulators.gitea.state import Doc, State
from simulators.gitea.subscriptions import covers

_LIMIT = 5.0
_FAMILIES = ("X-Gitea", "X-Gogs", "X-GitHub")


class Deliveries:
    """Queues deliveries in the state, so that those not yet sent survive a restart."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._more = asyncio.Event()

    def add(self, repo: Doc, event: str, event_type: str, body: Doc) -> None:
        """One delivery per matching webhook of repository, owner and server, each with its own id."""
        text = _text(body)
        hooks = self.state.docs["hooks"]
        mine = [hook for hook in hooks if hook.get("repository") == repo["id"]]
        owners = [hook for hook in hooks if hook.get("org") == repo["owner"]]
        for hook in [*mine, *owners, *(hook for hook in hooks if hook.get("system"))]:
            if hook["active"] and covers(hook, event_type):
                self._queue(hook, event, event_type, text)

    def send(self, hook: Doc, event: str, event_type: str, body: Doc) -> None:
        """To one webhook, whatever it subscribed."""
        self._queue(hook, event, event_type, _text(body))

    def again(self, delivery_id: str) -> bool:
        """A manual redelivery: the same bytes and signature under a new id."""
        known = next((one for one in self.state.docs["deliveries"] if one["id"] == delivery_id), None)
        hook = next((one for one in self.state.docs["hooks"] if known and one["id"] == known["hook"]), None)
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
        self.state.docs["deliveries"].append(delivery)
        self.state.docs["queue"].append(delivery["id"])
        self.state.save()
        self._more.set()

    async def run(self) -> None:
        """Sends for ever. The one in flight when the server dies is not sent again."""
        async with httpx.AsyncClient(timeout=_LIMIT, headers={"User-Agent": "Go-http-client/1.1"}) as client:
            while True:
                while self.state.docs["queue"]:
                    number = self.state.docs["queue"].pop(0)
                    self.state.save()
                    await self._send(client, next(d for d in self.state.docs["deliveries"] if d["id"] == number))
                self._more.clear()
                await self._more.wait()

    async def _send(self, client: httpx.AsyncClient, delivery: Doc) -> None:
        hook = next(one for one in self.state.docs["hooks"] if one["id"] == delivery["hook"])
        delivery["status"] = 0
        with contextlib.suppress(httpx.HTTPError, TimeoutError):
            async with asyncio.timeout(_LIMIT):
                content = delivery["body"].encode()
                answer = await client.post(
                    delivery["url"], content=content, headers=_headers(delivery, hook["secret"])
                )
                delivery["status"] = answer.status_code
        self.state.save()


def _text(body: Doc) -> str:
    """Indented JSON, in which only three characters are escaped."""
    text = json.dumps(body, indent=2, ensure_ascii=False)
    for plain, written in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(plain, written)
    return text


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
