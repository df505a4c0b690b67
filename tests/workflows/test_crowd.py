"""Fifty tasks in five repositories and twenty issues, while an operator does everything an operator can do."""

from typing import Any

from temporalio.client import WorkflowExecutionStatus, WorkflowHandle

from domain import ids
from domain.events import TaskEvent
from domain.states import TaskState
from tests.workflows.crowd import Probe, asked_in_order, gather
from tests.workflows.world import World, eventually

S = TaskState


async def test_a_crowd_keeps_its_order_and_one_writer_each_whatever_an_operator_does(world: World) -> None:
    probe, asked = gather(world, repositories=5, issues=20, tasks=50)
    tasks = {event.task_id: await world.deliver(event) for event in asked}
    repositories = [event.repository.id for event in asked[:5]]
    await eventually(lambda: all(probe.order[number] for number in repositories), 60)
    for event in asked:
        await world.reaches(tasks[event.task_id], S.RUNNING if event.task_id in holders(probe) else S.QUEUED)
    touched = await operate(world, probe, asked)
    await pause_for_a_moment(world, probe)
    ends = {task_id: await end_of(world, handle) for task_id, handle in tasks.items()}

    assert probe.overlaps == []
    assert {task for task in ends if ends[task] is not S.SUCCEEDED} <= touched
    assert all(reported(world, task, ends[task]) for task in tasks)
    for number in repositories:
        undisturbed = [task for task in await asked_in_order(world, number) if ends.get(task) is S.SUCCEEDED]
        ran = [task for task in dict.fromkeys(probe.order[number]) if ends[task] is S.SUCCEEDED]
        assert ran == undisturbed


def holders(probe: Probe) -> set[str]:
    return {order[0] for order in probe.order.values()}


async def operate(world: World, probe: Probe, asked: list[TaskEvent]) -> set[str]:
    """One thing to the holder of each repository; returns the tasks that may end otherwise than by an answer."""
    by_task = {event.task_id: event for event in asked}
    terminated, aborted, kept, orphaned, reset = (by_task[probe.order[e.repository.id][0]] for e in asked[:5])
    queued = next(e for e in asked[5:] if e.repository == kept.repository and e.number != kept.number)
    repository = ids.repository_workflow_id(kept.repository.id)
    await world.cli("workflow", "terminate", "--workflow-id", terminated.task_id, "--reason", "by a test")
    await listed(world, aborted)
    query = f'CcwebRepo="{aborted.repo_key}" AND CcwebState="running"'
    await world.cli("workflow", "signal", "--query", query, "--name", "abort", "--reason", "by a test", "--yes")
    await world.cli("workflow", "terminate", "--workflow-id", repository, "--reason", "by a test")
    await world.cli("workflow", "cancel", "--workflow-id", queued.task_id)
    session = world.session(orphaned).id
    await world.cli("workflow", "terminate", "--workflow-id", session, "--reason", "by a test")
    await world.cli("workflow", "reset", "-w", reset.task_id, "--type", "LastWorkflowTask", "--reason", "by a test")
    of_session = {event.task_id for event in asked if event.session_key == orphaned.session_key}
    return {terminated.task_id, aborted.task_id, queued.task_id} | of_session


async def listed(world: World, event: TaskEvent) -> None:
    """Waits until lists, which are a little late, show that the task runs."""
    query = f'WorkflowId="{event.task_id}" AND CcwebState="running"'

    async def there() -> bool:
        return bool((await world.client.count_workflows(query)).count)

    await eventually(there)


async def pause_for_a_moment(world: World, probe: Probe) -> None:
    """Pauses everything, lets the turns that run come to their end, and goes on."""
    control = await world.client.start_workflow("Control", id=ids.CONTROL_WORKFLOW_ID, task_queue=world.queue)
    await world.cli("workflow", "signal", "-w", control.id, "--name", "pause", "--input", '"by a test"')
    probe.go.set()
    await eventually(lambda: not any(probe.inside.values()))
    await world.cli("workflow", "signal", "-w", control.id, "--name", "resume")


async def end_of(world: World, handle: WorkflowHandle[Any, Any]) -> TaskState | None:
    """The final state; None for a task that was terminated."""

    async def closed() -> bool:
        return (await handle.describe()).status is not WorkflowExecutionStatus.RUNNING

    await eventually(closed, 60)
    if (await handle.describe()).status is WorkflowExecutionStatus.TERMINATED:
        return None
    return (await world.end(handle)).state


def reported(world: World, task_id: str, state: TaskState | None) -> bool:
    """Whether the person who asked was told: by the answer, or by a receipt of the end."""
    if state is S.SUCCEEDED:
        return True
    key = ids.status_comment_key(task_id, state or "terminated")
    return any(request.comment_key == key for request in world.fakes.calls["post_receipt"])
