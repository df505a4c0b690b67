"""When people are told: a task failed, is blocked, has used up its budget; and that it changes nothing."""

from domain.errors import ErrorCode
from domain.events import Notice
from domain.states import TaskState
from tests.workflows.fakes import found
from tests.workflows.world import World

S = TaskState


def told(world: World) -> list[tuple[str, str | None]]:
    notices: list[Notice] = world.fakes.calls["notify"]
    return [(notice.kind, notice.error_code) for notice in notices]


async def test_a_failed_task_is_told(world: World) -> None:
    world.fakes.plan("run_turn", ErrorCode.MCP_START_FAILED)
    world.fakes.plan("verify_reply", found("missing"))
    task = await world.deliver(world.event())
    await world.end(task)
    assert told(world) == [("failed", ErrorCode.MCP_START_FAILED)]
    assert world.fakes.calls["notify"][0].task_id == task.id


async def test_a_blocked_workspace_is_told(world: World) -> None:
    world.fakes.plan("prepare_workspace", ErrorCode.WORKSPACE_DIRTY)
    task = await world.deliver(world.event())
    await world.reaches(task, S.BLOCKED_WORKSPACE)
    await task.signal("unblock")
    await world.end(task)
    assert told(world) == [("blocked", ErrorCode.WORKSPACE_DIRTY)]


async def test_a_task_that_succeeds_tells_nobody(world: World) -> None:
    await world.end(await world.deliver(world.event()))
    assert told(world) == []


async def test_a_notifier_that_breaks_does_not_change_the_end(world: World) -> None:
    world.fakes.plan("notify", ErrorCode.INTERNAL_ERROR, ErrorCode.INTERNAL_ERROR, ErrorCode.INTERNAL_ERROR)
    world.fakes.plan("run_turn", ErrorCode.MCP_START_FAILED)
    world.fakes.plan("verify_reply", found("missing"))
    ended = await world.end(await world.deliver(world.event()))
    assert (ended.state, ended.error_code) == (S.FAILED, ErrorCode.MCP_START_FAILED)
    assert len(world.fakes.receipts(S.FAILED)) == 1
