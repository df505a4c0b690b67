"""Cancel and abort, by signal and by cancelling the workflow, in each state."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from temporalio.client import WorkflowHandle

from domain import events
from domain.errors import ErrorCode
from domain.states import TaskState
from tests.workflows.fakes import POLICY, found
from tests.workflows.world import World, eventually

S = TaskState
C = ErrorCode
Task = WorkflowHandle[Any, Any]


async def in_received(world: World) -> Task:
    world.fakes.plan("admit", world.fakes.hold("admit"))
    task = await world.deliver(world.event())
    await world.fakes.entered["admit"].wait()
    return task


async def in_queued(world: World) -> Task:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    await world.deliver(world.event(issue=9))
    await world.fakes.entered["turn"].wait()
    task = await world.deliver(world.event())
    await world.reaches(task, S.QUEUED)
    return task


async def in_waiting_user(world: World) -> Task:
    world.fakes.plan("verify_reply", found("question"))
    task = await world.deliver(world.event())
    await world.reaches(task, S.WAITING_USER)
    return task


async def in_blocked_workspace(world: World) -> Task:
    world.fakes.plan("prepare_workspace", C.WORKSPACE_DIRTY)
    task = await world.deliver(world.event())
    await world.reaches(task, S.BLOCKED_WORKSPACE)
    return task


async def in_retry_wait(world: World) -> Task:
    slow = POLICY.model_copy(update={"retry_delay": 3000.0})
    delivered = world.event()
    world.fakes.plan("admit", events.Admission(state="queued", repository=delivered.repository, policy=slow))
    world.fakes.plan("prepare_workspace", C.WORKSPACE_UNAVAILABLE)
    task = await world.deliver(delivered)
    await world.reaches(task, S.RETRY_WAIT)
    return task


async def in_preparing(world: World) -> Task:
    world.fakes.plan("prepare_workspace", world.fakes.hold("prepare"))
    task = await world.deliver(world.event())
    await world.fakes.entered["prepare"].wait()
    return task


async def in_running(world: World) -> Task:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    world.fakes.plan("verify_reply", found("missing"))
    task = await world.deliver(world.event())
    await world.fakes.entered["turn"].wait()
    return task


async def in_verifying_reply(world: World) -> Task:
    world.fakes.plan("verify_reply", world.fakes.hold("verify"), found("missing"))
    task = await world.deliver(world.event())
    await world.fakes.entered["verify"].wait()
    return task


IDLE = [in_received, in_queued, in_waiting_user, in_blocked_workspace, in_retry_wait]
BUSY = [in_preparing, in_running, in_verifying_reply]
Arrange = Callable[[World], Awaitable[Task]]


@pytest.mark.parametrize("arrange", IDLE)
@pytest.mark.parametrize("how", ["signal", "workflow"])
async def test_what_does_not_run_is_cancelled(world: World, arrange: Arrange, how: str) -> None:
    task = await arrange(world)
    await (task.cancel() if how == "workflow" else task.signal("cancel", {"actor": "olga", "reason": "not now"}))
    result = await world.end(task)

    assert result.state is S.CANCELLED
    assert await world.state(task) == S.CANCELLED
    expected = 0 if arrange is in_received else 1
    assert len(world.fakes.receipts(S.CANCELLED)) == expected


@pytest.mark.parametrize("arrange", BUSY)
@pytest.mark.parametrize("how", ["signal", "workflow"])
async def test_what_works_is_aborted_after_it_has_stopped(world: World, arrange: Arrange, how: str) -> None:
    task = await arrange(world)
    await (task.cancel() if how == "workflow" else task.signal("abort", "wrong branch"))
    result = await world.end(task)

    assert result.state is S.ABORTED
    assert world.fakes.running == 0
    assert len(world.fakes.receipts(S.ABORTED)) == 1
    assert (await world.end(await world.deliver(world.event(issue=2)))).state is S.SUCCEEDED


@pytest.mark.parametrize(("arrange", "name"), [(in_running, "cancel"), (in_waiting_user, "abort")])
async def test_a_signal_that_is_not_legal_now_changes_nothing(world: World, arrange: Arrange, name: str) -> None:
    task = await arrange(world)
    before = await world.state(task)
    await task.signal(name)
    await task.query("lease_id")

    assert await world.state(task) == before


async def test_an_abort_after_the_answer_is_a_success(world: World) -> None:
    task = await in_running(world)
    world.fakes.plans["verify_reply"].clear()
    await task.signal("abort")

    assert (await world.end(task)).state is S.SUCCEEDED


async def test_a_turn_that_does_not_stop_is_given_up_and_the_next_waits(world: World) -> None:
    release = asyncio.Event()

    async def deaf(_: object) -> object:
        world.fakes.entered["deaf"].set()
        while not release.is_set():
            from temporalio import activity

            activity.heartbeat()
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue
        raise RuntimeError("released")

    world.fakes.plan("run_turn", deaf)
    task = await world.deliver(world.event())
    await world.fakes.entered["deaf"].wait()
    await task.signal("abort")
    result = await world.end(task)
    other = await world.deliver(world.event(issue=2))
    assert (result.state, result.error_code) == (S.FAILED, C.ABORT_TIMEOUT)
    assert (await world.end(other)).state is S.SUCCEEDED
    release.set()
    await eventually(lambda: world.fakes.running == 0)


async def test_a_second_cancel_does_not_interrupt_the_clean_up(world: World) -> None:
    task = await in_running(world)
    world.fakes.plan("settle_workspace", world.fakes.hold("settle"))
    await task.cancel()
    await world.fakes.entered["settle"].wait()
    await task.cancel()
    world.fakes.open_gate("settle")

    assert (await world.end(task)).state is S.ABORTED
