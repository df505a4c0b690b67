"""How workflows call activities and signal each other: names, time limits, retry policies, summaries.

Errors of an activity arrive as `ActivityError` whose cause carries our code as its type; `failure_of` reads
it. Where the workflow decides about a second try (design section 7), Temporal must not: those calls name every
code as non-retryable, and only lost workers and faults of ours are retried here.
"""

from datetime import timedelta
from types import NoneType
from typing import Any, Literal, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from domain import events, ids
    from domain.errors import ErrorCode
    from domain.events import TaskPolicy
    from domain.outcomes import Failure

T = TypeVar("T")
_PATIENCE = timedelta(days=3)
"""How long Gitea may be down before an accepted task gives up."""
_WORKER_LOST = timedelta(seconds=15)
"""For what talks with Gitea: a person waits for it, whatever happens to the worker."""
_LOOK = timedelta(minutes=2)
_WRITE = timedelta(minutes=1)
_RPC = timedelta(seconds=10)
_HOST_AWAY = timedelta(minutes=10)
_PREPARE = timedelta(hours=1)
_SETTLE = timedelta(minutes=10)
_TURN_OVERHEAD = timedelta(minutes=5)

_PATIENT = RetryPolicy(maximum_interval=timedelta(seconds=60))
_BRIEF = RetryPolicy(maximum_attempts=3)
_LOST_WORKER_ONLY = RetryPolicy(
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=30,
    non_retryable_error_types=[str(code) for code in ErrorCode],
)
_LOCAL = RetryPolicy(maximum_interval=timedelta(seconds=10))


def failure_of(error: ActivityError) -> Failure:
    """Our code of a failed activity; a lost worker is `interrupted_by_restart`."""
    cause = error.cause
    if isinstance(cause, TimeoutError):
        if cause.type == TimeoutType.SCHEDULE_TO_START:
            return Failure(ErrorCode.WORKSPACE_UNAVAILABLE, "the host of this repository does not answer", True)
        return Failure(ErrorCode.INTERRUPTED_BY_RESTART, f"{error.activity_type} was not finished in time")
    if isinstance(cause, ApplicationError) and cause.type in set(ErrorCode):
        return Failure(ErrorCode(cause.type), cause.message)
    return Failure(ErrorCode.INTERNAL_ERROR, f"{error.activity_type}: {cause}")


async def signal(workflow_id: str, name: str, argument: Any = None) -> Literal["delivered", "gone"]:
    """Signals another workflow and waits until it is in its history, or until it is known to be closed."""
    try:
        await workflow.get_external_workflow_handle(workflow_id).signal(name, argument)
    except ApplicationError as error:
        if error.type == "ExternalWorkflowExecutionNotFound":
            return "gone"
        raise
    return "delivered"


async def cancel(workflow_id: str) -> None:
    """Asks another workflow to stop; one that is closed needs nothing."""
    try:
        await workflow.get_external_workflow_handle(workflow_id).cancel()
    except ApplicationError as error:
        if error.type != "ExternalWorkflowExecutionNotFound":
            raise


async def _ask_gitea(name: str, argument: Any, result: type[T], limit: timedelta, summary: str, **more: Any) -> T:
    """An activity of the shared queue that waits for a Gitea that is away; `limit` bounds one try."""
    answer: T = await workflow.execute_activity(
        name,
        argument,
        result_type=result,
        start_to_close_timeout=limit,
        schedule_to_close_timeout=_PATIENCE,
        retry_policy=_PATIENT,
        summary=summary,
        **more,
    )
    return answer


async def admit(start: events.TaskStart) -> events.Admission:
    summary = f"may {start.event.author} start the agent here?"
    return await _ask_gitea("admit", start, events.Admission, _LOOK, summary, heartbeat_timeout=_WORKER_LOST)


async def post_receipt(request: events.CommentRequest) -> events.CommentPosted:
    summary = "react" if request.reaction_only else f"receipt {request.state}"
    more = {"heartbeat_timeout": _WORKER_LOST}
    return await _ask_gitea("post_receipt", request, events.CommentPosted, _WRITE, summary, **more)


async def list_reviews(poke: events.Poke) -> events.Reviews:
    return await _ask_gitea("list_reviews", poke, events.Reviews, _LOOK, "what do the reviews ask for?")


async def verify_reply(request: events.VerifyRequest) -> events.Verification:
    """Reads the answer back; an activity that fails altogether is `unknown`."""
    return await _read_back("verify_reply", request, request.budget, f"round {request.round}: is the answer there?")


async def post_fallback(request: events.FallbackRequest) -> events.Verification:
    """Posts by REST and reads back; an activity that fails altogether is `unknown`."""
    return await _read_back("post_fallback", request, request.budget, f"round {request.round}: answer by REST")


async def _read_back(
    name: str, request: events.VerifyRequest | events.FallbackRequest, budget: float, summary: str
) -> events.Verification:
    try:
        found: events.Verification = await workflow.execute_activity(
            name,
            request,
            result_type=events.Verification,
            start_to_close_timeout=timedelta(seconds=budget + 60),
            heartbeat_timeout=_WORKER_LOST,
            retry_policy=_BRIEF,
            summary=summary,
        )
    except ActivityError as error:
        return events.Verification(found="unknown", detail=failure_of(error).text)
    return found


async def prepare_workspace(host: str, policy: TaskPolicy, request: events.WorkspaceRequest) -> events.Workspace:
    prepared: events.Workspace = await workflow.execute_activity(
        "prepare_workspace",
        request,
        task_queue=ids.host_queue(host),
        result_type=events.Workspace,
        schedule_to_start_timeout=_HOST_AWAY,
        start_to_close_timeout=_PREPARE,
        heartbeat_timeout=timedelta(seconds=policy.heartbeat_timeout),
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        retry_policy=_LOST_WORKER_ONLY,
        summary=f"worktree on {host}",
    )
    return prepared


async def run_turn(host: str, policy: TaskPolicy, request: events.TurnRequest) -> events.TurnOutcome:
    outcome: events.TurnOutcome = await workflow.execute_activity(
        "run_turn",
        request,
        task_queue=ids.host_queue(host),
        result_type=events.TurnOutcome,
        schedule_to_start_timeout=_HOST_AWAY,
        start_to_close_timeout=timedelta(seconds=policy.turn_timeout) + _TURN_OVERHEAD,
        heartbeat_timeout=timedelta(seconds=policy.heartbeat_timeout),
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        retry_policy=_LOST_WORKER_ONLY,
        summary=f"{request.purpose} turn {request.turn_key}",
    )
    return outcome


async def steer_turn(host: str, request: events.SteerRequest) -> bool:
    """Whether the running turn was told; False when there is none."""
    steered: bool = await workflow.execute_activity(
        "steer_turn",
        request,
        task_queue=ids.host_queue(host),
        result_type=bool,
        schedule_to_close_timeout=timedelta(minutes=2),
        start_to_close_timeout=timedelta(minutes=1),
        retry_policy=_BRIEF,
        summary=f"tell the running turn what {request.author} says",
    )
    return steered


async def check_command(event: events.TaskEvent) -> events.CommandCheck:
    summary = f"may {event.author} command here?"
    return await _ask_gitea("check_command", event, events.CommandCheck, _LOOK, summary)


async def acknowledge(ack: events.CommandAck) -> None:
    await _ask_gitea("acknowledge", ack, NoneType, _WRITE, f"/{ack.command} of {ack.event.author}")


async def notify(notice: events.Notice) -> None:
    """Tells people about it; whatever comes of that changes nothing for the task."""
    if not workflow.patched("notify"):
        return
    try:
        await workflow.execute_activity(
            "notify",
            notice,
            start_to_close_timeout=timedelta(seconds=30),
            schedule_to_close_timeout=timedelta(minutes=1),
            retry_policy=_BRIEF,
            summary=f"tell people: {notice.kind}",
        )
    except ActivityError as error:
        workflow.logger.warning("nobody was told that a task is %s: %s", notice.kind, failure_of(error).text)


async def settle_workspace(host: str, policy: TaskPolicy, request: events.SettleRequest) -> events.Settled:
    settled: events.Settled = await workflow.execute_activity(
        "settle_workspace",
        request,
        task_queue=ids.host_queue(host),
        result_type=events.Settled,
        schedule_to_start_timeout=_HOST_AWAY,
        start_to_close_timeout=_SETTLE,
        heartbeat_timeout=timedelta(seconds=policy.heartbeat_timeout),
        retry_policy=_BRIEF,
        summary="revoke the lease, save leftovers",
    )
    return settled


async def close_session(host: str, request: events.SessionClose) -> None:
    await workflow.execute_activity(
        "close_session",
        request,
        task_queue=ids.host_queue(host),
        schedule_to_start_timeout=_HOST_AWAY,
        start_to_close_timeout=_SETTLE,
        retry_policy=_BRIEF,
        summary="archive the thread, remove the worktree",
    )


async def reconcile(request: events.ReconcileRequest) -> events.ReconcileReport:
    report: events.ReconcileReport = await workflow.execute_activity(
        "reconcile",
        request,
        result_type=events.ReconcileReport,
        start_to_close_timeout=timedelta(minutes=30),
        heartbeat_timeout=timedelta(minutes=1),
        retry_policy=_BRIEF,
        summary="a dry run" if request.dry_run else "what did nobody deliver?",
    )
    return report


async def _ask_temporal(name: str, argument: Any, result: type[T], summary: str, limit: timedelta = _RPC) -> T:
    """A local activity: a call of Temporal itself, repeated until it answers."""
    answer: T = await workflow.execute_local_activity(
        name,
        argument,
        result_type=result,
        start_to_close_timeout=limit,
        retry_policy=_LOCAL,
        summary=summary,
    )
    return answer


async def request_lease(ask: events.LeaseAsk) -> None:
    await _ask_temporal("request_lease", ask, NoneType, f"ask for {ask.request.lease_id}")


async def read_control(start: events.RepositoryStart) -> events.ControlState:
    return await _ask_temporal("read_control", start, events.ControlState, "paused or disabled?")


async def probe_task(task_id: str) -> events.HolderProbe:
    return await _ask_temporal("probe_task", task_id, events.HolderProbe, f"how is {task_id}?")


async def read_end(task_id: str) -> events.TaskEnd:
    return await _ask_temporal("read_end", task_id, events.TaskEnd, f"how did {task_id} end?")


async def terminate_stuck(task_id: str) -> None:
    await workflow.execute_activity(
        "terminate_stuck",
        task_id,
        start_to_close_timeout=timedelta(seconds=10),
        retry_policy=_PATIENT,
        summary=f"end {task_id}, it makes no progress",
    )


async def recover_session(start: events.SessionStart) -> events.Recovered:
    return await _recover("recover_session", start)


async def recover_repository(start: events.RepositoryStart) -> events.Recovered:
    return await _recover("recover_repository", start)


async def _recover(name: str, start: events.SessionStart | events.RepositoryStart) -> events.Recovered:
    return await _ask_temporal(name, start, events.Recovered, "what did an earlier run leave?", timedelta(seconds=30))


async def pick_host(start: events.RepositoryStart) -> str:
    return await _ask_temporal("pick_host", start, str, "the host that keeps the workspace")
