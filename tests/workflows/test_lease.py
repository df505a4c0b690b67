"""One writer per repository, first come first served, whatever happens to the holder."""

import time
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from domain import events, ids
from domain.errors import ErrorCode
from domain.states import TaskState
from tests.workflows.broken_task import StuckTask
from tests.workflows.world import World, eventually, run_world

S = TaskState


async def test_tasks_of_a_repository_run_one_after_another_in_order(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    delivered = [world.event(issue=number) for number in range(1, 6)]
    tasks = []
    for event in delivered:
        tasks.append(await world.deliver(event))
        await world.reaches(tasks[-1], S.RUNNING if event is delivered[0] else S.QUEUED)
    await eventually(lambda: len(world.fakes.receipts(S.QUEUED)) == 5)
    await waiting(world, 4)
    world.fakes.open_gate("turn")
    results = [await world.end(task) for task in tasks]

    assert {result.state for result in results} == {S.SUCCEEDED}
    assert world.fakes.order == [event.task_id for event in delivered]
    assert world.fakes.overlaps == 0


async def waiting(world: World, count: int) -> None:
    """Waits until so many tasks wait for the lease, by the repository's own page."""

    async def there() -> bool:
        return (await page(world)).count("gitea-task-") >= count + 1

    await eventually(there)


async def page(world: World) -> str:
    metadata = await world.repository().query("__temporal_workflow_metadata")
    return str(metadata.current_details)


async def test_a_task_that_ran_before_goes_ahead_of_new_ones(world: World) -> None:
    first, second, third = (world.event(issue=number) for number in (1, 2, 3))
    world.fakes.plan("prepare_workspace", ErrorCode.WORKSPACE_DIRTY)
    blocked = await world.deliver(first)
    await world.reaches(blocked, S.BLOCKED_WORKSPACE)
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    others = [await world.deliver(second)]
    await world.fakes.entered["turn"].wait()
    others.append(await world.deliver(third))
    await waiting(world, 1)
    await blocked.signal("unblock")
    await waiting(world, 2)
    world.fakes.open_gate("turn")
    for task in (blocked, *others):
        assert (await world.end(task)).state is S.SUCCEEDED

    assert world.fakes.order == [second.task_id, first.task_id, third.task_id]


async def test_a_terminated_holder_is_followed_after_a_grace_time(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    holder, other = world.event(), world.event(issue=2)
    task = await world.deliver(holder)
    await world.fakes.entered["turn"].wait()
    waiter = await world.deliver(other)
    await world.reaches(waiter, S.QUEUED)
    started = time.monotonic()
    await task.terminate(reason="by a test")

    assert (await world.end(waiter)).state is S.SUCCEEDED
    assert time.monotonic() - started >= world.settings.heartbeat_timeout + world.settings.stop_budget
    assert world.fakes.overlaps == 0
    [receipt] = world.fakes.receipts(S.FAILED)
    assert receipt.comment_key == f"{holder.task_id}:status:terminated"
    assert receipt.error_code is ErrorCode.TERMINATED


async def test_a_terminated_holder_is_found_by_the_probe_when_its_session_is_gone_too(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    holder = world.event()
    task = await world.deliver(holder)
    await world.fakes.entered["turn"].wait()
    await world.session(holder).terminate()
    await task.terminate()
    other = await world.deliver(world.event(issue=2))

    assert (await world.end(other)).state is S.SUCCEEDED
    assert world.fakes.overlaps == 0


async def test_a_terminated_repository_adopts_the_holder(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    task = await world.deliver(world.event())
    await world.fakes.entered["turn"].wait()
    await world.repository().terminate()
    other = await world.deliver(world.event(issue=2))
    await waiting(world, 1)
    world.fakes.open_gate("turn")

    assert (await world.end(task)).state is S.SUCCEEDED
    assert (await world.end(other)).state is S.SUCCEEDED
    assert world.fakes.overlaps == 0


async def test_stale_releases_and_junk_change_nothing(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    holder = world.event()
    task = await world.deliver(holder)
    await world.fakes.entered["turn"].wait()
    other = await world.deliver(world.event(issue=2))
    await waiting(world, 1)
    stale = events.LeaseRelease(lease_id=ids.lease_id(holder.task_id, 9), task_id=holder.task_id)
    older = {"lease_id": ids.lease_id(holder.task_id, 0), "task_id": holder.task_id}
    junk: list[Any] = [None, "text", 7, [], {"task_id": 3}]
    for argument in [stale, *junk]:
        await world.repository().signal("release", argument)
    for argument in [older, *junk]:
        await world.repository().signal("request", argument)
    await world.repository().query("__temporal_workflow_metadata")
    assert world.fakes.running == 1
    world.fakes.open_gate("turn")

    assert (await world.end(task)).state is S.SUCCEEDED
    assert (await world.end(other)).state is S.SUCCEEDED
    assert world.fakes.overlaps == 0


async def test_a_repository_rolls_over_with_its_queue_while_signals_come(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    first = world.event()
    tasks = [await world.deliver(first)]
    await world.fakes.entered["turn"].wait()
    tasks += [await world.deliver(world.event(issue=number)) for number in range(2, 9)]
    await waiting(world, 7)
    world.fakes.open_gate("turn")
    results = [await world.end(task) for task in tasks]

    assert {result.state for result in results} == {S.SUCCEEDED}
    assert await world.rolled_over(world.repository())
    assert world.fakes.overlaps == 0
    assert len(world.fakes.order) == len(tasks)


async def test_an_idle_repository_ends_and_keeps_its_host(client: Client) -> None:
    async with run_world(client, session_idle=0.5) as world:
        await world.end(await world.deliver(world.event()))
        repository = world.repository()

        async def ended() -> bool:
            return (await repository.describe()).status is WorkflowExecutionStatus.COMPLETED

        await eventually(ended)
        assert (await world.end(await world.deliver(world.event()))).state is S.SUCCEEDED
        assert (await world.repository().describe()).status is WorkflowExecutionStatus.RUNNING or await ended()


async def test_a_stuck_holder_is_terminated_and_followed(client: Client) -> None:
    async with run_world(client, [StuckTask]) as world:
        world.fakes.plan("run_turn", world.fakes.hold("turn"))
        task = await world.deliver(world.event())
        await world.fakes.entered["turn"].wait()
        other = await world.deliver(world.event(issue=2))
        await waiting(world, 1)
        await task.signal("stick")

        assert (await world.end(other)).state is S.SUCCEEDED
        assert (await task.describe()).status is WorkflowExecutionStatus.TERMINATED
        assert world.fakes.overlaps == 0
        assert [(notice.kind, notice.task_id) for notice in world.fakes.calls["notify"]] == [("stuck", task.id)]


async def test_the_holder_is_found_among_more_tasks_than_a_list_shows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activities.temporal._MAX_RUNNING", 1)
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    tasks = [await world.deliver(world.event())]
    await world.fakes.entered["turn"].wait()
    tasks += [await world.deliver(world.event(issue=number)) for number in (2, 3)]
    await waiting(world, 2)
    await eventually(lambda: shown(world, tasks[0].id))
    await world.repository().terminate()
    tasks.append(await world.deliver(world.event(issue=4)))
    await waiting(world, 1)
    assert f"- holder: `{tasks[0].id}" in await page(world)
    for task in tasks[1:3]:
        await task.terminate()
    world.fakes.open_gate("turn")

    assert (await world.end(tasks[0])).state is S.SUCCEEDED
    assert (await world.end(tasks[3])).state is S.SUCCEEDED
    assert world.fakes.overlaps == 0


async def shown(world: World, task_id: str) -> bool:
    """Whether lists, which are a little late, show that the task runs."""
    return bool((await world.client.count_workflows(f'WorkflowId="{task_id}" AND CcwebState="running"')).count)
