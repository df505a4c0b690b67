"""One conversation per Issue/PR: duplicates, aliases, closing, and what an operator can do to it."""

from datetime import UTC, datetime
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus

from domain import events
from domain.events import TaskResult
from domain.states import TaskState
from tests.workflows.fakes import POLICY, found
from tests.workflows.test_stops import in_waiting_user
from tests.workflows.world import World, eventually, exists, run_world
from workflows.attributes import of_task

S = TaskState
JUNK: tuple[Any, ...] = (None, "text", 7, [], {"task_id": 1})


async def test_one_delivery_makes_one_task_however_often_it_comes(world: World) -> None:
    delivered = world.event()
    task = await world.deliver(delivered)
    for _ in range(5):
        await world.deliver(delivered)
    await world.end(task)
    await world.deliver(delivered)
    await world.end(await world.deliver(world.event()))

    assert world.fakes.order.count(delivered.task_id) == 1
    assert len(world.fakes.order) == 2


async def test_another_delivery_of_the_same_source_is_an_alias(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    first = world.event(object_id=1)
    again = world.event(object_id=2).model_copy(update={"source_key": first.source_key})
    task = await world.deliver(first)
    await world.fakes.entered["turn"].wait()
    alias = await world.deliver(again)

    async def listed() -> bool:
        return (await task.describe()).search_attributes["CcwebDeliveries"] == [
            first.delivery_key,
            again.delivery_key,
            again.task_id,
        ]

    await eventually(listed)
    world.fakes.open_gate("turn")
    await world.end(task)
    assert not await exists(alias)


async def test_a_terminated_session_is_rebuilt_and_runs_nothing_twice(world: World) -> None:
    first = world.event()
    await world.end(await world.deliver(first))
    await world.session(first).terminate()
    await world.deliver(first)
    second = await world.end(await world.deliver(world.event()))

    assert second.state is S.SUCCEEDED
    assert world.fakes.order.count(first.task_id) == 1
    assert world.fakes.calls["run_turn"][-1].thread_id == f"thread of {first.session_key}"


async def test_a_session_terminated_in_a_turn_stops_its_task(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    world.fakes.plan("verify_reply", found("missing"))
    first = world.event()
    task = await world.deliver(first)
    await world.fakes.entered["turn"].wait()
    await world.session(first).terminate()

    assert (await world.end(task)).state is S.ABORTED
    assert (await world.end(await world.deliver(world.event()))).state is S.SUCCEEDED


async def test_a_session_rolls_over_and_still_knows_what_it_has_seen(world: World) -> None:
    delivered = [world.event() for _ in range(8)]
    tasks = [await world.deliver(event) for event in delivered]
    for task in tasks:
        await world.end(task)
    session = world.session(delivered[0])
    await eventually(lambda: world.rolled_over(session))
    for event in delivered:
        await world.deliver(event)
    await world.end(await world.deliver(world.event()))

    assert len(world.fakes.order) == 9
    assert world.fakes.overlaps == 0


def closed(world: World, *, closed: bool) -> events.ResourceClosed:
    key = world.event(object_id=1).session_key
    return events.ResourceClosed(
        session_key=key, closed=closed, actor="alice", received_at=datetime(2026, 11, 30, tzinfo=UTC)
    )


async def test_closing_the_issue_ends_waiting_tasks_and_then_the_session(client: Client) -> None:
    async with run_world(client, session_idle=0.5) as world:
        task = await in_waiting_user(world)
        session = world.session(world.event())
        await session.signal("resource_closed", closed(world, closed=True))

        assert (await world.end(task)).state is S.CANCELLED
        await session.result()
        assert len(world.fakes.calls["close_session"]) == 1
        assert not world.fakes.receipts(S.CANCELLED)
        assert (await world.end(await world.deliver(world.event()))).state is S.SUCCEEDED


async def test_a_question_asked_after_closing_ends_at_once(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    world.fakes.plan("verify_reply", found("question"))
    task = await world.deliver(world.event())
    await world.fakes.entered["turn"].wait()
    await world.session(world.event()).signal("resource_closed", closed(world, closed=True))
    world.fakes.open_gate("turn")

    assert (await world.end(task)).state is S.CANCELLED


async def test_reopening_keeps_the_session(world: World) -> None:
    await world.end(await world.deliver(world.event()))
    session = world.session(world.event())
    for state in (True, False):
        await session.signal("resource_closed", closed(world, closed=state))
    assert (await world.end(await world.deliver(world.event()))).state is S.SUCCEEDED
    assert (await session.describe()).status is WorkflowExecutionStatus.RUNNING


async def test_junk_signals_leave_the_session_working(world: World) -> None:
    first = world.event()
    await world.end(await world.deliver(first))
    for name in ("deliver", "resource_closed", "task_waiting"):
        for junk in JUNK:
            await world.session(first).signal(name, junk)
    assert (await world.end(await world.deliver(world.event()))).state is S.SUCCEEDED


async def test_a_reset_task_runs_to_its_end_again(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    delivered = world.event()
    task = await world.deliver(delivered)
    await world.fakes.entered["turn"].wait()
    await world.cli("workflow", "reset", "-w", task.id, "--type", "FirstWorkflowTask", "--reason", "by a test")
    world.fakes.open_gate("turn")

    assert (await world.end(world.task(task.id))).state is S.SUCCEEDED
    assert (await world.end(await world.deliver(world.event()))).state is S.SUCCEEDED
    assert {request.comment_key for request in world.fakes.receipts(S.QUEUED)} >= {f"{task.id}:status:queued"}
    assert world.fakes.overlaps == 0


async def test_a_question_of_a_task_that_the_session_does_not_know_gets_its_answer(world: World) -> None:
    world.fakes.plan("verify_reply", found("question"))
    asked, answer = world.event(), world.event("the second one")
    await world.client.start_workflow(
        "AgentTask",
        events.TaskStart(event=asked),
        id=asked.task_id,
        task_queue=world.queue,
        search_attributes=of_task(asked),
    )
    task = world.task(asked.task_id)
    await world.reaches(task, S.WAITING_USER)
    await eventually(lambda: listed(world, asked.session_key))
    await world.deliver(answer)

    assert (await world.end(task)).state is S.SUCCEEDED
    assert world.fakes.calls["run_turn"][-1].instruction == "the second one"


async def listed(world: World, session_key: str) -> bool:
    query = f'CcwebResource="{session_key}" AND ExecutionStatus="Running"'
    return bool([found_run.id async for found_run in world.client.list_workflows(query)])


async def _behind_another(world: World, *second: events.Admission | Any) -> TaskResult:
    """A task that waits so long for the workspace that it is admitted again; returns how it ended."""
    impatient = POLICY.model_copy(update={"request_backoff": 0.2})

    async def admit(start: events.TaskStart) -> events.Admission:
        return events.Admission(state="queued", repository=start.event.repository, policy=impatient)

    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    first = await world.deliver(world.event("long"))
    await world.fakes.entered["turn"].wait()
    world.fakes.plan("admit", admit, *second)
    waiting = await world.deliver(world.event("second", issue=2))
    await world.reaches(waiting, S.QUEUED)
    await eventually(lambda: len(world.fakes.calls["admit"]) == 2)

    async def asked_again() -> bool:
        history = await waiting.fetch_history()
        return sum(event.HasField("timer_fired_event_attributes") for event in history.events) > 0

    await eventually(asked_again)
    world.fakes.open_gate("turn")
    await world.end(first)
    return await world.end(waiting)


async def test_a_request_deleted_while_it_waited_is_cancelled_and_frees_the_workspace(world: World) -> None:
    async def deleted(start: events.TaskStart) -> events.Admission:
        return events.Admission(
            state="cancelled", reason="the request was deleted", repository=start.event.repository, policy=POLICY
        )

    end = await _behind_another(world, deleted)
    assert (end.state, end.reason) == (S.CANCELLED, "the request was deleted")
    assert (await world.end(await world.deliver(world.event()))).state is S.SUCCEEDED


async def test_a_request_edited_and_a_repository_renamed_while_it_waited_count_as_they_are_now(world: World) -> None:
    renamed = events.RepositoryRef(id=world.repo, owner="octo", name="renamed")

    async def changed(start: events.TaskStart) -> events.Admission:
        return events.Admission(state="queued", repository=renamed, policy=POLICY, instruction="edited")

    assert (await _behind_another(world, changed)).state is S.SUCCEEDED
    turn = world.fakes.calls["run_turn"][-1]
    assert (turn.instruction, turn.repository.name) == ("edited", "renamed")


async def test_a_task_that_outlived_its_session_leaves_what_it_leaves_to_the_next(world: World) -> None:
    """Terminating a session cancels its tasks; an answer that one of them no longer takes becomes a task."""
    asked = await in_waiting_user(world)
    await world.session(world.event()).terminate()
    late = world.event("the answer that came too late")
    ended = await world.end(asked)
    task = await world.deliver(late)

    assert ended.state is S.CANCELLED
    assert (await world.end(task)).state is S.SUCCEEDED
    assert len(world.fakes.receipts(S.CANCELLED)) == 1


async def test_an_adopted_task_that_is_terminated_is_told_once(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    event = world.event()
    outside = events.TaskStart(event=event)
    task = await world.client.start_workflow(
        "AgentTask",
        outside,
        id=event.task_id,
        task_queue=world.queue,
        search_attributes=of_task(event),
    )
    await world.fakes.entered["turn"].wait()
    await world.deliver(event)
    await world.seen_in_lists()
    await task.terminate()
    await eventually(lambda: len(world.fakes.receipts(S.FAILED)) == 1, 40)
