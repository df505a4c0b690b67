"""What starts a task besides a comment: reviews and assignments."""

from datetime import UTC, datetime

from domain import events, ids
from domain.events import Poke, SessionStart, TaskEvent
from domain.states import TaskState
from tests.workflows.world import World, eventually

S = TaskState


def _poke(like: TaskEvent, act: str) -> Poke:
    fields = {name: getattr(like, name) for name in ("repository", "repo_key", "session_key", "number")}
    times = {"received_at": datetime(2026, 11, 30, tzinfo=UTC)}
    return Poke.model_validate({"act": act, "delivery_id": "d", "event_type": "review", **fields, **times})


async def _send(world: World, poke: Poke) -> None:
    await world.client.start_workflow(
        "Session",
        SessionStart(session_key=poke.session_key, repository=poke.repository),
        id=ids.session_workflow_id(poke.session_key),
        task_queue=world.queue,
        start_signal="poke",
        start_signal_args=[poke],
    )


async def test_each_review_that_asks_gets_its_task_once(world: World) -> None:
    asked = [world.event("first remark"), world.event("second remark")]
    world.fakes.plan("list_reviews", events.Reviews(events=asked), events.Reviews(events=asked))
    poke = _poke(asked[0], "reviewed")
    await _send(world, poke)
    assert [(await world.end(world.task(one.task_id))).state for one in asked] == [S.SUCCEEDED, S.SUCCEEDED]

    await _send(world, poke)
    await eventually(lambda: len(world.fakes.calls["list_reviews"]) == 2)
    await world.end(await world.deliver(world.event()))
    assert len(world.fakes.order) == 3


async def test_a_comment_is_worked_on_while_gitea_does_not_list_the_reviews(world: World) -> None:
    asked = world.event("a remark")
    world.fakes.plan("list_reviews", world.fakes.hold("reviews"))
    await _send(world, _poke(asked, "reviewed"))
    await world.fakes.entered["reviews"].wait()
    assert (await world.end(await world.deliver(world.event()))).state is S.SUCCEEDED
    world.fakes.open_gate("reviews")


async def test_the_bot_can_be_assigned_again_after_it_was_unassigned(world: World) -> None:
    def assigned() -> TaskEvent:
        key = ids.source_key(world.repo, "assignment", 1)
        return world.event(source_kind="assignment", source_id="1", source_key=key)

    first, again, later = assigned(), assigned(), assigned()
    await world.end(await world.deliver(first))
    await world.deliver(again)
    await _send(world, _poke(first, "unassigned"))
    await world.end(await world.deliver(later))

    assert world.fakes.order == [first.task_id, later.task_id]
