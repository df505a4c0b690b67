"""What a test of the workflows works with: a worker on queues of its own, fakes, and handles."""

import asyncio
import contextlib
import itertools
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Worker

from activities.temporal import TemporalActivities
from domain import ids
from domain.errors import ErrorCode
from domain.events import SessionStart, TaskEvent, TaskResult, TurnOutcome, TurnRequest
from domain.states import TaskState
from settings import Settings, load_settings
from tests.workflows.fakes import Fakes, cut, event, found
from workflows.agent_task import AgentTask
from workflows.control import Control
from workflows.repository import Repository
from workflows.session import Session

_REPOSITORIES = itertools.count(int(uuid.uuid4()) % 1_000_000_000 * 1000)
_TEMPORAL = Path(sys.executable).parent / "temporal"


def new_repository() -> int:
    """The id of a repository that no other test has."""
    return next(_REPOSITORIES)


class World:
    def __init__(self, client: Client, settings: Settings, queue: str) -> None:
        self.client = client
        self.settings = settings
        self.queue = queue
        self.host = queue
        self.fakes = Fakes()
        self.repo = new_repository()
        self.seen: dict[str, str] = {}
        """sourceKey to taskId, by the markers that stand in the discussion."""
        self._objects = itertools.count(1)

    async def seen_sources(self, start: SessionStart) -> dict[str, str]:
        return self.seen

    def event(self, text: str = "please fix it", **more: Any) -> TaskEvent:
        return event(more.pop("repo", self.repo), text, object_id=more.pop("object_id", next(self._objects)), **more)

    async def deliver(self, delivered: TaskEvent) -> WorkflowHandle[Any, Any]:
        """As ingress does it: signal-with-start of the session. Returns the handle of the event's task."""
        await self.client.start_workflow(
            "Session",
            SessionStart(session_key=delivered.session_key, repository=delivered.repository),
            id=ids.session_workflow_id(delivered.session_key),
            task_queue=self.queue,
            start_signal="deliver",
            start_signal_args=[delivered],
        )
        return self.task(delivered.task_id)

    def task(self, task_id: str) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(task_id, result_type=TaskResult)

    def session(self, delivered: TaskEvent) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(ids.session_workflow_id(delivered.session_key))

    def repository(self) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(ids.repository_workflow_id(self.repo))

    async def end(self, handle: WorkflowHandle[Any, Any]) -> TaskResult:
        """The task's result, also of one that failed."""
        await eventually(lambda: exists(handle))
        try:
            return TaskResult.model_validate(await handle.result())
        except WorkflowFailureError as error:
            assert isinstance(error.cause, ApplicationError), error.cause
            return TaskResult.model_validate(error.cause.details[0])

    async def state(self, handle: WorkflowHandle[Any, Any]) -> str:
        if not await exists(handle):
            return ""
        return str((await handle.describe()).search_attributes.get("CcwebState", [""])[0])

    async def reaches(self, handle: WorkflowHandle[Any, Any], state: TaskState) -> None:
        async def there() -> bool:
            return await self.state(handle) == state

        await eventually(there)

    async def rolled_over(self, handle: WorkflowHandle[Any, Any]) -> bool:
        """Whether the newest run was continued from an earlier one."""
        first = (await handle.fetch_history()).events[0]
        return bool(first.workflow_execution_started_event_attributes.continued_execution_run_id)

    async def out_of_budget(self) -> TaskEvent:
        """A task whose turn used up its tokens and that waits for more."""

        async def used_up(request: TurnRequest) -> TurnOutcome:
            outcome = await cut(request)
            return outcome.model_copy(update={"error_code": ErrorCode.BUDGET_EXCEEDED, "detail": "tokens"})

        self.fakes.plan("run_turn", used_up)
        self.fakes.plan("verify_reply", found("missing"))
        self.fakes.plan("post_fallback", found("question"))
        asked = self.event()
        await self.reaches(await self.deliver(asked), TaskState.WAITING_USER)
        return asked

    async def seen_in_lists(self) -> None:
        """Waits until lists, which are a little late, show the repository, a session and a task."""
        query = f'TaskQueue="{self.queue}"'

        async def there() -> bool:
            return len({found.workflow_type async for found in self.client.list_workflows(query)}) >= 3

        await eventually(there)

    async def nothing_is_wedged(self) -> None:
        """Fails when a workflow of this world has a failing workflow task; ends what is left."""
        async for listed in self.client.list_workflows(f'TaskQueue="{self.queue}" AND ExecutionStatus="Running"'):
            handle = self.client.get_workflow_handle(listed.id)
            described = await handle.describe()
            assert described.raw_description.pending_workflow_task.attempt <= 1, listed.id
            with contextlib.suppress(RPCError):
                await handle.terminate()

    async def cli(self, *arguments: str) -> str:
        """Runs the real `temporal` binary against the server of this test."""
        process = await asyncio.create_subprocess_exec(
            str(_TEMPORAL),
            *arguments,
            f"--address={self.client.service_client.config.target_host}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
        return output.decode()


async def exists(handle: WorkflowHandle[Any, Any]) -> bool:
    try:
        await handle.describe()
    except Exception as error:
        if "not found" in str(error).lower():
            return False
        raise
    return True


async def eventually(condition: Callable[[], Awaitable[bool] | bool], seconds: float = 20) -> None:
    """Waits until the condition holds."""
    async with asyncio.timeout(seconds):
        while True:
            held = condition()
            if held if isinstance(held, bool) else await held:
                return
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def run_world(client: Client, tasks: Sequence[type] = (AgentTask,), **overrides: Any) -> AsyncIterator[World]:
    """A world with short times; its worker runs until the block ends."""
    world = new_world(client, **overrides)
    async with working(world, tasks):
        yield world
        await world.nothing_is_wedged()


def new_world(client: Client, **overrides: Any) -> World:
    short = {"heartbeat_timeout": 0.6, "stop_budget": 0.4, "probe_interval": 0.3, "pause_poll": 0.2, "stuck_after": 1}
    return World(client, load_settings(**{**short, **overrides}), f"agent-{uuid.uuid4().hex[:8]}")


@contextlib.asynccontextmanager
async def working(world: World, tasks: Sequence[type] = (AgentTask,)) -> AsyncIterator[None]:
    """A world's worker, until the block ends."""
    temporal = TemporalActivities(world.settings, world.client, world.host, world.seen_sources)
    ours: list[Callable[..., Any]] = [
        temporal.recover_session,
        temporal.recover_repository,
        temporal.pick_host,
        temporal.probe_task,
        temporal.read_end,
        temporal.request_lease,
        temporal.read_control,
        temporal.terminate_stuck,
    ]
    shared = Worker(
        world.client,
        task_queue=world.queue,
        workflows=[Session, Repository, Control, *tasks],
        activities=[*ours, *world.fakes.shared],
    )
    host = Worker(
        world.client,
        task_queue=ids.host_queue(world.host),
        activities=world.fakes.on_host,
        max_heartbeat_throttle_interval=timedelta(seconds=0.2),
    )
    async with shared, host:
        yield
