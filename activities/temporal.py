"""Activities that ask or tell Temporal itself (design section 5). All are safe to repeat."""

from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from temporalio import activity
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from domain import ids, search_attributes
from domain.events import (
    ControlState,
    HolderProbe,
    LeaseAsk,
    LeaseRequest,
    Recovered,
    RepositoryStart,
    SessionStart,
    TaskEnd,
    TaskResult,
    TaskStart,
)
from domain.states import NEEDS_LEASE, TaskState
from settings import Settings

_RPC = timedelta(seconds=5)
_STUCK_ATTEMPTS = 3
_MAX_RUNNING = 200
_KILLED = {WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.TIMED_OUT}


class SeenSources(Protocol):
    """Reads which sources already have a marker of ours in the discussion; never raises for Gitea's errors."""

    async def __call__(self, start: SessionStart) -> dict[str, str]: ...


class TemporalActivities:
    """`client` is this worker's; `host_id` names this host's queue."""

    def __init__(self, settings: Settings, client: Client, host_id: str, seen_sources: SeenSources) -> None:
        self._settings = settings
        self._client = client
        self._host_id = host_id
        self._seen_sources = seen_sources

    @activity.defn
    async def recover_session(self, start: SessionStart) -> Recovered:
        """What an earlier run of the session left: thread and host, sources in Gitea, tasks that still run."""
        memo = await self._previous_memo(ids.session_workflow_id(start.session_key))
        running = await self._running(f'{search_attributes.RESOURCE}="{start.session_key}"')
        return Recovered(
            thread_id=memo.get("threadId"),
            host=memo.get("host"),
            epoch=memo.get("epoch", 0),
            seen_sources=await self._seen_sources(start),
            running=running,
            idle_after=self._settings.session_idle,
        )

    @activity.defn
    async def recover_repository(self, start: RepositoryStart) -> Recovered:
        """The host that an earlier run chose, and the task of this repository that holds a lease now."""
        memo = await self._previous_memo(ids.repository_workflow_id(start.repository_id))
        return Recovered(host=memo.get("host"), holder=await self._holder(start.repository_id))

    @activity.defn
    async def pick_host(self, start: RepositoryStart) -> str:
        """The id of the host that runs this activity."""
        return self._host_id

    @activity.defn
    async def probe_task(self, task_id: str) -> HolderProbe:
        """How a task is, by describe."""
        try:
            described = await self._client.get_workflow_handle(task_id).describe(rpc_timeout=_RPC)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return HolderProbe(status="missing")
            raise
        return _probe(described, self._settings.stuck_after)

    @activity.defn
    async def read_end(self, task_id: str) -> TaskEnd:
        """What a closed task was asked, from its history, and the result that it left; none when it was killed."""
        handle = self._client.get_workflow_handle(task_id, result_type=TaskResult)
        first = await anext(aiter(handle.fetch_history_events(page_size=1, rpc_timeout=_RPC)))
        payloads = first.workflow_execution_started_event_attributes.input.payloads
        (start,) = await self._client.data_converter.decode(payloads, [TaskStart])
        return TaskEnd(event=start.event, result=await result_of(handle))

    @activity.defn
    async def request_lease(self, ask: LeaseAsk) -> None:
        """Signals the Repository, starting it where it does not run."""
        await self._client.start_workflow(
            "Repository",
            self._repository_start(ask),
            id=ids.repository_workflow_id(ask.repository_id),
            task_queue=activity.info().task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal="request",
            start_signal_args=[ask.request],
            static_summary=f"workspace of {ask.repo_key}",
            rpc_timeout=_RPC,
        )

    @activity.defn
    async def read_control(self, start: RepositoryStart) -> ControlState:
        """The operators' switches; none were ever touched when there is no Control."""
        memo = await self._memo(ids.CONTROL_WORKFLOW_ID)
        return ControlState.model_validate(memo.get("control") or {})

    @activity.defn
    async def terminate_stuck(self, task_id: str) -> None:
        """Ends a task whose workflow makes no progress; one that is closed needs nothing."""
        try:
            await self._client.get_workflow_handle(task_id).terminate(reason="holder_stuck", rpc_timeout=_RPC)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    def _repository_start(self, ask: LeaseAsk) -> RepositoryStart:
        settings = self._settings
        return RepositoryStart(
            repository_id=ask.repository_id,
            repo_key=ask.repo_key,
            heartbeat_timeout=settings.heartbeat_timeout,
            stop_budget=settings.stop_budget,
            probe_interval=settings.probe_interval,
            stuck_after=settings.stuck_after,
            pause_poll=settings.pause_poll,
            idle_after=settings.session_idle,
        )

    async def _memo(self, workflow_id: str, run_id: str | None = None) -> dict[str, Any]:
        try:
            handle = self._client.get_workflow_handle(workflow_id, run_id=run_id)
            return dict(await (await handle.describe(rpc_timeout=_RPC)).memo())
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return {}
            raise

    async def _previous_memo(self, workflow_id: str) -> dict[str, Any]:
        """The memo of the run before the one that asks."""
        current = activity.info().workflow_run_id
        query = f'WorkflowId="{workflow_id}" AND ExecutionStatus!="Running"'
        async for run in self._client.list_workflows(query, limit=5, rpc_timeout=_RPC):
            if run.run_id != current and (memo := await self._memo(workflow_id, run.run_id)):
                return memo
        return {}

    async def _running(self, query: str) -> list[str]:
        query = f'WorkflowType="AgentTask" AND ExecutionStatus="Running" AND {query}'
        return [found.id async for found in self._client.list_workflows(query, limit=_MAX_RUNNING, rpc_timeout=_RPC)]

    async def _holder(self, repository_id: int) -> LeaseRequest | None:
        """Asks the few tasks that work first: one of hundreds that wait has a lease only in between."""
        ours = f'{search_attributes.SOURCE} STARTS_WITH "{repository_id}:"'
        states = ", ".join(f'"{state}"' for state in sorted(NEEDS_LEASE))
        for states_asked in ("IN", "NOT IN"):
            for task in await self._running(f"{ours} AND {search_attributes.STATE} {states_asked} ({states})"):
                if holder := await self._held_by(task):
                    return holder
        return None

    async def _held_by(self, task_id: str) -> LeaseRequest | None:
        """What the task holds, asked of itself; a task that ended meanwhile holds nothing."""
        try:
            lease_id = await self._client.get_workflow_handle(task_id).query("lease_id", rpc_timeout=_RPC)
        except WorkflowQueryFailedError:
            return None
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        return LeaseRequest(lease_id=lease_id, task_id=task_id) if lease_id else None


async def result_of(handle: WorkflowHandle[Any, TaskResult]) -> TaskResult | None:
    """What a closed task left, also one that failed; None when it was killed."""
    try:
        return await handle.result(rpc_timeout=_RPC)
    except WorkflowFailureError as error:
        details = error.cause.details if isinstance(error.cause, ApplicationError) else ()
        return TaskResult.model_validate(details[0]) if details else None


def _probe(described: WorkflowExecutionDescription, stuck_after: float) -> HolderProbe:
    if described.status in _KILLED:
        return HolderProbe(status="killed")
    if described.status is not WorkflowExecutionStatus.RUNNING:
        return HolderProbe(status="closed")
    state = described.search_attributes.get(search_attributes.STATE) or []
    status = "stuck" if _stuck(described, stuck_after) else "running"
    return HolderProbe.model_validate({"status": status, "state": TaskState(str(state[0])) if state else None})


def _stuck(described: WorkflowExecutionDescription, stuck_after: float) -> bool:
    """Whether the workflow task has been failing for too long: an activity that runs long is no such thing."""
    pending = described.raw_description.pending_workflow_task
    if pending.attempt < _STUCK_ATTEMPTS:
        return False
    since = pending.original_scheduled_time.ToDatetime(tzinfo=UTC)
    return (datetime.now(UTC) - since).total_seconds() > stuck_after
