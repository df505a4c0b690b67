"""Commands in comments, and budgets, on the real workflows."""

from typing import Any

from domain import events
from domain.commands import CommandName
from domain.errors import ErrorCode
from domain.events import CommandCheck, Limits, Spend, TurnRequest
from domain.states import TaskState
from tests.workflows.fakes import POLICY, found
from tests.workflows.world import World, eventually, exists

S = TaskState
N = CommandName


async def _running(world: World) -> Any:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    task = await world.deliver(world.event("do something long"))
    await world.fakes.entered["turn"].wait()
    return task


async def _command(world: World, text: str, **more: Any) -> events.CommandAck:
    """Sends a command and waits for its acknowledgement."""
    commanded = world.event(text, **more)
    await world.deliver(commanded)

    def acknowledged() -> bool:
        return any(ack.event.source_key == commanded.source_key for ack in world.fakes.calls["acknowledge"])

    await eventually(acknowledged)
    assert not await exists(world.task(commanded.task_id)) or text.startswith("/retry")
    acks: list[events.CommandAck] = world.fakes.calls["acknowledge"]
    return next(ack for ack in acks if ack.event.source_key == commanded.source_key)


async def test_stop_ends_what_runs_and_what_waits(world: World) -> None:
    running = await _running(world)
    queued = await world.deliver(world.event("later"))
    await world.reaches(queued, S.QUEUED)
    ack = await _command(world, "/stop", author="bob")

    assert ack.done
    world.fakes.plan("verify_reply", found("missing"))
    ends = [await world.end(running), await world.end(queued)]
    assert {end.state for end in ends} <= {S.ABORTED, S.SUCCEEDED, S.CANCELLED}
    assert ends[1].state is S.CANCELLED
    assert ends[1].reason == "/stop by bob"
    assert [request.text for request in world.fakes.receipts(S.CANCELLED)] == ["/stop by bob"]


async def test_stop_is_not_about_what_was_asked_after_it(world: World) -> None:
    running = await _running(world)
    world.fakes.plan("check_command", world.fakes.hold("check"))
    await world.deliver(world.event("/stop"))
    await world.fakes.entered["check"].wait()
    later = await world.deliver(world.event("asked after the stop"))
    await world.reaches(later, S.QUEUED)
    world.fakes.open_gate("check")
    assert (await world.end(running)).state in {S.ABORTED, S.SUCCEEDED}
    assert (await world.end(later)).state is S.SUCCEEDED


async def test_stop_with_nothing_to_stop_says_so(world: World) -> None:
    assert not (await _command(world, "/stop")).done


async def test_outsiders_command_nothing_and_hear_nothing(world: World) -> None:
    task = await _running(world)
    world.fakes.plan("check_command", CommandCheck(allowed=False))
    await world.deliver(world.event("/stop", author="mallory"))
    await eventually(lambda: len(world.fakes.calls["check_command"]) == 1)
    world.fakes.open_gate("turn")
    assert (await world.end(task)).state is S.SUCCEEDED
    assert not world.fakes.calls["acknowledge"]


async def test_retry_makes_the_last_unsuccessful_request_again(world: World) -> None:
    world.fakes.plan("run_turn", ErrorCode.MODEL_AUTH_FAILED)
    world.fakes.plan("verify_reply", found("missing"))
    failed = world.event("the request")
    assert (await world.end(await world.deliver(failed))).state is S.FAILED
    command = world.event("/retry")
    again = await world.end(await world.deliver(command))

    assert again.state is S.SUCCEEDED
    assert world.fakes.calls["run_turn"][-1].instruction == "the request"
    assert not (await _command(world, "/retry")).done


async def test_status_tells_the_open_tasks(world: World) -> None:
    task = await _running(world)
    ack = await _command(world, "/status")
    assert [(line.task_id, line.state) for line in ack.tasks] == [(task.id, S.RUNNING)]
    world.fakes.open_gate("turn")
    await world.end(task)


async def test_steer_reaches_the_running_turn(world: World) -> None:
    task = await _running(world)
    await _command(world, "/steer use tabs")
    await eventually(lambda: bool(world.fakes.calls["steer_turn"]))
    (steer,) = world.fakes.calls["steer_turn"]
    assert (steer.text, steer.turn.turn_key) == ("use tabs", f"{task.id}/1.1")
    world.fakes.open_gate("turn")
    assert (await world.end(task)).unconsumed == []


async def test_what_cannot_be_steered_becomes_a_task_of_its_own(world: World) -> None:
    task = await _running(world)
    world.fakes.plan("steer_turn", _not_steered)
    steer = world.event("/steer use tabs")
    await world.deliver(steer)
    await eventually(lambda: bool(world.fakes.calls["steer_turn"]))
    world.fakes.open_gate("turn")
    await world.end(task)
    assert (await world.end(world.task(steer.task_id))).state is S.SUCCEEDED
    assert world.fakes.calls["run_turn"][-1].instruction == "use tabs"


async def _not_steered(_: Any) -> bool:
    return False


async def test_new_begins_another_thread(world: World) -> None:
    await world.end(await world.deliver(world.event()))
    await _command(world, "/new")
    await world.end(await world.deliver(world.event()))
    await world.end(await world.deliver(world.event()))
    first, second, third = world.fakes.calls["run_turn"]

    assert (first.thread_name, second.thread_name) == (first.session_key, f"{first.session_key}#1")
    assert second.thread_id is None
    assert third.thread_name == second.thread_name
    assert third.thread_id is not None


def _budgeted(**limits: float) -> Any:
    policy = POLICY.model_copy(update={"task_budget": Limits.model_validate(limits)})

    async def admit(start: events.TaskStart) -> events.Admission:
        return events.Admission(state="queued", repository=start.event.repository, policy=policy)

    return admit


async def _used_up(request: TurnRequest) -> events.TurnOutcome:
    return events.TurnOutcome(
        thread_id="t1",
        turn_id="u1",
        status="interrupted",
        error_code=ErrorCode.BUDGET_EXCEEDED,
        detail="tokens",
        spent=Spend(tokens=100, cost=0.5),
    )


async def _waiting_for_budget(world: World) -> Any:
    world.fakes.plan("admit", _budgeted(tokens=100))
    world.fakes.plan("run_turn", _used_up)
    world.fakes.plan("verify_reply", found("missing"))
    world.fakes.plan("post_fallback", found("question"))
    task = await world.deliver(world.event("burn tokens"))
    await world.reaches(task, S.WAITING_USER)
    return task


async def test_a_used_up_budget_is_said_once_and_waits_for_more(world: World) -> None:
    task = await _waiting_for_budget(world)
    (question,) = world.fakes.calls["post_fallback"]
    assert (question.kind, question.used_up, question.spent.tokens) == ("question", "tokens", 100)
    assert (await task.describe()).search_attributes["CcwebCost"] == [0.5]

    other = await world.end(await world.deliver(world.event("something else")))
    assert other.state is S.SUCCEEDED
    assert await world.state(task) == S.WAITING_USER

    await _command(world, "/budget 2")
    end = await world.end(task)
    assert end.state is S.SUCCEEDED
    last = world.fakes.calls["run_turn"][-1]
    assert (last.purpose, last.round, last.left.tokens) == ("continuation", 2, 200)
    assert len(world.fakes.calls["post_fallback"]) == 1


async def test_an_operator_grants_budget_through_the_temporal_binary(world: World) -> None:
    task = await _waiting_for_budget(world)
    for argument in ('"junk"', "0", "[]"):
        await world.cli("workflow", "signal", "--workflow-id", task.id, "--name", "grant_budget", "--input", argument)
    assert await world.state(task) == S.WAITING_USER
    await world.cli("workflow", "signal", "--workflow-id", task.id, "--name", "grant_budget")
    assert (await world.end(task)).state is S.SUCCEEDED


async def test_the_session_counts_what_its_tasks_used_together(world: World) -> None:
    async def admit(start: events.TaskStart) -> events.Admission:
        policy = POLICY.model_copy(update={"session_budget": Limits(tokens=150)})
        return events.Admission(state="queued", repository=start.event.repository, policy=policy)

    async def spends(request: TurnRequest) -> events.TurnOutcome:
        return events.TurnOutcome(thread_id="t", turn_id="u", status="completed", spent=Spend(tokens=100))

    world.fakes.plan("admit", admit, admit)
    world.fakes.plan("run_turn", spends, spends)
    first = world.event()
    await world.end(await world.deliver(first))

    async def counted() -> bool:
        return not (await world.session(first).describe()).raw_description.pending_children

    await eventually(counted)
    await world.end(await world.deliver(world.event()))
    assert [request.left.tokens for request in world.fakes.calls["run_turn"]] == [150, 50]


async def test_a_budget_whose_question_cannot_be_posted_ends_the_task(world: World) -> None:
    world.fakes.plan("run_turn", _used_up)
    world.fakes.plan("verify_reply", found("missing"))
    world.fakes.plan("post_fallback", found("missing"))
    end = await world.end(await world.deliver(world.event()))
    assert (end.state, end.error_code) == (S.FAILED, ErrorCode.BUDGET_EXCEEDED)
