"""Every command of docs/how-to/temporal-cli.md is run, and does what its section says."""

import re
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import schedules
from domain import ids
from domain.errors import ErrorCode
from domain.events import TaskEvent
from domain.states import TaskState
from tests.workflows.fakes import found
from tests.workflows.world import World, eventually

S = TaskState
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "temporal-cli.md").read_text(encoding="utf-8")


def sections() -> dict[str, tuple[str, list[str]]]:
    """Title to what it needs and its commands."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {title: (_needs(text), re.findall(r"^temporal .+$", text, flags=re.MULTILINE)) for title, text in pairs}


def _needs(text: str) -> str:
    needs = re.search(r"<!-- needs: (.+) -->", text)
    assert needs, text
    return needs[1]


async def _running(world: World) -> TaskEvent:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    event = world.event(repo_key="default:octo/demo")
    await world.deliver(event)
    await world.fakes.entered["turn"].wait()
    world.fakes.plan("verify_reply", found("missing"))
    return event


async def _reaching(world: World, state: TaskState) -> TaskEvent:
    event = world.event()
    await world.reaches(await world.deliver(event), state)
    return event


async def _waiting(world: World) -> TaskEvent:
    world.fakes.plan("verify_reply", found("question"))
    return await _reaching(world, S.WAITING_USER)


async def _blocked(world: World) -> TaskEvent:
    world.fakes.plan("prepare_workspace", ErrorCode.WORKSPACE_DIRTY)
    return await _reaching(world, S.BLOCKED_WORKSPACE)


async def _ended(world: World) -> TaskEvent:
    event = world.event()
    await world.end(await world.deliver(event))
    return event


async def _with_control(world: World) -> TaskEvent:
    await world.client.start_workflow("Control", id=ids.CONTROL_WORKFLOW_ID, task_queue=world.queue)
    return world.event()


async def _with_schedules(world: World) -> TaskEvent:
    await schedules.ensure(world.client, world.settings)
    return world.event()


NEEDS: dict[str, Callable[[World], Awaitable[TaskEvent]]] = {
    "a running task": _running,
    "a waiting task": _waiting,
    "a blocked task": _blocked,
    "a task without budget": World.out_of_budget,
    "an ended task": _ended,
    "control": _with_control,
    "schedules": _with_schedules,
}
ENDS: dict[str, set[TaskState]] = {
    "Stop a task that works": {S.ABORTED},
    "Stop a task that waits": {S.CANCELLED},
    "Go on after a blocked workspace": {S.SUCCEEDED},
    "Allow more budget": {S.SUCCEEDED},
    "Stop everything of one Issue or PR": {S.ABORTED},
    "Many at once": {S.ABORTED},
    "Run a task again from a point": {S.SUCCEEDED},
}


@pytest.mark.parametrize("title", sections())
async def test_the_commands_of_a_section_do_what_it_says(world: World, title: str) -> None:
    needs, commands = sections()[title]
    event = await NEEDS[needs](world)
    assert commands
    for command in commands:
        await world.cli(*_arguments(world, event, command))
    await _check(world, title, event)


def _arguments(world: World, event: TaskEvent, command: str) -> list[str]:
    names = {
        "TASK": event.task_id,
        "SESSION": ids.session_workflow_id(event.session_key),
        "REPOSITORY": ids.repository_workflow_id(world.repo),
    }
    return [names.get(word, word) for word in shlex.split(command)[1:]]


async def _check(world: World, title: str, event: TaskEvent) -> None:
    task: Any = world.task(event.task_id)
    if title in ENDS:
        assert (await world.end(task)).state in ENDS[title]
    elif title.startswith("When nothing else helps"):
        await eventually(lambda: bool(world.fakes.receipts(S.FAILED)))
        world.fakes.open_gate("turn")
    elif title == "Look":
        world.fakes.open_gate("turn")
        assert (await world.end(task)).state is S.SUCCEEDED
    elif title == "The reconciler":
        handle = world.client.get_schedule_handle(ids.RECONCILE_SCHEDULE_ID)
        assert not (await handle.describe()).schedule.state.paused
        await handle.delete()
    else:
        control = await world.client.get_workflow_handle(ids.CONTROL_WORKFLOW_ID).describe()
        state = (await control.memo())["control"]
        assert (state["version"], state["paused"], state["disabled"]) == (4, False, {})
        await world.client.get_workflow_handle(ids.CONTROL_WORKFLOW_ID).terminate()
