"""What only a look at Temporal tells: open tasks, the oldest that waits, wedged workflows, workers (section 10).

The ingress looks, because it goes on while every worker is away.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from datetime import timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

import metrics
from domain import ids, search_attributes
from domain.errors import CcwebError
from domain.metrics import BACKLOG_AGE, OLDEST_QUEUED, POLLERS, TASKS_OPEN, TEMPORAL_UP, WEDGED
from domain.states import TaskState
from operations import reads, visibility

log = logging.getLogger("ccweb.ingress")
EVERY = 15.0
"""Seconds between two looks."""
_RPC = timedelta(seconds=5)
_MAX_QUEUED = 1000
_QUEUED = (
    f'WorkflowType="AgentTask" AND ExecutionStatus="Running" AND {search_attributes.STATE} '
    f'IN ("{TaskState.RECEIVED}", "{TaskState.QUEUED}")'
)


class Gauges:
    """Remembers since when it sees a task wait: one that was answered after days has not waited for days."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._since: dict[str, float] = {}

    async def look(self) -> None:
        """Sets all gauges; when Temporal does not answer, only that it does not."""
        try:
            async with visibility.asking():
                await self._look()
        except CcwebError as error:
            log.warning("metrics: %s", error)
            metrics.record(TEMPORAL_UP, 0)
        else:
            metrics.record(TEMPORAL_UP, 1)

    async def _look(self) -> None:
        seen = await reads.overview(self._client)
        for state, count in seen.open_tasks.items():
            metrics.record(TASKS_OPEN, count, {"state": state})
        metrics.record(WEDGED, len(seen.wedged_workflows))
        metrics.record(POLLERS, sum(queue.workers for queue in seen.workers))
        queued = await visibility.runs(self._client, _QUEUED, _MAX_QUEUED)
        metrics.record(OLDEST_QUEUED, self._oldest([run.workflow_id for run in queued]))
        metrics.record(BACKLOG_AGE, await self._backlog_age())

    def _oldest(self, queued: list[str]) -> float:
        now = time.monotonic()
        self._since = {task_id: self._since.get(task_id, now) for task_id in queued}
        return now - min(self._since.values(), default=now)

    async def _backlog_age(self) -> float:
        request = DescribeTaskQueueRequest(
            namespace=self._client.namespace,
            task_queue=TaskQueue(name=ids.TASK_QUEUE),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
            report_stats=True,
        )
        found = await self._client.workflow_service.describe_task_queue(request, timeout=_RPC)
        return found.stats.approximate_backlog_age.ToTimedelta().total_seconds()


@contextlib.asynccontextmanager
async def watching(client: Client) -> AsyncIterator[None]:
    """Looks again and again while the block runs."""
    task = asyncio.create_task(_watch(Gauges(client)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _watch(gauges: Gauges) -> None:
    while True:
        await gauges.look()
        await asyncio.sleep(EVERY)
