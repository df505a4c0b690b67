"""From the end of a turn to what stands in Gitea: read-back, reply retry, fallback, questions, lost turns."""

import pytest

from domain.errors import ErrorCode
from domain.outcomes import NO_FINAL_TEXT
from domain.states import TaskState
from tests.workflows.fakes import cut, found
from tests.workflows.world import World

S = TaskState
C = ErrorCode


async def test_a_missing_answer_is_asked_for_once_more(world: World) -> None:
    world.fakes.plan("verify_reply", found("missing"))
    delivered = world.event()
    result = await world.end(await world.deliver(delivered))

    first, second = world.fakes.calls["run_turn"]
    assert result.state is S.SUCCEEDED
    assert (first.purpose, second.purpose) == ("normal", "reply_retry")
    assert (first.turn_key, second.turn_key) == (f"{delivered.task_id}/1.1", f"{delivered.task_id}/1.2")
    assert second.round == 1


async def test_an_answer_that_stays_missing_is_posted_by_rest(world: World) -> None:
    world.fakes.plan("verify_reply", found("missing"), found("missing"))
    result = await world.end(await world.deliver(world.event()))

    assert result.state is S.SUCCEEDED_WITH_REST_FALLBACK
    assert result.error_code is C.MCP_REPLY_MISSING
    assert [request.text for request in world.fakes.calls["post_fallback"]] == ["Done."]
    assert len(world.fakes.calls["run_turn"]) == 2


async def test_a_fallback_without_a_final_text_says_so(world: World) -> None:
    async def silent(request: object) -> object:
        return (await cut(request)).model_copy(update={"status": "completed"})

    world.fakes.plan("run_turn", silent, silent)
    world.fakes.plan("verify_reply", found("missing"), found("missing"))
    await world.end(await world.deliver(world.event()))

    assert world.fakes.calls["post_fallback"][0].text == NO_FINAL_TEXT


async def test_an_unknown_read_back_writes_nothing(world: World) -> None:
    world.fakes.plan("verify_reply", found("unknown"))
    result = await world.end(await world.deliver(world.event()))

    assert (result.state, result.error_code) == (S.FAILED_REPLY, C.REPLY_UNKNOWN)
    assert not world.fakes.calls["post_fallback"]
    assert len(world.fakes.calls["run_turn"]) == 1
    assert [request.state for request in world.fakes.calls["post_receipt"]] == [S.QUEUED]


@pytest.mark.parametrize("last", ["missing", "unknown"])
async def test_a_fallback_that_is_not_found_fails_the_reply(world: World, last: str) -> None:
    world.fakes.plan("verify_reply", found("missing"), found("missing"))
    world.fakes.plan("post_fallback", found(last))
    result = await world.end(await world.deliver(world.event()))

    assert result.state is S.FAILED_REPLY


async def test_an_interrupted_turn_is_continued_once(world: World) -> None:
    world.fakes.plan("run_turn", cut)
    world.fakes.plan("verify_reply", found("missing"))
    delivered = world.event()
    result = await world.end(await world.deliver(delivered))

    first, second = world.fakes.calls["run_turn"]
    assert result.state is S.SUCCEEDED
    assert (second.purpose, second.turn_key) == ("continuation", f"{delivered.task_id}/1.2")
    assert (first.lease_id, second.lease_id) == (f"{delivered.task_id}/1", f"{delivered.task_id}/2")
    assert len(world.fakes.receipts(S.QUEUED)) == 1


async def test_a_turn_interrupted_again_fails_with_one_receipt(world: World) -> None:
    world.fakes.plan("run_turn", cut, cut)
    world.fakes.plan("verify_reply", found("missing"), found("missing"))
    result = await world.end(await world.deliver(world.event()))

    assert (result.state, result.error_code) == (S.FAILED, C.INTERRUPTED_BY_RESTART)
    assert [request.error_code for request in world.fakes.receipts(S.FAILED)] == [C.INTERRUPTED_BY_RESTART]


async def test_an_interrupted_turn_that_had_answered_is_not_repeated(world: World) -> None:
    world.fakes.plan("run_turn", cut)
    result = await world.end(await world.deliver(world.event()))

    assert result.state is S.SUCCEEDED
    assert len(world.fakes.calls["run_turn"]) == 1


async def test_a_turn_that_never_came_to_an_outcome_is_repeated_under_its_own_key(world: World) -> None:
    world.fakes.plan("run_turn", C.APP_SERVER_TIMEOUT)
    world.fakes.plan("verify_reply", found("missing"))
    await world.end(await world.deliver(world.event()))

    first, second = world.fakes.calls["run_turn"]
    assert (first.turn_key, first.purpose) == (second.turn_key, second.purpose)


async def test_a_question_waits_for_the_answer(world: World) -> None:
    world.fakes.plan("verify_reply", found("question"))
    asked, answered, later = world.event("fix it"), world.event("the second one"), world.event("thanks, also this")
    task = await world.deliver(asked)
    await world.reaches(task, S.WAITING_USER)
    await world.deliver(answered)
    result = await world.end(task)
    await world.end(await world.deliver(later))

    first, second, third = world.fakes.calls["run_turn"]
    assert result.state is S.SUCCEEDED
    assert (second.round, second.turn_key, second.instruction) == (2, f"{asked.task_id}/2.1", "the second one")
    assert second.source_key == answered.source_key
    assert third.task_id == later.task_id
    assert (first.lease_id, second.lease_id) == (f"{asked.task_id}/1", f"{asked.task_id}/2")
    reactions = [request.react_to.source_id for request in world.fakes.calls["post_receipt"] if request.reaction_only]
    assert reactions == [answered.source_id]


async def test_a_comment_queued_behind_a_question_is_its_answer(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    world.fakes.plan("verify_reply", found("question"))
    asked, queued = world.event("fix it"), world.event("I mean the second one")
    task = await world.deliver(asked)
    await world.fakes.entered["turn"].wait()
    folded = await world.deliver(queued)
    await world.reaches(folded, S.QUEUED)
    world.fakes.open_gate("turn")
    result, alias = await world.end(task), await world.end(folded)

    assert result.state is S.SUCCEEDED
    assert (alias.state, alias.reason) == (S.CANCELLED, f"folded into {asked.task_id}")
    assert [request.task_id for request in world.fakes.calls["run_turn"]] == [asked.task_id] * 2
    assert not world.fakes.receipts(S.CANCELLED)


async def test_an_answer_that_comes_while_the_task_ends_becomes_a_task(world: World) -> None:
    world.fakes.plan("verify_reply", world.fakes.hold("verify"))
    asked, late = world.event("fix it"), world.event("one more thing")
    task = await world.deliver(asked)
    await world.fakes.entered["verify"].wait()
    await task.signal("answer", late)
    world.fakes.open_gate("verify")
    result, extra = await world.end(task), await world.end(world.task(late.task_id))

    assert [event.task_id for event in result.unconsumed] == [late.task_id]
    assert extra.state is S.SUCCEEDED
