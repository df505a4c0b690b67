"""What operators do with the real `temporal` program: every signal with nothing, a text, an object and junk."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from domain import ids
from domain.states import TaskState
from tests.workflows.fakes import found
from tests.workflows.test_stops import in_blocked_workspace, in_running, in_waiting_user
from tests.workflows.world import World, eventually

S = TaskState
READABLE = [None, "wrong branch", {"actor": "olga", "reason": "wrong branch"}]
JUNK = [7, [1, 2], True]


async def send(world: World, workflow_id: str, name: str, argument: Any) -> None:
    given = [] if argument is None else ["--input", json.dumps(argument)]
    await world.cli("workflow", "signal", "--workflow-id", workflow_id, "--name", name, *given)


@pytest.mark.parametrize("argument", READABLE)
async def test_abort_by_the_cli(world: World, argument: Any) -> None:
    task = await in_running(world)
    for junk in JUNK:
        await send(world, task.id, "abort", junk)
    assert await world.state(task) == S.RUNNING
    await send(world, task.id, "abort", argument)

    assert (await world.end(task)).state is S.ABORTED


@pytest.mark.parametrize("argument", READABLE)
async def test_cancel_by_the_cli(world: World, argument: Any) -> None:
    task = await in_waiting_user(world)
    for junk in JUNK:
        await send(world, task.id, "cancel", junk)
    assert await world.state(task) == S.WAITING_USER
    await send(world, task.id, "cancel", argument)

    assert (await world.end(task)).state is S.CANCELLED


@pytest.mark.parametrize("argument", READABLE)
async def test_unblock_by_the_cli(world: World, argument: Any) -> None:
    task = await in_blocked_workspace(world)
    for junk in JUNK:
        await send(world, task.id, "unblock", junk)
    assert await world.state(task) == S.BLOCKED_WORKSPACE
    await send(world, task.id, "unblock", argument)

    assert (await world.end(task)).state is S.SUCCEEDED


async def test_abort_and_cancel_of_a_session_reach_its_tasks(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    world.fakes.plan("verify_reply", found("missing"))
    first, second = world.event(), world.event()
    running = await world.deliver(first)
    await world.fakes.entered["turn"].wait()
    queued = await world.deliver(second)
    await world.reaches(queued, S.QUEUED)
    session = world.session(first).id
    for junk in JUNK:
        await send(world, session, "abort", junk)
        await send(world, session, "cancel", junk)
    await send(world, session, "cancel", {"actor": "olga"})
    assert (await world.end(queued)).state is S.CANCELLED
    await send(world, session, "abort", None)

    assert (await world.end(running)).state is S.ABORTED


async def test_cancelling_a_session_cancels_its_tasks_and_closes_it(world: World) -> None:
    first = world.event()
    await world.end(await world.deliver(first))
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    world.fakes.plan("verify_reply", found("missing"))
    task = await world.deliver(world.event())
    await world.fakes.entered["turn"].wait()
    await world.cli("workflow", "cancel", "--workflow-id", world.session(first).id)

    assert (await world.end(task)).state is S.ABORTED
    await world.session(first).result()
    [closed] = world.fakes.calls["close_session"]
    assert closed.thread_id == f"thread of {first.session_key}"


@pytest.fixture
async def control(client: Client, world: World) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    handle = await client.start_workflow("Control", id=ids.CONTROL_WORKFLOW_ID, task_queue=world.queue)
    yield handle
    await handle.terminate()


async def memo(handle: WorkflowHandle[Any, Any]) -> dict[str, Any]:
    return dict((await (await handle.describe()).memo()).get("control", {}))


async def shows(handle: WorkflowHandle[Any, Any], version: int) -> dict[str, Any]:
    async def there() -> bool:
        return (await memo(handle)).get("version") == version

    await eventually(there)
    return await memo(handle)


async def test_pause_holds_back_grants_until_resume(world: World, control: WorkflowHandle[Any, Any]) -> None:
    for junk in JUNK:
        await send(world, control.id, "pause", junk)
    for version, argument in enumerate(READABLE, 1):
        await send(world, control.id, "pause", argument)
        assert (await shows(control, version))["paused"] is True
    assert (await memo(control))["updated_by"] == "olga"
    task = await world.deliver(world.event())
    await world.reaches(task, S.QUEUED)
    assert not world.fakes.order
    for junk in JUNK:
        await send(world, control.id, "resume", junk)
    for version, argument in enumerate(READABLE, 4):
        await send(world, control.id, "resume", argument)
        assert (await shows(control, version))["paused"] is False

    assert (await world.end(task)).state is S.SUCCEEDED


async def test_disable_holds_back_one_repository_until_enable(
    world: World, control: WorkflowHandle[Any, Any]
) -> None:
    key = world.event().repo_key
    for nothing in (None, *JUNK, {"reason": "no repository named"}):
        await send(world, control.id, "disable", nothing)
        await send(world, control.id, "enable", nothing)
    await send(world, control.id, "disable", key)
    assert (await shows(control, 1))["disabled"] == {key: "disabled"}
    task = await world.deliver(world.event())
    await world.reaches(task, S.QUEUED)
    await send(world, control.id, "enable", {"repo": key, "actor": "olga"})
    assert (await shows(control, 2))["disabled"] == {}

    assert (await world.end(task)).state is S.SUCCEEDED
