"""Random lives of sessions and tasks on the real workflows: the promises hold whatever happens."""

import asyncio
import contextlib
import itertools
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from domain import events, search_attributes
from domain.errors import ErrorCode
from domain.events import TaskEvent
from domain.states import FINAL, MOVES, TaskState
from tests.workflows.fakes import POLICY, cut, found
from tests.workflows.world import World, eventually, exists, run_world

S = TaskState
_STAYS = {S.WAITING_USER, S.BLOCKED_WORKSPACE}

_OUTCOMES: dict[str, list[Any]] = {
    "run_turn": [None, None, cut, ErrorCode.APP_SERVER_TIMEOUT, ErrorCode.MODEL_AUTH_FAILED],
    "verify_reply": [None, None, "question", "missing", "unknown"],
    "prepare_workspace": [None, None, ErrorCode.WORKSPACE_DIRTY, ErrorCode.WORKSPACE_AUTH_FAILED],
    "post_fallback": [None, "missing", "unknown"],
    "settle_workspace": [None, ErrorCode.INTERNAL_ERROR],
    "admit": [None, None, None, "rejected"],
}
_plans = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from(steps), max_size=4) for name, steps in _OUTCOMES.items()}
)
_events = st.lists(
    st.one_of(
        st.tuples(st.just("comment"), st.integers(1, 2)),
        st.tuples(st.just("again"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["cancel", "abort", "unblock", "retry"]), st.integers(0, 5)),
        st.tuples(st.just("terminate"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["/stop", "/retry", "/new", "/budget"]), st.integers(1, 2)),
        st.tuples(st.just("settle down"), st.just(0)),
    ),
    min_size=3,
    max_size=10,
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(plans=_plans, script=_events)
def test_whatever_happens_the_promises_hold(
    temporal_address: str, plans: dict[str, list[Any]], script: list[tuple[str, int]]
) -> None:
    asyncio.run(_live(temporal_address, plans, script))


async def _live(address: str, plans: dict[str, list[Any]], script: list[tuple[str, int]]) -> None:
    client = await Client.connect(address, data_converter=pydantic_data_converter)
    async with run_world(client) as world:
        for name, steps in plans.items():
            world.fakes.plan(name, *(_step(world, name, step) for step in steps))
        delivered: list[TaskEvent] = []
        for what, which in script:
            await _happen(world, delivered, what, which)
        await _drain(world, delivered)
        await _check(world, delivered)


def _step(world: World, name: str, step: Any) -> Any:
    if step == "rejected":
        return _rejected
    if isinstance(step, str) and not isinstance(step, ErrorCode):
        return found(step)
    return step if step is not None else lambda request: _default(world, name, request)


async def _default(world: World, name: str, request: Any) -> Any:
    return world.fakes._default(name, request)


async def _rejected(start: events.TaskStart) -> events.Admission:
    code = ErrorCode.INSUFFICIENT_PERMISSION
    return events.Admission(state="rejected", error_code=code, repository=start.event.repository, policy=POLICY)


async def _happen(world: World, delivered: list[TaskEvent], what: str, which: int) -> None:
    if what == "comment" or what.startswith("/"):
        event = world.event(what if what.startswith("/") else "please fix it", issue=which)
        await world.deliver(event)
        if what == "comment":
            delivered.append(event)
    elif what == "settle down":
        await _quiet(world, delivered)
    elif delivered:
        event = delivered[which % len(delivered)]
        if what == "again":
            await world.deliver(event)
        else:
            await _operate(world.task(event.task_id), what)


async def _operate(task: WorkflowHandle[Any, Any], what: str) -> None:
    with contextlib.suppress(RPCError):
        if what == "terminate":
            await task.terminate(reason="for a test")
        else:
            await task.signal(what, None)


async def _tasks(world: World) -> list[str]:
    """Every task there is, also those that commands started."""
    query = f'TaskQueue="{world.queue}" AND WorkflowType="AgentTask"'
    return [one.id async for one in world.client.list_workflows(query)]


async def _quiet(world: World, delivered: list[TaskEvent]) -> None:
    """Until every task that is known has ended or waits for a person."""

    async def quiet() -> bool:
        states = [await _state(world, event.task_id) for event in delivered]
        return all(state in {*FINAL, *_STAYS, "terminated", ""} for state in states)

    await eventually(quiet, 15)


async def _state(world: World, task_id: str) -> str:
    handle = world.task(task_id)
    if not await exists(handle):
        return ""
    described = await handle.describe()
    if described.status is not None and described.status.name == "TERMINATED":
        return "terminated"
    return str(described.search_attributes.get("CcwebState", [""])[0])


async def _drain(world: World, delivered: list[TaskEvent]) -> None:
    """Ends what waits for a person, until nothing is open."""

    async def nothing_open() -> bool:
        states = {task: await _state(world, task) for task in await _tasks(world)}
        waiting = [task for task, state in states.items() if state in _STAYS]
        for task in waiting:
            await _operate(world.task(task), "cancel")
        return bool(states) == bool(delivered) and all(state in {*FINAL, "terminated"} for state in states.values())

    await eventually(nothing_open, 30)


async def _check(world: World, delivered: list[TaskEvent]) -> None:
    tasks = await _tasks(world)
    for task in tasks:
        await _only_legal_moves(world.task(task))
    assert world.fakes.overlaps == 0
    receipts = Counter(
        request.comment_key for request in world.fakes.calls["post_receipt"] if not request.reaction_only
    )
    assert [key for key, times in receipts.items() if times > 1] == []
    starts = Counter(key.split(":")[0] for key in receipts if key.endswith(":queued"))
    assert set(starts.values()) <= {1}
    answers = Counter((one.task_id, one.round, one.kind) for one in world.fakes.calls["post_fallback"])
    assert set(answers.values()) <= {1}
    for event in delivered:
        assert await _state(world, event.task_id) in {*FINAL, "terminated", ""}, "an accepted source has no end"
    world.fakes.plans.clear()
    last = await world.deliver(world.event("the workspace must be free"))
    assert (await world.end(last)).state is S.SUCCEEDED


async def _only_legal_moves(task: WorkflowHandle[Any, Any]) -> None:
    states = [S.RECEIVED]
    async for event in task.fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
            fields = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
            if search_attributes.STATE in fields:
                states.append(S(fields[search_attributes.STATE].data.decode().strip('"')))
    for before, after in itertools.pairwise(states):
        assert after in MOVES.get(before, frozenset()), f"{task.id}: {before} to {after}"
