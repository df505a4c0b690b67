"""The audit trail as operators ask for it: histories, the bridge's journal, the ingress stream (design section 10).

Nothing here needs a worker. The two files are those of the host that answers.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from domain import audit, histories, ids
from domain import search_attributes as names
from domain.audit import AuditEvent
from domain.errors import CcwebError, ErrorCode
from domain.histories import History
from operations import archive, reads, visibility
from operations.details import detail
from operations.records import AuditPage, TaskDetail
from operations.visibility import Run, quoted
from settings import Settings

INGRESS_FILE = "ingress-audit.jsonl"
TYPES = ("AgentTask", "Session", "Repository", "Control")
_RUNS = 20
"""Workflows looked at for one step of a page."""
_AT_ONCE = 5
_PATIENCE = 6.0
"""Seconds after which a page is given out as it is, with a cursor."""


@dataclass(frozen=True, slots=True)
class Filters:
    """All that are given must match."""

    task_id: str | None = None
    delivery_id: str | None = None
    resource_key: str | None = None
    repo_key: str | None = None
    thread_id: str | None = None
    turn_id: str | None = None
    comment_id: int | None = None
    actor: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def task(client: Client, task_id: str) -> TaskDetail:
    """One task in full; also by the taskId of another delivery of its source.

    Raises:
        CcwebError: `not_found`. `temporal_unavailable`; may be retried.
    """
    async with visibility.asking():
        run = await reads.run_of(client, task_id)
        described, history = await asyncio.gather(
            visibility.described(client, run.workflow_id), history_of(client, run)
        )
    attempt = described.pending_workflow_task.attempt if described else 0
    problem = f"its workflow task failed {attempt - 1} times; see the worker's log" if attempt > 1 else None
    return detail(reads.summary(run), history, problem)


async def search(
    client: Client, settings: Settings, filters: Filters, cursor: str | None = None, limit: int = 200
) -> AuditPage:
    """The events that match, and a cursor for those of further workflows.

    Raises:
        CcwebError: `invalid_request`, the cursor belongs to other filters. `temporal_unavailable`; may be retried.
    """
    async with visibility.asking(30):
        wanted = await _wanted(client, filters)
        query = _query(wanted, filters)
        events = [] if cursor else [event for event in of_ingress(settings) if wanted.matches(event)]
        token = reads.token_of(cursor, query)
        until = time.monotonic() + _PATIENCE
        while True:
            runs, token = await visibility.page(client, query, _RUNS, token)
            trails = await of_runs(client, settings, runs)
            events += [event for event in trails if wanted.matches(event)]
            if not token or len(events) >= limit or time.monotonic() > until:
                break
    return AuditPage(events=audit.ordered(events), next_cursor=reads.cursor_of(token, query))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filters, with what they mean in Temporal: the ids of one task, or the workflows to look at."""

    filters: Filters
    task_ids: frozenset[str] = frozenset()
    workflows: str = ""

    def matches(self, event: AuditEvent) -> bool:
        wish = self.filters
        asked = {
            "delivery_id": wish.delivery_id,
            "turn_id": wish.turn_id,
            "comment_id": wish.comment_id,
            "actor": wish.actor,
            "action": wish.action,
        }
        return (
            all(value is None or getattr(event, name) == value for name, value in asked.items())
            and (not self.task_ids or event.task_id in self.task_ids)
            and _has(event, "threadId", wish.thread_id)
            and _in_time(event, wish)
        )


def _has(event: AuditEvent, fact: str, value: str | None) -> bool:
    return value is None or event.metadata.get(fact) == value


def _in_time(event: AuditEvent, wish: Filters) -> bool:
    after = wish.since is None or event.timestamp >= wish.since
    return after and (wish.until is None or event.timestamp <= wish.until)


async def _wanted(client: Client, filters: Filters) -> Wanted:
    """Narrows the search to the workflows that can hold such events."""
    task_id = filters.task_id or (ids.task_id(ids.delivery_key(filters.delivery_id)) if filters.delivery_id else None)
    if task_id:
        return await _wanted_of_task(client, filters, task_id)
    if filters.resource_key:
        key = filters.resource_key.lower()
        session = ids.session_workflow_id(key)
        return Wanted(filters, workflows=f"({names.RESOURCE}={quoted(key)} OR WorkflowId={quoted(session)})")
    if filters.repo_key:
        key = reads.full_repo_key(filters.repo_key)
        sessions = f"WorkflowId STARTS_WITH {quoted(ids.session_workflow_id(key) + ':')}"
        return Wanted(filters, workflows=f"({names.REPO}={quoted(key)} OR {sessions})")
    return Wanted(filters, workflows=f"WorkflowType IN ({','.join(map(quoted, TYPES))})")


async def _wanted_of_task(client: Client, filters: Filters, task_id: str) -> Wanted:
    """The task, its session and its repository. A delivery that made no task may be in any session."""
    try:
        run = await reads.run_of(client, task_id)
    except CcwebError as error:
        if error.code is not ErrorCode.NOT_FOUND or filters.task_id:
            raise
        return Wanted(filters, workflows='WorkflowType="Session"')
    aliases = [one for one in run.attributes.get(names.DELIVERIES) or [] if ids.is_task_id(one)]
    workflows = [run.workflow_id, ids.session_workflow_id(str(run.attributes.get(names.RESOURCE)))]
    if number := run.memo.get("repositoryId"):
        workflows.append(ids.repository_workflow_id(int(number)))
    among = ",".join(quoted(one) for one in workflows)
    mine = frozenset({run.workflow_id, task_id, *aliases}) if filters.task_id else frozenset()
    return Wanted(filters, mine, f"WorkflowId IN ({among})")


def _query(wanted: Wanted, filters: Filters) -> str:
    parts = [wanted.workflows]
    if filters.until:
        parts.append(f"StartTime <= {quoted(filters.until.isoformat())}")
    if filters.since:
        parts.append(f'(CloseTime >= {quoted(filters.since.isoformat())} OR ExecutionStatus="Running")')
    return " AND ".join(parts)


async def of_runs(client: Client, settings: Settings, runs: Sequence[Run]) -> list[AuditEvent]:
    """The events of these runs, and of the journals of those that are tasks."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def told(run: Run) -> list[AuditEvent]:
        async with gate:
            history = await history_of(client, run)
        return [*audit.project(history), *of_journal(settings, run.workflow_id)]

    found = await asyncio.gather(*(told(run) for run in runs if run.workflow_type in TYPES))
    return [event for events in found for event in events]


async def history_of(client: Client, run: Run) -> History:
    """One run's history; an empty one when it is gone meanwhile."""
    handle = client.get_workflow_handle(run.workflow_id, run_id=run.run_id)
    try:
        fetched = await handle.fetch_history()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return History(run.workflow_id, run.run_id, run.workflow_type)
    return histories.read(fetched.to_json_dict(), run.run_id)


def of_journal(settings: Settings, task_id: str) -> list[AuditEvent]:
    """What the bridges on this host wrote for a task; a line that a crash cut is left out."""
    if not ids.is_task_id(task_id):
        return []
    lines = _json_lines(settings.journal_dir / f"{task_id}.jsonl")
    return [event for line in lines if (event := _readable(audit.of_journal, line))]


def of_ingress(settings: Settings) -> list[AuditEvent]:
    """What ingress on this host ignored, rejected or refused, oldest first; cut lines are left out."""
    path = settings.state_dir / INGRESS_FILE
    lines = [*_json_lines(path.with_name(path.name + ".1")), *_json_lines(path)]
    return [event for line in lines if (event := _readable(audit.of_ingress, line))]


def _readable(read: Callable[[dict[str, Any]], AuditEvent], line: dict[str, Any]) -> AuditEvent | None:
    try:
        return read(line)
    except (ValueError, KeyError, TypeError):
        return None


def _json_lines(path: Path) -> Iterable[dict[str, Any]]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return
    for line in raw.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def of_archive(settings: Settings, filters: Filters) -> list[AuditEvent]:
    """What this host's archive holds, also of what Temporal has forgotten; by time. Needs no Temporal."""
    wanted = Wanted(filters, frozenset({filters.task_id}) if filters.task_id else frozenset())
    sessions: dict[str, str] = {}
    found = []
    for line in archive.read(settings.state_dir / archive.FOLDER):
        event = _readable(AuditEvent.model_validate, line.event or {})
        if event is not None and wanted.matches(event) and _belongs(_session_of(event, sessions), filters):
            found.append(event)
    return audit.ordered(found)


def _session_of(event: AuditEvent, sessions: dict[str, str]) -> str:
    """The sessionKey of an event: what it says, what its task said first, or whose history it is from."""
    said = str(event.metadata.get("sessionKey") or "")
    if event.task_id and said:
        sessions.setdefault(event.task_id, said)
    known = said or sessions.get(event.task_id or "", "")
    return known or event.event_id.rsplit("/", 2)[0].removeprefix("session/")


def _belongs(session: str, filters: Filters) -> bool:
    right_resource = filters.resource_key is None or session == filters.resource_key.lower()
    repo = reads.full_repo_key(filters.repo_key) if filters.repo_key else None
    return right_resource and (repo is None or session.startswith(f"{repo}:"))
