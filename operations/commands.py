"""What operators change: updates with `id=requestId`, or the signal of that name when no worker answers.

The workflow remembers what each requestId came to, so a repeated call gets the first answer whichever way it
goes (design sections 5 and 13).
"""

import asyncio
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.api.common.v1 import Payloads, WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from domain import ids
from domain.errors import CcwebError, ErrorCode
from domain.events import Verdict
from domain.search_attributes import STATE
from domain.states import ABORTABLE, CANCELLABLE, TaskState
from operations import reads, visibility
from operations.records import ControlResult
from operations.visibility import Run

LEGAL: dict[str, frozenset[TaskState]] = {
    "cancel": CANCELLABLE,
    "abort": ABORTABLE,
    "retry": frozenset({TaskState.RETRY_WAIT}),
    "unblock": frozenset({TaskState.BLOCKED_WORKSPACE}),
}
ANSWER_SECONDS = 3.0
"""How long a worker may take to answer an update before the call is stored as a signal."""
_RPC = timedelta(seconds=5)
_MAX_BLOCKED = 200
_REPO_NAME = "[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}"
REPO = rf"^((({ids.INSTANCE_ID}|{ids.INSTANCE_ID.upper()}):)?{_REPO_NAME}|[0-9]{{1,19}})$"
"""What names a repository: its repoKey, owner/repo alone, or its id."""
_REPO = re.compile(REPO)


@dataclass(frozen=True, slots=True)
class Order:
    """Who asks, why, and the id under which this very call is known; `reason` is one line."""

    request_id: str
    reason: str
    actor: str

    def argument(self, **more: Any) -> dict[str, Any]:
        return {"requestId": self.request_id, "reason": self.reason, "actor": self.actor, **more}


async def steer_task(client: Client, task_id: str, action: str, order: Order) -> ControlResult:
    """Cancels, aborts, retries or unblocks one task; `action` is one of `LEGAL`.

    Raises:
        CcwebError: `not_found`; `illegal_state`; `request_id_reused`; `temporal_unavailable`, may be repeated with
            the same requestId.
    """
    async with visibility.asking():
        run = await reads.run_of(client, task_id)
        verdict = await _update(client, run.workflow_id, action, order.argument(), order.request_id)
        taken = verdict is not None
        if verdict is None:
            verdict = await _stored(client, run, order.request_id) or await _store(client, run, action, order)
    _must_be_ours(verdict, action)
    if not verdict.accepted:
        raise _illegal(action, verdict.from_state)
    return ControlResult(
        request_id=order.request_id,
        action=action,
        taken=taken,
        tasks=[run.workflow_id],
        from_state=TaskState(verdict.from_state) if verdict.from_state else None,
    )


async def switch(client: Client, action: str, order: Order, repo: str | None = None) -> ControlResult:
    """Pauses or resumes everything, or disables or enables the repository `repo`.

    Raises:
        CcwebError: `invalid_request`, no repository could be called so; `illegal_state`, nothing to enable;
            `request_id_reused`; `temporal_unavailable`, may be repeated with the same requestId.
    """
    key = repo_key_of(repo) if repo is not None else None
    argument = order.argument(repo=key) if key else order.argument()
    async with visibility.asking():
        verdict = await _update(client, ids.CONTROL_WORKFLOW_ID, action, argument, order.request_id)
        if verdict is None:
            await _signal_control(client, action, argument)
    if verdict is not None:
        _must_be_ours(verdict, action)
        if not verdict.accepted:
            raise CcwebError(ErrorCode.ILLEGAL_STATE, f"{action}: {key or 'everything'} is not disabled")
    return ControlResult(request_id=order.request_id, action=action, taken=verdict is not None, repo_key=key)


async def unblock_repo(client: Client, repo: str, order: Order) -> ControlResult:
    """Unblocks the tasks of a repository that are blocked now. Control remembers which ones a requestId meant.

    Raises:
        CcwebError: `invalid_request`; `illegal_state`, none is blocked; `request_id_reused`;
            `temporal_unavailable`, may be repeated with the same requestId.
    """
    key = repo_key_of(repo)
    async with visibility.asking():
        query = reads.task_query(key, None, TaskState.BLOCKED_WORKSPACE)
        blocked = [run.workflow_id for run in await visibility.runs(client, query, _MAX_BLOCKED)]
        argument = order.argument(repo=key, targets=blocked)
        verdict = await _update(client, ids.CONTROL_WORKFLOW_ID, "unblock", argument, order.request_id)
    if verdict is not None:
        _must_be_ours(verdict, "unblock")
    targets = blocked if verdict is None else verdict.targets
    if not targets:
        raise CcwebError(ErrorCode.ILLEGAL_STATE, f"no task of {key} is blocked")
    results = await asyncio.gather(
        *(steer_task(client, task, "unblock", order) for task in targets), return_exceptions=True
    )
    return _together(key, order, targets, results)


def _together(key: str, order: Order, targets: list[str], results: list[Any]) -> ControlResult:
    """Tasks that moved on by themselves meanwhile need nothing; any other failure is told."""
    for result in results:
        if isinstance(result, BaseException) and getattr(result, "code", None) is not ErrorCode.ILLEGAL_STATE:
            raise result
    done = [result for result in results if isinstance(result, ControlResult)]
    return ControlResult(
        request_id=order.request_id,
        action="unblock",
        taken=all(one.taken for one in done),
        repo_key=key,
        tasks=targets,
    )


def repo_key_of(repo: str) -> str:
    """The repoKey (or repository id) as Control compares it.

    Raises:
        CcwebError: `invalid_request`.
    """
    key = reads.full_repo_key(repo)
    if not _REPO.match(key):
        raise CcwebError(ErrorCode.INVALID_REQUEST, "repoKey: must be default:<owner>/<repo> or a repository id")
    return key


async def _update(
    client: Client, workflow_id: str, action: str, argument: dict[str, Any], request_id: str
) -> Verdict | None:
    """The workflow's answer; None when no worker gave one, or the workflow is closed or not there."""
    handle = client.get_workflow_handle(workflow_id)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await handle.execute_update(action, argument, id=request_id, rpc_timeout=_RPC)
            return Verdict.model_validate(answer)
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError, WorkflowUpdateFailedError):
        return None
    except RPCError as error:
        if error.status in {RPCStatusCode.NOT_FOUND, RPCStatusCode.RESOURCE_EXHAUSTED}:
            return None
        raise


async def _stored(client: Client, run: Run, request_id: str) -> Verdict | None:
    """What an earlier call of this requestId came to that was stored as a signal; the history keeps it."""
    state = str(TaskState.RECEIVED)
    handle = client.get_workflow_handle(run.workflow_id, run_id=run.run_id)
    async for event in handle.fetch_history_events(rpc_timeout=_RPC):
        shown = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
        if STATE in shown:
            state = visibility.value_of(shown[STATE])
        signal = event.workflow_execution_signaled_event_attributes
        if signal.request_id == request_id:
            return Verdict(request_id=request_id, action=signal.signal_name, accepted=True, from_state=state)
    return None


async def _store(client: Client, run: Run, action: str, order: Order) -> Verdict:
    """Stores the call as a signal, if it is legal in the state that lists show now."""
    state, _ = reads.state_of(run)
    if state not in LEGAL[action]:
        raise _illegal(action, state)
    await _signal(client, run.workflow_id, action, order)
    return Verdict(request_id=order.request_id, action=action, accepted=True, from_state=state)


async def _signal(client: Client, workflow_id: str, name: str, order: Order) -> None:
    """By the raw call: the server drops a second signal with the same request id."""
    payloads = await client.data_converter.encode([order.argument()])
    request = SignalWorkflowExecutionRequest(
        namespace=client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=workflow_id),
        signal_name=name,
        input=Payloads(payloads=payloads),
        request_id=order.request_id,
        identity=client.identity,
    )
    await client.workflow_service.signal_workflow_execution(request, retry=True, timeout=_RPC)


async def _signal_control(client: Client, name: str, argument: dict[str, Any]) -> None:
    """Starts Control where it does not run."""
    await client.start_workflow(
        "Control",
        None,
        id=ids.CONTROL_WORKFLOW_ID,
        task_queue=ids.TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=name,
        start_signal_args=[argument],
        rpc_timeout=_RPC,
    )


def _illegal(action: str, state: str) -> CcwebError:
    legal = ", ".join(sorted(LEGAL[action]))
    return CcwebError(ErrorCode.ILLEGAL_STATE, f"{action}: the task is {state or 'unknown'}; legal in {legal}")


def _must_be_ours(verdict: Verdict, action: str) -> None:
    if verdict.action != action:
        raise CcwebError(ErrorCode.REQUEST_ID_REUSED, f"{verdict.request_id} was a call to {verdict.action}")
