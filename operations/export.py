"""Brings the audit archive up to date: what Temporal, the journals and the ingress stream hold and it does not.

The archive itself is the memory. `state.json` beside it only saves reading all of it again: when it is missing or
does not fit the files, it is made anew from them. So a kill at any moment costs nothing but that work.
"""

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client

from domain import audit, ids
from domain import search_attributes as names
from domain.audit import AuditEvent
from operations import archive, trail, visibility
from operations.archive import Head
from operations.visibility import Run, quoted
from settings import Settings

_STATE = "state.json"
_OVERLAP = timedelta(minutes=10)
"""Lists are a little late: this much is looked at again."""
_FORGET = timedelta(days=2)
"""A run that closed this long before the watermark is not looked at any more."""
_EVER = "2000-01-01T00:00:00+00:00"
_BATCH = 20
_MAX_RUNS = 100_000


@dataclass(slots=True)
class State:
    """`seen` is per run the last exported place, and per journal the number of its exported lines."""

    head: Head = field(default_factory=Head)
    sizes: dict[str, int] = field(default_factory=dict)
    since: str = ""
    seen: dict[str, list[int]] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)
    ingress: str = ""


@dataclass(frozen=True, slots=True)
class Exported:
    added: int
    head: Head


async def export(client: Client, settings: Settings, progress: Callable[[int], None] = lambda _: None) -> Exported:
    """Appends what is missing. Safe to repeat and to kill; `progress` gets the number of lines so far.

    Raises:
        CcwebError: `temporal_unavailable`; may be retried.
        OSError: the archive cannot be written; BlockingIOError, another export is at it.
    """
    folder = settings.state_dir / archive.FOLDER
    started = datetime.now(UTC)
    with archive.locked(folder):
        archive.mend(folder)
        state = await asyncio.to_thread(_load, folder)
        before = state.head.seq
        _append(folder, state, _fresh_ingress(settings, state))
        async with visibility.asking(3600):
            runs = await _changed_runs(client, state)
            for start in range(0, len(runs), _BATCH):
                batch = runs[start : start + _BATCH]
                _append(folder, state, await _fresh(client, settings, state, batch))
                _save(folder, state)
                progress(state.head.seq)
        state.since = (started - _OVERLAP).isoformat()
        _forget(state)
        _save(folder, state)
        return Exported(state.head.seq - before, state.head)


def _append(folder: Path, state: State, events: Sequence[AuditEvent]) -> None:
    state.head = archive.append(folder, state.head, (_shown(event) for event in events))


def _shown(event: AuditEvent) -> dict[str, Any]:
    return event.model_dump(mode="json", by_alias=True)


async def _changed_runs(client: Client, state: State) -> list[Run]:
    """Every task that is open or closed lately, with its session and repository; and whatever began or ended.

    A session that only heard of duplicates since is not looked at now: they follow with its next task or its end.
    """
    since = quoted(state.since or _EVER)
    lately = f'(CloseTime >= {since} OR ExecutionStatus="Running")'
    tasks = await visibility.runs(client, f'WorkflowType="AgentTask" AND {lately}', _MAX_RUNS)
    others = ",".join(quoted(one) for one in trail.TYPES if one != "AgentTask")
    moved = f'(CloseTime >= {since} OR StartTime >= {since} OR WorkflowType="Control")'
    found = [*tasks, *await visibility.runs(client, f"WorkflowType IN ({others}) AND {moved}", _MAX_RUNS)]
    around = sorted({place for run in tasks for place in _around(run)})
    for start in range(0, len(around), 50):
        among = ",".join(quoted(one) for one in around[start : start + 50])
        found += await visibility.runs(client, f"WorkflowId IN ({among}) AND {lately}", _MAX_RUNS)
    distinct = {run.run_id: run for run in found}
    return sorted(distinct.values(), key=lambda run: run.started_at)


def _around(run: Run) -> list[str]:
    places = [ids.session_workflow_id(str(run.attributes.get(names.RESOURCE)))]
    if number := run.memo.get("repositoryId"):
        places.append(ids.repository_workflow_id(int(number)))
    return places


async def _fresh(client: Client, settings: Settings, state: State, runs: Sequence[Run]) -> list[AuditEvent]:
    """What the archive lacks of these runs and their journals, by time."""
    trails = await asyncio.gather(*(trail.history_of(client, run) for run in runs))
    fresh: list[AuditEvent] = []
    for run, history in zip(runs, trails, strict=True):
        key = f"{run.workflow_id}/{run.run_id}"
        told = audit.project(history)
        fresh += [event for event in told if _place(event)[1] > state.seen.get(key, [0, 0])]
        if told:
            state.seen[key] = max(state.seen.get(key, [0, 0]), _place(told[-1])[1])
        if run.closed_at:
            state.closed[key] = run.closed_at.isoformat()
        fresh += _fresh_journal(settings, state, run)
    return audit.ordered(fresh)


def _fresh_journal(settings: Settings, state: State, run: Run) -> list[AuditEvent]:
    key = f"journal/{run.workflow_id}"
    lines = trail.of_journal(settings, run.workflow_id)
    [done] = state.seen.get(key, [0])
    if lines:
        state.seen[key] = [len(lines)]
    if run.closed_at and lines:
        state.closed[key] = run.closed_at.isoformat()
    return lines[done:]


def _fresh_ingress(settings: Settings, state: State) -> list[AuditEvent]:
    """What follows the last exported line; all that is there when the file was replaced since."""
    lines = trail.of_ingress(settings)
    places = [place for place, event in enumerate(lines) if event.event_id == state.ingress]
    fresh = lines[places[-1] + 1 :] if places else lines
    if lines:
        state.ingress = lines[-1].event_id
    return fresh


def _place(event: AuditEvent) -> tuple[str, list[int]]:
    """The run that an event of a history belongs to, and its place there."""
    run, _, place = event.event_id.rpartition("/")
    number, _, part = place.partition(".")
    return run, [int(number), int(part or 0)]


def _forget(state: State) -> None:
    """Keeps the memory small: a closed run is looked at only as long as lists may still show it as new."""
    limit = (datetime.fromisoformat(state.since) - _FORGET).isoformat()
    for key in [key for key, closed in state.closed.items() if closed < limit]:
        state.closed.pop(key)
        state.seen.pop(key, None)


def _load(folder: Path) -> State:
    try:
        raw = json.loads((folder / _STATE).read_bytes())
        state = State(**{**raw, "head": Head(**raw["head"])})
    except (OSError, ValueError, TypeError, KeyError):
        return _rebuilt(folder)
    return state if state.sizes == archive.size(folder) else _rebuilt(folder)


def _rebuilt(folder: Path) -> State:
    """From the archive alone; the next export then looks at everything that Temporal still has."""
    state = State()
    for line in archive.read(folder):
        state.head = Head(line.seq or state.head.seq + 1, line.hash or state.head.hash)
        event = line.event or {}
        event_id = str(event.get("eventId", ""))
        if event_id.startswith("journal/"):
            key = f"journal/{event.get('taskId')}"
            state.seen[key] = [state.seen.get(key, [0])[0] + 1]
        elif "/" in event_id:
            key, place = _place(AuditEvent.model_validate(event))
            state.seen[key] = max(state.seen.get(key, [0, 0]), place)
        elif event_id:
            state.ingress = event_id
    return state


def _save(folder: Path, state: State) -> None:
    state.sizes = archive.size(folder)
    fresh = folder / f".{_STATE}"
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(asdict(state), file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / _STATE)
