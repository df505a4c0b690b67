"""What a whole task costs beside git, Codex and Gitea: time, history, and how soon a person sees the receipt."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import httpx
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from bench.row import Row, median, ms, percentile
from demo.scene import FULL_NAME, Scene, until
from demo.stack import BOT, Ports, Stack
from domain import ids

_TASKS = 15
_COMMENT = f"@{BOT} [[script:reply-only]] ".ljust(1024, "x")
_LOOK = 0.02
_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One task as a person and Temporal saw it; seconds."""

    receipt: float
    overhead: float
    history: list[HistoryEvent]


async def rows(directory: Path) -> list[Row]:
    """One task after another on the same Issue, each a comment of 1 kB answered by the scripted model."""
    stack = Stack(directory, Ports.any())
    try:
        await stack.start_anywhere()
        async with httpx.AsyncClient(timeout=20) as http:
            scene = Scene(stack, http)
            await scene.seed()
            client = await Client.connect(stack.temporal_address, data_converter=pydantic_data_converter)
            await _task(scene, client)
            before = await _shared(client)
            seen = [await _task(scene, client) for _ in range(_TASKS)]
            return _summary(seen, (await _shared(client))[len(before) :])
    finally:
        await stack.stop()


def _summary(seen: list[Seen], shared: list[HistoryEvent]) -> list[Row]:
    """`shared` is what all tasks together added to their session and repository."""
    receipts, overheads = [one.receipt for one in seen], [one.overhead for one in seen]
    everything = [*shared, *(event for one in seen for event in one.history)]
    events, size = len(everything) / len(seen), sum(event.ByteSize() for event in everything) / len(seen) / 1000
    detail = "task, session and repository together; a comment of 1 kB"
    return [
        Row("mention to visible receipt, p95", percentile(receipts, 0.95), 2, "s", f"p50 {ms(median(receipts))}"),
        Row("own overhead per task, p50", median(overheads), 0.6, "s", f"p95 {ms(percentile(overheads, 0.95))}"),
        Row("history per task, events", events, 100, "events", detail),
        Row("history per task, size", size, 60, "kB", detail),
    ]


async def _task(scene: Scene, client: Client) -> Seen:
    began = time.monotonic()
    comment = await scene.comment(_COMMENT)
    task_id = await until(lambda: _task_of(scene, comment), _LIMIT, "the delivery")
    receipt = asyncio.create_task(_receipt(scene, task_id, began))
    await until(lambda: _exists(client, task_id), _LIMIT, "the task")
    history = await _history(client, task_id, to_its_end=True)
    return Seen(await receipt, _overhead(history), history)


async def _shared(client: Client) -> list[HistoryEvent]:
    """The histories of the session and the repository, all their runs."""
    repo_key = ids.repo_key(*FULL_NAME.split("/"))
    session = ids.session_workflow_id(ids.resource_key(repo_key, "issue", 1))
    found = []
    for workflow_id in (session, ids.repository_workflow_id(1)):
        runs = [one async for one in client.list_workflows(f'WorkflowId = "{workflow_id}"')]
        for run in sorted(runs, key=lambda one: one.start_time):
            found += await _history(client, workflow_id, run.run_id)
    return found


async def _task_of(scene: Scene, comment: int) -> str | None:
    delivery = await scene.delivery_of(comment)
    return ids.task_id(ids.delivery_key(delivery["id"])) if delivery else None


async def _receipt(scene: Scene, task_id: str, began: float) -> float:
    while not await scene.receipts(task_id):
        await asyncio.sleep(_LOOK)
    return time.monotonic() - began


async def _history(
    client: Client, workflow_id: str, run_id: str | None = None, *, to_its_end: bool = False
) -> list[HistoryEvent]:
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    return [event async for event in handle.fetch_history_events(wait_new_event=to_its_end)]


async def _exists(client: Client, workflow_id: str) -> bool:
    try:
        await client.get_workflow_handle(workflow_id).describe()
    except RPCError:
        return False
    return True


def _overhead(history: list[HistoryEvent]) -> float:
    """From the task's start to its end without the time in which an activity ran."""
    spans = _activities(history)
    total = _seconds(history[-1]) - _seconds(history[0])
    return total - sum(end - start for start, end in merged(spans))


def _activities(history: Iterable[HistoryEvent]) -> list[tuple[float, float]]:
    started: dict[int, float] = {}
    spans = []
    for event in history:
        match event.event_type:
            case EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
                started[event.event_id] = _seconds(event)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                done = event.activity_task_completed_event_attributes
                spans.append((started[done.started_event_id], _seconds(event)))
    return spans


def merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Activities may run side by side; the time of both counts once."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _seconds(event: HistoryEvent) -> float:
    return event.event_time.ToNanoseconds() / 1e9
