"""Webhooks as Gitea sends them: one after another for the whole server, 5 s each, never again."""

import asyncio
import contextlib
import hmac
import json
import uuid
from urllib.parse import urlencode

import httpx

from simulators.gitea.state import Doc, State
from simulators.gitea.subscriptions import covers

_LIMIT = 5.0
_FAMILIES = ("X-Gitea", "X-Gogs", "X-GitHub")


class Deliveries:
    """Deliveries and their outcomes, kept in a file that only grows: what was not yet sent survives a restart."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._path = state.root / "deliveries.jsonl"
        self.all: dict[str, Doc] = {}
        for line in self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []:
            found = json.loads(line)
            self.all[found["id"]] = self.all.get(found["id"], {}) | found
        self._waiting = [one["id"] for one in self.all.values() if one["status"] is None]
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
        known = self.all.get(delivery_id)
        hook = known and self._hook_of(known)
        if not known or not hook:
            return False
        self._queue(hook, known["event"], known["type"], known["body"])
        return True

    def _hook_of(self, delivery: Doc) -> Doc | None:
        return next((one for one in self.state.docs["hooks"] if one["id"] == delivery["hook"]), None)

    def _queue(self, hook: Doc, event: str, event_type: str, text: str) -> None:
        made = {"id": str(uuid.uuid4()), "hook": hook["id"], "event": event, "type": event_type}
        self._note({**made, "url": hook["url"], "body": text, "status": None})
        self._waiting.append(made["id"])
        self._more.set()

    def _note(self, delivery: Doc) -> None:
        self.all[delivery["id"]] = self.all.get(delivery["id"], {}) | delivery
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(delivery) + "\n")

    async def run(self) -> None:
        """Sends for ever. The one in flight when the server dies is not sent again."""
        agent = {"User-Agent": "Go-http-client/1.1"}
        async with httpx.AsyncClient(timeout=_LIMIT, headers=agent, follow_redirects=True) as client:
            while True:
                while self._waiting:
                    await self._send(client, self.all[self._waiting.pop(0)])
                self._more.clear()
                await self._more.wait()

    async def _send(self, client: httpx.AsyncClient, delivery: Doc) -> None:
        """A redirect is followed: after a 302 as a GET without body."""
        self._note({"id": delivery["id"], "status": 0})
        hook = self._hook_of(delivery)
        if hook is None:
            return
        with contextlib.suppress(httpx.HTTPError, httpx.InvalidURL, TimeoutError):
            async with asyncio.timeout(_LIMIT):
                content, headers = _content(delivery["body"], hook), _headers(delivery, hook)
                answer = await client.post(delivery["url"], content=content, headers=headers)
                self._note({"id": delivery["id"], "status": answer.status_code})


def _content(text: str, hook: Doc) -> bytes:
    """As a form the JSON is one field; the signature covers the JSON all the same."""
    return (urlencode({"payload": text}) if hook["content_type"] == "form" else text).encode()


def _text(body: Doc) -> str:
    """Indented JSON, in which only three characters are escaped."""
    text = json.dumps(body, indent=2, ensure_ascii=False)
    for plain, written in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(plain, written)
    return text


def _headers(delivery: Doc, hook: Doc) -> dict[str, str]:
    content, secret = delivery["body"].encode(), hook["secret"].encode()
    digests = {name: hmac.new(secret, content, name).hexdigest() if secret else "" for name in ("sha256", "sha1")}
    form = hook["content_type"] == "form"
    headers = {
        "Content-Type": "application/x-www-form-urlencoded" if form else "application/json",
        "X-Gitea-Signature": digests["sha256"],
        "X-Gogs-Signature": digests["sha256"],
        "X-Hub-Signature": f"sha1={digests['sha1']}",
        "X-Hub-Signature-256": f"sha256={digests['sha256']}",
        **({"Authorization": hook["authorization_header"]} if hook["authorization_header"] else {}),
    }
    for family in _FAMILIES:
        headers |= {
            f"{family}-Delivery": delivery["id"],
            f"{family}-Event": delivery["event"],
            f"{family}-Event-Type": delivery["type"],
        }
    return headers
