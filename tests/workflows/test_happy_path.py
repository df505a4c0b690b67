"""One comment becomes one verified answer."""

from domain.states import TaskState
from tests.workflows.world import World

S = TaskState


async def test_a_comment_becomes_a_verified_answer(world: World) -> None:
    delivered = world.event()
    result = await world.end(await world.deliver(delivered))

    assert result.state is S.SUCCEEDED
    assert result.comment_id == 7
    assert result.thread_id == f"thread of {delivered.session_key}"
    assert [request.turn_key for request in world.fakes.calls["run_turn"]] == [f"{delivered.task_id}/1.1"]
    assert len(world.fakes.receipts(S.QUEUED)) == 1
    assert await world.state(world.task(delivered.task_id)) == S.SUCCEEDED


async def test_a_follow_up_continues_the_thread(world: World) -> None:
    first, second = world.event(), world.event("and now the docs")
    await world.end(await world.deliver(first))
    await world.end(await world.deliver(second))

    assert [request.thread_id for request in world.fakes.calls["run_turn"]] == [
        None,
        f"thread of {first.session_key}",
    ]


async def test_the_history_of_a_task_stays_small(world: World) -> None:
    delivered = world.event("x" * 1000)
    await world.end(await world.deliver(delivered))

    events = size = 0
    for handle in (world.task(delivered.task_id), world.session(delivered), world.repository()):
        described = await handle.describe()
        events += described.history_length
        size += described.raw_description.workflow_execution_info.history_size_bytes
    assert events <= 100, events
    assert size <= 60_000, size
