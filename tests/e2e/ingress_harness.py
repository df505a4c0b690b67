"""The ingress on a real port, and deliveries to send to it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from temporalio.client import Client

from ingress.app import create_app
from settings import Settings
from tests.signing import signed_headers

WEBHOOKS = Path(__file__).parent.parent / "data" / "webhooks"
SECRET = "lab-webhook-secret"
ROUTE = "/api/gitea/webhook"


@asynccontextmanager
async def serving(settings: Settings, client: Client) -> AsyncIterator[httpx.AsyncClient]:
    """The application behind a real uvicorn; ends with the block."""
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # Otherwise asyncio leaves Nagle on: 40 ms an answer.
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(settings, client), log_config=None, ws="none", access_log=False)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with httpx.AsyncClient(base_url=address, timeout=10) as http:
            while not server.started:
                await asyncio.sleep(0.01)
            yield http
    finally:
        server.should_exit = True
        await task
        listener.close()


def captured(name: str) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a captured delivery."""
    found = json.loads((WEBHOOKS / f"{name}.json").read_text(encoding="utf-8"))
    return found["body"].encode(), found["headers"]


def comment(number: int, delivery: str, *, repository: int = 2, name: str = "demo") -> tuple[bytes, dict[str, str]]:
    """A fresh comment that mentions the bot, on issue `number`."""
    body = json.loads(captured("comment_mention")[0])
    body["issue"]["number"] = number
    body["repository"] |= {"id": repository, "name": name}
    return signed(body, delivery)


def signed(body: dict[str, Any], delivery: str, event_type: str = "issue_comment") -> tuple[bytes, dict[str, str]]:
    raw = json.dumps(body).encode()
    more = {"x-gitea-delivery": delivery, "x-gitea-event-type": event_type}
    return raw, signed_headers(raw, SECRET, more)


async def send(http: httpx.AsyncClient, delivery: tuple[bytes, dict[str, str]], route: str = ROUTE) -> httpx.Response:
    return await http.post(route, content=delivery[0], headers=delivery[1])
