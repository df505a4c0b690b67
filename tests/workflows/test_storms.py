"""Duplicates by the thousand, and signals that come faster than a workflow can roll over."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from domain.events import ResourceClosed, TaskEvent
from domain.states import TaskState
from tests.workflows.world import World, eventually, new_world, run_world, working

S = TaskState
_AT_ONCE = 20
_LARGEST = "大" * 30_000


def other_delivery(world: World, event: TaskEvent) -> TaskEvent:
    """The same source as another webhook, or a person who redelivers, brings it."""
    return world.event(issue=event.number).model_copy(update={"source_key": event.source_key})


async def deliver_all(world: World, delivered: Iterable[TaskEvent]) -> None:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(event: TaskEvent) -> None:
        async with slots:
            await world.deliver(event)

    await asyncio.gather(*(one(event) for event in delivered))


async def everything_is_done(world: World, ran: int, seconds: float = 20) -> None:
    """Waits until so many turns ran and no task is open."""

    async def done() -> bool:
        query = f'TaskQueue="{world.queue}" AND WorkflowType="AgentTask" AND ExecutionStatus="Running"'
        return len(world.fakes.order) >= ran and not (await world.client.count_workflows(query)).count

    await eventually(done, seconds)


async def test_a_storm_of_a_thousand_duplicates_makes_one_task(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    event = world.event()
    task = await world.deliver(event)
    await world.fakes.entered["turn"].wait()
    others = [other_delivery(world, event) for _ in range(20)]
    await deliver_all(world, [*([event] * 480), *(others * 25), *([event] * 20)])
    await eventually(lambda: listed(world, task, others[0]))
    world.fakes.open_gate("turn")
    assert (await world.end(task)).state is S.SUCCEEDED
    await deliver_all(world, others)
    assert (await world.end(await world.deliver(world.event()))).state is S.SUCCEEDED

    assert len(world.fakes.order) == 2
    assert len(world.fakes.receipts(S.QUEUED)) == 2
    history = await task.fetch_history()
    signals = [event for event in history.events if event.HasField("workflow_execution_signaled_event_attributes")]
    assert len(signals) < 2 * len(others)


async def listed(world: World, task: WorkflowHandle[Any, Any], alias: TaskEvent) -> bool:
    """Whether the task is found by another delivery of its source."""
    return alias.delivery_key in (await task.describe()).search_attributes["CcwebDeliveries"]


async def test_what_is_known_stays_known_over_a_roll_over(world: World) -> None:
    events = [world.event() for _ in range(8)]
    for event in events:
        await world.end(await world.deliver(event))
    session = world.session(events[0])
    await eventually(lambda: world.rolled_over(session))
    await deliver_all(world, [other_delivery(world, event) for event in events] + events)
    await world.end(await world.deliver(world.event()))

    assert len(world.fakes.order) == 9


async def test_what_is_known_stays_known_when_the_session_was_terminated(world: World) -> None:
    event = world.event()
    await world.end(await world.deliver(event))
    world.seen = {event.source_key: event.task_id}
    await world.session(event).terminate()
    await deliver_all(world, [event, other_delivery(world, event)] * 5)
    await world.end(await world.deliver(world.event()))

    assert len(world.fakes.order) == 2


async def test_what_is_known_stays_known_when_the_session_ended(client: Client) -> None:
    async with run_world(client, session_idle=0.3) as world:
        event = world.event()
        await world.end(await world.deliver(event))
        world.seen = {event.source_key: event.task_id}
        closed = ResourceClosed(
            session_key=event.session_key, closed=True, actor="alice", received_at=event.received_at
        )
        await world.session(event).signal("resource_closed", closed)
        await world.session(event).result()
        await deliver_all(world, [event, other_delivery(world, event)])
        await world.end(await world.deliver(world.event()))

        assert len(world.fakes.order) == 2


async def test_what_temporal_forgot_after_its_retention_is_known_by_the_marker_in_gitea(world: World) -> None:
    event = world.event()
    world.seen = {event.source_key: event.task_id}
    await deliver_all(world, [event, other_delivery(world, event)])
    new = world.event()
    await world.end(await world.deliver(new))

    assert world.fakes.order == [new.task_id]


async def test_a_storm_of_signals_is_taken_whole_over_roll_overs(world: World) -> None:
    await storm(world, 24, issues=3)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_repository_of_a_thousand_tasks_rolls_over_and_stays_small(world: World) -> None:
    await storm(world, 1000, issues=20)
    handle = world.repository()
    history = await handle.fetch_history()
    assert len(history.events) < 500
    started = history.events[0].workflow_execution_started_event_attributes
    assert started.input.ByteSize() < 200_000


async def storm(world: World, size: int, issues: int) -> None:
    """Distinct requests and duplicates of each, all at once: each runs once, one after another."""
    events = [world.event(issue=1 + n % issues) for n in range(size)]
    await deliver_all(world, [event for event in events for _ in range(2)])
    await everything_is_done(world, size, 60 + 1.5 * size)
    assert sorted(world.fakes.order) == sorted(event.task_id for event in events)
    assert world.fakes.overlaps == 0
    assert await world.rolled_over(world.repository())
    async for run in world.client.list_workflows(f'TaskQueue="{world.queue}"'):
        assert run.status in {
            WorkflowExecutionStatus.RUNNING,
            WorkflowExecutionStatus.COMPLETED,
            WorkflowExecutionStatus.CONTINUED_AS_NEW,
        }


async def test_long_requests_that_wait_are_taken_when_a_session_rolls_over(client: Client) -> None:
    world = new_world(client)
    events = [world.event(_LARGEST) for _ in range(25)]
    async with working(world):
        for _ in range(4):
            await world.end(await world.deliver(world.event()))
    await deliver_all(world, events)
    async with working(world):
        await everything_is_done(world, 29, 60)
        assert len(world.fakes.order) == 29
        await world.nothing_is_wedged()
