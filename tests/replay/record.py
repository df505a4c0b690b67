"""Records the histories that `test_histories.py` replays: `python -m tests.replay.record`.

It records the scenarios that are new and keeps the others. A change that breaks the replay of a recorded history
breaks running sessions: it needs `workflow.patched`, not a new recording.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter

from domain.errors import ErrorCode
from domain.events import Admission, TaskStart
from domain.states import TaskState
from tests.workflows.conftest import dev_server
from tests.workflows.fakes import POLICY, cut, found
from tests.workflows.world import World, eventually, run_world

HISTORIES = Path(__file__).parent / "histories"
S = TaskState


async def succeeded(world: World) -> None:
    await world.end(await world.deliver(world.event()))


async def rest_fallback(world: World) -> None:
    world.fakes.plan("verify_reply", found("missing"), found("missing"))
    await world.end(await world.deliver(world.event()))


async def failed_reply(world: World) -> None:
    world.fakes.plan("verify_reply", found("unknown"))
    await world.end(await world.deliver(world.event()))


async def interrupted_and_continued(world: World) -> None:
    world.fakes.plan("run_turn", cut)
    world.fakes.plan("verify_reply", found("missing"))
    await world.end(await world.deliver(world.event()))


async def failed_with_receipt(world: World) -> None:
    world.fakes.plan("run_turn", ErrorCode.MCP_START_FAILED)
    world.fakes.plan("verify_reply", found("missing"))
    await world.end(await world.deliver(world.event()))


async def question_and_answer(world: World) -> None:
    world.fakes.plan("verify_reply", found("question"))
    task = await world.deliver(world.event())
    await world.reaches(task, S.WAITING_USER)
    await world.deliver(world.event("the second one"))
    await world.end(task)


async def blocked_and_unblocked(world: World) -> None:
    world.fakes.plan("prepare_workspace", ErrorCode.WORKSPACE_DIRTY)
    task = await world.deliver(world.event())
    await world.reaches(task, S.BLOCKED_WORKSPACE)
    await task.signal("unblock", {"actor": "olga", "reason": "looked at it"})
    await world.end(task)


async def aborted(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    world.fakes.plan("verify_reply", found("missing"))
    task = await world.deliver(world.event())
    await world.fakes.entered["turn"].wait()
    await task.signal("abort", "wrong branch")
    await world.end(task)


async def cancelled_session(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    world.fakes.plan("verify_reply", found("missing"))
    task = await world.deliver(world.event())
    await world.fakes.entered["turn"].wait()
    await world.session(world.event()).cancel()
    await world.end(task)
    await world.session(world.event()).result()


async def terminated_holder(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    task = await world.deliver(world.event())
    await world.fakes.entered["turn"].wait()
    other = await world.deliver(world.event(issue=2))
    await task.terminate()
    await world.end(other)


async def rolled_over(world: World) -> None:
    for number in range(8):
        await world.end(await world.deliver(world.event(f"step {number}")))
    await eventually(lambda: world.rolled_over(world.session(world.event())))


async def paused(world: World) -> None:
    control = await world.client.start_workflow("Control", id="control/default", task_queue=world.queue)
    await control.signal("pause", "maintenance")
    task = await world.deliver(world.event())
    await world.reaches(task, S.QUEUED)
    await control.signal("resume")
    await world.end(task)


async def stopped_by_comment(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    world.fakes.plan("verify_reply", found("missing"))
    task = await world.deliver(world.event())
    await world.fakes.entered["turn"].wait()
    await world.deliver(world.event("/stop"))
    await world.end(task)
    await eventually(lambda: len(world.fakes.calls["acknowledge"]) == 1)
    await world.end(await world.deliver(world.event("/retry")))


async def steered(world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    task = await world.deliver(world.event())
    await world.fakes.entered["turn"].wait()
    await world.deliver(world.event("/steer use tabs"))
    await eventually(lambda: len(world.fakes.calls["steer_turn"]) == 1)
    world.fakes.open_gate("turn")
    await world.end(task)


async def more_budget(world: World) -> None:
    asked = await world.out_of_budget()
    await world.deliver(world.event("/budget 2"))
    await world.end(world.task(asked.task_id))


async def new_conversation(world: World) -> None:
    await world.end(await world.deliver(world.event()))
    await world.deliver(world.event("/new"))
    await eventually(lambda: len(world.fakes.calls["acknowledge"]) == 1)
    await world.end(await world.deliver(world.event()))


async def changed_while_it_waited(world: World) -> None:
    async def admit(start: TaskStart) -> Admission:
        policy = POLICY.model_copy(update={"request_backoff": 0.2})
        return Admission(state="queued", repository=start.event.repository, policy=policy)

    async def deleted(start: TaskStart) -> Admission:
        reason = "the request was deleted"
        return Admission(state="cancelled", reason=reason, repository=start.event.repository, policy=POLICY)

    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    first = await world.deliver(world.event())
    await world.fakes.entered["turn"].wait()
    world.fakes.plan("admit", admit, deleted)
    waiting = await world.deliver(world.event(issue=2))

    async def asked_again() -> bool:
        history = (await waiting.fetch_history()).events
        return any(event.HasField("timer_fired_event_attributes") for event in history)

    await world.reaches(waiting, S.QUEUED)
    await eventually(asked_again)
    world.fakes.open_gate("turn")
    await world.end(first)
    await world.end(waiting)


async def operated_by_updates(world: World) -> None:
    control = await world.client.start_workflow("Control", id="control/default", task_queue=world.queue)
    for action in ("pause", "disable", "enable", "resume"):
        order = {"actor": "admin:olga", "reason": "for a test", "repo": "octo/x", "requestId": f"r-{action}"}
        await control.execute_update(action, order, id=f"r-{action}")
    world.fakes.plan("verify_reply", found("question"))
    task = await world.deliver(world.event())
    await world.reaches(task, S.WAITING_USER)
    order = {"actor": "admin:olga", "reason": "no answer", "requestId": "r-abort"}
    await task.execute_update("abort", order, id="r-abort")
    await task.execute_update("cancel", {**order, "requestId": "r-cancel"}, id="r-cancel")
    await world.end(task)


SCENARIOS: list[Callable[[World], Awaitable[None]]] = [
    succeeded,
    rest_fallback,
    failed_reply,
    interrupted_and_continued,
    failed_with_receipt,
    question_and_answer,
    blocked_and_unblocked,
    aborted,
    cancelled_session,
    terminated_holder,
    rolled_over,
    paused,
    stopped_by_comment,
    steered,
    more_budget,
    new_conversation,
    changed_while_it_waited,
    operated_by_updates,
]


async def record(client: Client, scenario: Callable[[World], Awaitable[None]]) -> None:
    async with run_world(client) as world:
        await scenario(world)
        await world.seen_in_lists()
        async for found_run in client.list_workflows(f'TaskQueue="{world.queue}"'):
            handle = client.get_workflow_handle(found_run.id, run_id=found_run.run_id)
            await save(scenario.__name__, found_run.workflow_type, handle)


def impersonal(fields: dict[str, Any]) -> dict[str, Any]:
    """Leaves out what names the machine of the recording and is not needed to replay."""
    return {name: value for name, value in fields.items() if name not in {"stackTrace", "identity"}}


async def save(scenario: str, workflow_type: str, handle: WorkflowHandle[Any, Any]) -> None:
    number = len(list(HISTORIES.glob(f"{scenario}.{workflow_type}.*")))
    history = await handle.fetch_history()
    events = json.loads(history.to_json(), object_hook=impersonal)
    compact = json.dumps(events, separators=(",", ":"), ensure_ascii=False)
    (HISTORIES / f"{scenario}.{workflow_type}.{number}.json").write_text(compact, encoding="utf-8")


async def main(address: str) -> None:
    client = await Client.connect(address, data_converter=pydantic_data_converter)
    for scenario in SCENARIOS:
        if not any(HISTORIES.glob(f"{scenario.__name__}.*")):
            await record(client, scenario)


if __name__ == "__main__":
    HISTORIES.mkdir(exist_ok=True)
    with dev_server() as running:
        asyncio.run(main(running))
