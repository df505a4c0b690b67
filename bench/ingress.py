"""Webhook to durable 202 against the bare signal-with-start of the same event, turn by turn in one run.

No worker runs: what is compared is the way into Temporal's history and nothing behind it. Each event opens a
session of its own, on both sides.
"""

import asyncio
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from bench.row import Row, median, ms, percentile
from demo.stack import BOT, Ports, Stack
from domain import ids
from domain.events import SessionStart, TaskEvent
from domain.triggers import task_event
from ingress.gitea import RawDelivery, judge, payload_hash
from policy import policy_of
from settings import load_settings

BODY_BYTES = 8 * 1024
_BLOCKS, _CALLS = 12, 60
_AT_ONCE, _BURST, _BURSTS = 16, 400, 4
Call = Callable[[], Awaitable[None]]


async def rows(directory: Path) -> list[Row]:
    """p50 one after another, and the rate with many at once."""
    stack = Stack(directory, Ports.any())
    try:
        await stack.start("temporal", "ingress")
        client = await Client.connect(stack.temporal_address, data_converter=pydantic_data_converter)
        bare, webhook = Bare(client, _deliveries(stack, 1)), Webhook(stack, _deliveries(stack, 10_000_000))
        await _one_by_one(bare.call, _CALLS)
        await _one_by_one(webhook.call, _CALLS)
        return [await _latency(bare.call, webhook.call), await _rate(bare.call, webhook.call)]
    finally:
        await stack.stop()


async def _latency(bare: Call, webhook: Call) -> Row:
    times: dict[Call, list[float]] = {bare: [], webhook: []}
    for _ in range(_BLOCKS):
        for call in (bare, webhook):
            times[call] += await _one_by_one(call, _CALLS)
    plain, ours = median(times[bare]), median(times[webhook])
    detail = f"{ms(ours)} against {ms(plain)}; p99 {ms(percentile(times[webhook], 0.99))}"
    return Row("webhook to 202, p50 against bare signal-with-start", ours / plain, 1.15, "x", detail)


async def _rate(bare: Call, webhook: Call) -> Row:
    seconds: dict[Call, float] = {bare: 0, webhook: 0}
    for _ in range(_BURSTS):
        for call in (bare, webhook):
            began = time.perf_counter()
            await asyncio.gather(*(_one_by_one(call, _BURST // _AT_ONCE) for _ in range(_AT_ONCE)))
            seconds[call] += time.perf_counter() - began
    plain, ours = (_BURST * _BURSTS / seconds[call] for call in (bare, webhook))
    detail = f"{ours:.0f}/s against {plain:.0f}/s, {_AT_ONCE} at once"
    return Row("webhook to 202, rate against bare signal-with-start", ours / plain, 0.85, "x", detail, at_least=True)


async def _one_by_one(call: Call, count: int) -> list[float]:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        times.append(time.perf_counter() - began)
    return times


@dataclass(frozen=True, slots=True)
class Delivery:
    """The same comment as bytes on the wire and as the event that ingress makes of it."""

    request: bytes
    event: TaskEvent


class Bare:
    """Signal-with-start by the SDK, as ingress calls it."""

    def __init__(self, client: Client, deliveries: Iterator[Delivery]) -> None:
        self._client, self._deliveries = client, deliveries

    async def call(self) -> None:
        event = next(self._deliveries).event
        await self._client.start_workflow(
            "Session",
            SessionStart(session_key=event.session_key, repository=event.repository),
            id=ids.session_workflow_id(event.session_key),
            task_queue=ids.TASK_QUEUE,
            start_signal="deliver",
            start_signal_args=[event],
        )


class Webhook:
    """A client that costs next to nothing: raw bytes over connections that stay open, as Gitea keeps them."""

    def __init__(self, stack: Stack, deliveries: Iterator[Delivery]) -> None:
        self._port, self._deliveries = stack.ports.ingress, deliveries
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call(self) -> None:
        connection = await self._open()
        reader, writer = connection
        writer.write(next(self._deliveries).request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        if b" 202 " not in head.split(b"\r\n")[0]:
            raise RuntimeError(f"{head!r} {body!r}")
        self._idle.append(connection)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that the server has not closed meanwhile."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection("127.0.0.1", self._port)


def _deliveries(stack: Stack, first: int) -> Iterator[Delivery]:
    for number in itertools.count(first):
        yield _delivery(stack, number)


def _delivery(stack: Stack, number: int) -> Delivery:
    body = json.dumps(_payload(number)).encode()
    secret = stack.secrets.webhook
    headers = {
        "host": "ingress",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "x-gitea-delivery": f"{number:032x}",
        "x-gitea-event": "issue_comment",
        "x-gitea-event-type": "issue_comment",
        "x-gitea-signature": hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"POST /api/gitea/webhook HTTP/1.1\r\n{lines}\r\n".encode() + body
    decision = judge(RawDelivery("POST", headers, body), [secret], policy_of(load_settings()))
    event = task_event(
        decision,
        repo_key="default:alice/demo",
        received_at=datetime.now(UTC),
        payload_hash=payload_hash(body),
        traceparent="",
    )
    return Delivery(request, event)


def _payload(number: int) -> dict[str, Any]:
    """A comment on an Issue of its own, 8 KB of which most is the Issue's text, as in real life."""
    alice = {"id": 1, "login": "alice", "username": "alice"}
    repository = {
        "id": 2, "name": "demo", "full_name": "alice/demo", "owner": alice, "private": False,
        "default_branch": "main", "archived": False,
    }  # fmt: skip
    issue = {"id": number, "number": number, "user": alice, "title": "Slow", "state": "open"}
    payload = {
        "action": "created",
        "issue": issue,
        "comment": {"id": number, "user": alice, "body": f"@{BOT} please look", "updated_at": "2026-12-01T00:00:00Z"},
        "repository": repository,
        "sender": alice,
        "is_pull": False,
    }
    return payload | {"issue": issue | {"body": "x" * (BODY_BYTES - len(json.dumps(payload)))}}
