"""The way into Temporal, for ingress and the reconciler: one signal-with-start, and describes that need no worker
(design section 4).

All of it under one deadline. A describe never runs workflow code, so duplicates, disabled repositories and
first-seen names are known while every worker is stopped.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from connection import TemporalUnavailableError, config, reason, unreachable
from domain import ids
from domain.events import ControlState, Poke, RepositoryRef, ResourceClosed, ResourceKind, SessionStart, TaskEvent

DEADLINE = 3.0
"""Seconds for everything one delivery asks of Temporal."""
_FRESH = 2.0
"""Seconds that a read of the operators' switches, or of a repository that is not known yet, stays good."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a repository before its event is signalled."""

    repo_key: str
    disabled: bool
    enabled_at: datetime | None = None
    """When operators switched it on again, if they ever did."""


class Gateway:
    """Who brings events has this view of Temporal. Connects at its first call and again after every outage."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._names: dict[int, str] = {}
        self._unknown: dict[int, float] = {}
        self._control: tuple[float, ControlState] | None = None

    async def check(self) -> None:
        """Raises TemporalUnavailableError unless the server answers."""
        async with deadline():
            await self._client.service_client.check_health(timeout=timedelta(seconds=DEADLINE))

    async def standing(self, repository: RepositoryRef) -> Standing:
        """The repository's first-seen name, and whether operators switched it off."""
        shown = ids.repo_key(repository.owner, repository.name)
        repo_key, control = await self._both(repository.id, shown)
        names = {str(repository.id), repo_key, shown}
        enabled = [at for name, at in control.enabled_at.items() if name in names]
        return Standing(repo_key, not names.isdisjoint(control.disabled), max(enabled, default=None))

    async def deliver(self, event: TaskEvent) -> bool:
        """Signals an event to its session, starting it if need be; it is in Temporal's history afterwards.

        Returns:
            False when an earlier arrival of the same delivery already has its task.
        """
        # The signal is sent off first: it is what the sender waits for.
        _, taken = await asyncio.gather(
            self._signal(event, "deliver", event.kind), self._memo(event.task_id, "receivedAt", str)
        )
        return taken is None or _moment(taken.value) == event.received_at

    async def poke(self, poke: Poke, kind: ResourceKind) -> None:
        """Has a session look into something, starting it if need be; it is in Temporal's history afterwards."""
        await self._signal(poke, "poke", kind)

    async def tell_closed(self, closed: ResourceClosed) -> bool:
        """Tells a session that its resource was closed or reopened; False when there is none."""
        handle = self._client.get_workflow_handle(ids.session_workflow_id(closed.session_key))
        try:
            await handle.signal("resource_closed", closed, rpc_timeout=timedelta(seconds=DEADLINE))
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        return True

    async def _signal(self, event: TaskEvent | Poke, signal: str, kind: ResourceKind) -> None:
        await self._client.start_workflow(
            "Session",
            SessionStart(session_key=event.session_key, repository=event.repository),
            id=ids.session_workflow_id(event.session_key),
            task_queue=ids.TASK_QUEUE,
            start_signal=signal,
            start_signal_args=[event],
            static_summary=f"{event.repository.full_name} {kind.replace('_', ' ')} {event.number}",
            rpc_timeout=timedelta(seconds=DEADLINE),
        )

    async def _both(self, number: int, shown: str) -> tuple[str, ControlState]:
        """What is known needs no tasks; what is not is asked for side by side."""
        repo_key, control = self._known_name(number, shown), self._known_control()
        if repo_key is None or control is None:
            return await asyncio.gather(self._canonical(number, shown), self._read_control())
        return repo_key, control

    def _known_name(self, number: int, shown: str) -> str | None:
        """The first-seen name, kept for ever once known. An unknown repository is asked for again soon."""
        if number in self._names:
            return self._names[number]
        return shown if time.monotonic() - self._unknown.get(number, -_FRESH) < _FRESH else None

    async def _canonical(self, number: int, shown: str) -> str:
        known = self._known_name(number, shown)
        if known is not None:
            return known
        asked = time.monotonic()
        memo = await self._memo(ids.repository_workflow_id(number), "repoKey", str)
        if memo is None or not isinstance(memo.value, str):
            self._unknown = {**_recent(self._unknown), number: asked}
            return shown
        self._names[number] = memo.value
        return memo.value

    def _known_control(self) -> ControlState | None:
        known = self._control
        return known[1] if known and time.monotonic() - known[0] <= _FRESH else None

    async def _read_control(self) -> ControlState:
        known = self._known_control()
        if known is not None:
            return known
        asked = time.monotonic()
        memo = await self._memo(ids.CONTROL_WORKFLOW_ID, "control", ControlState)
        found = memo.value if memo and isinstance(memo.value, ControlState) else ControlState()
        self._control = (asked, found)
        return found

    async def _memo(self, workflow_id: str, key: str, kind: type) -> "_Memo | None":
        """One field of a workflow's memo; None when there is no such workflow.

        By the raw call, since the client's `describe` fails on states that the SDK does not know (paused).
        """
        request = DescribeWorkflowExecutionRequest(
            namespace=self._client.namespace, execution=WorkflowExecution(workflow_id=workflow_id)
        )
        try:
            found = await self._client.workflow_service.describe_workflow_execution(
                request, retry=True, timeout=timedelta(seconds=DEADLINE)
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        fields = found.workflow_execution_info.memo.fields
        if key not in fields:
            return _Memo(None)
        return _Memo((await self._client.data_converter.decode([fields[key]], [kind]))[0])


@dataclass(frozen=True, slots=True)
class _Memo:
    value: Any


@asynccontextmanager
async def deadline() -> AsyncIterator[None]:
    """One limit for all that is asked of Temporal inside; its failures become TemporalUnavailableError."""
    try:
        async with asyncio.timeout(DEADLINE):
            yield
    except TimeoutError:
        raise TemporalUnavailableError(f"no answer within {DEADLINE:g} s") from None
    except RPCError as error:
        raise TemporalUnavailableError(f"{error.status.name}: {reason(error)}") from None
    except RuntimeError as error:  # What the SDK raises when it cannot connect at all.
        raise TemporalUnavailableError(unreachable(error, config()["target_host"])) from None


def _recent(times: dict[int, float]) -> dict[int, float]:
    return {number: at for number, at in times.items() if time.monotonic() - at < _FRESH}


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
