"""What operators read: tasks and the overview, from visibility and descriptions (design section 13)."""

import asyncio
import base64
import hashlib
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from domain import ids
from domain import search_attributes as names
from domain.errors import CcwebError, ErrorCode
from domain.events import ControlState
from domain.states import FINAL, NEEDS_LEASE, TaskState
from operations import visibility
from operations.records import ControlView, Overview, QueuePollers, QueueView, TaskPage, TaskSummary
from operations.visibility import Run, quoted

_TASKS = 'WorkflowType="AgentTask"'
_OPEN = 'ExecutionStatus="Running"'
_KILLED = 'ExecutionStatus IN ("Terminated","TimedOut")'
_FINAL = ",".join(quoted(state) for state in sorted(FINAL))
_MAX_QUEUED = 2_000
_MAX_WEDGED = 50
_ALIVE = timedelta(minutes=2)
"""A poller asks at least once a minute."""


async def tasks(
    client: Client,
    *,
    repo: str | None = None,
    resource: str | None = None,
    state: TaskState | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> TaskPage:
    """Tasks that match all given filters, open ones first, newest first.

    Raises:
        CcwebError: `invalid_request`, the cursor belongs to other filters. `temporal_unavailable`; may be retried.
    """
    query = task_query(repo, resource, state)
    async with visibility.asking():
        found, token = await visibility.page(client, query, limit, token_of(cursor, query))
    return TaskPage(tasks=[summary(run) for run in found], next_cursor=cursor_of(token, query))


async def overview(client: Client) -> Overview:
    """Everything at a glance; needs no worker.

    Raises:
        CcwebError: `temporal_unavailable`; may be retried.
    """
    async with visibility.asking():
        control, open_runs, ended, wedged, pollers = await asyncio.gather(
            control_state(client),
            visibility.runs(client, f"{_TASKS} AND {_OPEN}", _MAX_QUEUED),
            _ended_last_day(client),
            visibility.runs(client, "TemporalReportedProblems IS NOT NULL", _MAX_WEDGED),
            pollers_of(client, ids.TASK_QUEUE),
        )
        counts = await _counts(client, [state for state in TaskState if state not in FINAL])
    queues = _queues(open_runs)
    return Overview(
        control=control_view(control),
        open_tasks=counts,
        ended_last_day=ended,
        running_slots=sum(bool(queue.working) for queue in queues),
        queues=queues,
        queues_cut=len(open_runs) >= _MAX_QUEUED,
        wedged_workflows=sorted({run.workflow_id for run in wedged if run.is_open}),
        workers=[pollers],
        notes=_notes(control, pollers, bool(wedged)),
    )


async def run_of(client: Client, task_id: str) -> Run:
    """The run of a task, also by the taskId of another delivery of its source (an alias).

    Raises:
        CcwebError: `not_found`.
    """
    run = await visibility.newest(client, task_id) if ids.is_task_id(task_id) else None
    if run is None and ids.is_task_id(task_id):
        aliases = await visibility.runs(client, f"{_TASKS} AND {names.DELIVERIES}={quoted(task_id)}", 1)
        run = aliases[0] if aliases else None
    if run is None:
        raise CcwebError(ErrorCode.NOT_FOUND, f"no task {task_id[:60]!r}; one just taken begins when a worker runs")
    return run


async def control_state(client: Client) -> ControlState:
    """The switches; none were touched when there is no Control."""
    run = await visibility.newest(client, ids.CONTROL_WORKFLOW_ID)
    try:
        return ControlState.model_validate(run.memo.get("control") or {}) if run else ControlState()
    except ValidationError:
        return ControlState()


def control_view(state: ControlState) -> ControlView:
    return ControlView(
        global_paused=state.paused,
        pause_reason=state.reason if state.paused else None,
        updated_by=state.updated_by or None,
        updated_at=state.updated_at,
        disabled=state.disabled,
        version=state.version,
    )


def summary(run: Run) -> TaskSummary:
    """A task from its run in visibility. A killed one is `failed`, whatever state it last showed."""
    state, code = state_of(run)
    deliveries = [one for one in run.attributes.get(names.DELIVERIES) or [] if not ids.is_task_id(one)]
    resource = run.attributes.get(names.RESOURCE)
    return TaskSummary(
        task_id=run.workflow_id,
        delivery_key=deliveries[0] if deliveries else None,
        delivery_keys=deliveries,
        source_key=run.attributes.get(names.SOURCE),
        repo_key=run.attributes.get(names.REPO),
        resource_key=resource,
        session_key=resource,
        author=run.attributes.get(names.AUTHOR),
        state=state,
        error_code=code,
        execution_status=run.status,
        cost=run.attributes.get(names.COST),
        created_at=run.started_at,
        closed_at=run.closed_at,
    )


def state_of(run: Run) -> tuple[TaskState, ErrorCode | None]:
    shown = TaskState(run.attributes.get(names.STATE) or TaskState.RECEIVED)
    if run.is_open or shown in FINAL:
        return shown, None
    return TaskState.FAILED, ErrorCode.TERMINATED


def task_query(repo: str | None, resource: str | None, state: TaskState | None) -> str:
    """The visibility query of these filters. A run that was killed keeps its last state: it counts as failed."""
    parts = [_TASKS]
    if repo:
        parts.append(f"{names.REPO}={quoted(full_repo_key(repo))}")
    if resource:
        parts.append(f"{names.RESOURCE}={quoted(resource.lower())}")
    if state is TaskState.FAILED:
        parts.append(f"({names.STATE}={quoted(state)} OR ({_KILLED} AND {names.STATE} NOT IN ({_FINAL})))")
    elif state is not None:
        parts.append(f"{names.STATE}={quoted(state)}")
        parts += [] if state in FINAL else [_OPEN]
    return " AND ".join(parts)


def full_repo_key(repo: str) -> str:
    """A repoKey as it is compared; `owner/repo` alone means this instance."""
    name = repo.strip().lower()
    return f"{ids.INSTANCE_ID}:{name}" if "/" in name and ":" not in name else name


def cursor_of(token: bytes, query: str) -> str | None:
    """What a caller gives back for the next page; None at the end."""
    return base64.urlsafe_b64encode(_mark(query) + token).decode() if token else None


def token_of(cursor: str | None, query: str) -> bytes:
    """Raises CcwebError `invalid_request` when the cursor was not made for this query."""
    if not cursor:
        return b""
    try:
        raw = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
    except ValueError:
        raw = b""
    mark = _mark(query)
    if not raw.startswith(mark) or len(raw) == len(mark):
        raise CcwebError(ErrorCode.INVALID_REQUEST, "cursor: not one that was given for these filters")
    return raw[len(mark) :]


def _mark(query: str) -> bytes:
    """Ties a cursor to its filters: Temporal would take it for others and skip tasks."""
    return hashlib.sha256(query.encode()).digest()[:9]


async def _counts(client: Client, states: Sequence[TaskState], more: str = "") -> dict[TaskState, int]:
    found = await asyncio.gather(
        *(visibility.count(client, task_query(None, None, state) + more) for state in states)
    )
    return {state: number for state, number in zip(states, found, strict=True) if number}


async def _ended_last_day(client: Client) -> dict[TaskState, int]:
    since = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    return await _counts(client, sorted(FINAL), f" AND CloseTime > {quoted(since)}")


async def pollers_of(client: Client, queue: str, *, activities: bool = False) -> QueuePollers:
    """The workers that asked this queue for workflows (or activities) lately."""
    kind = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY if activities else TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=kind,
    )
    found = await client.workflow_service.describe_task_queue(request, timeout=timedelta(seconds=5))
    seen = [poller.last_access_time.ToDatetime(tzinfo=UTC) for poller in found.pollers]
    alive = {poller.identity for poller, at in zip(found.pollers, seen, strict=True) if _is_fresh(at)}
    return QueuePollers(task_queue=queue, workers=len(alive), last_seen_at=max(seen, default=None))


def _is_fresh(moment: datetime) -> bool:
    return datetime.now(UTC) - moment < _ALIVE


def _queues(open_runs: list[Run]) -> list[QueueView]:
    by_repo: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for run in sorted(open_runs, key=lambda run: run.started_at):
        state, _ = state_of(run)
        place = "working" if state in NEEDS_LEASE else "queued" if state is TaskState.QUEUED else "waiting"
        by_repo[str(run.attributes.get(names.REPO))][place].append(run.workflow_id)
    return [
        QueueView(repo_key=repo, **{place: found[place] for place in ("working", "queued", "waiting")})
        for repo, found in sorted(by_repo.items())
    ]


def _notes(control: ControlState, pollers: QueuePollers, wedged: bool) -> list[str]:
    notes = []
    if not pollers.workers:
        notes.append(
            f"No worker polls the task queue {pollers.task_queue!r}: tasks stand still, comments taken since then"
            " have no task yet, and control calls are stored as signals until a worker runs."
        )
    if control.paused:
        notes.append(f"Paused by {control.updated_by}: {control.reason or 'no reason given'}")
    if wedged:
        notes.append("Some workflows fail again and again; see the worker's log.")
    return notes
