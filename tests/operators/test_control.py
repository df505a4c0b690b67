"""What operators change over HTTP, on the real Temporal and the real workflows."""

import asyncio
import uuid
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from domain import ids
from domain.states import TaskState
from tests.operators.harness import Apis
from tests.workflows.fakes import found
from tests.workflows.test_stops import in_blocked_workspace, in_retry_wait, in_running, in_waiting_user
from tests.workflows.world import World, eventually, new_world, working

S = TaskState


def call(reason: str = "wrong branch") -> dict[str, str]:
    return {"requestId": uuid.uuid4().hex, "reason": reason}


async def test_abort_stops_a_running_turn_and_names_the_operator(api: Apis, world: World) -> None:
    task = await in_running(world)
    answer = await api.operator.post(f"/tasks/{task.id}/abort", **(order := call()))
    assert answer.status_code == 200
    assert answer.json() == {
        "requestId": order["requestId"],
        "action": "abort",
        "taken": True,
        "repoKey": None,
        "tasks": [task.id],
        "fromState": "running",
    }
    result = await world.end(task)
    assert result.state is S.ABORTED and result.reason == "wrong branch"


@pytest.mark.parametrize("path", ["control/pause", "repos/default%3Aocto%2Fx/disable", "repos/octo/x/enable"])
async def test_switches_need_an_admin(api: Apis, path: str) -> None:
    for caller, status in ((api.nobody, 401), (api.viewer, 403), (api.operator, 403)):
        answer = await caller.post(f"/{path}", **call())
        assert answer.status_code == status


async def test_steering_a_task_needs_an_operator(api: Apis) -> None:
    for path in ("tasks/gitea-task-0123456789abcdef/cancel", "repos/octo/x/unblock"):
        assert (await api.nobody.post(f"/{path}", **call())).status_code == 401
        assert (await api.viewer.post(f"/{path}", **call())).status_code == 403


async def test_a_repeated_request_id_gets_the_first_answer_also_after_the_end(api: Apis, world: World) -> None:
    task = await in_waiting_user(world)
    order = call()
    first = await api.operator.post(f"/tasks/{task.id}/cancel", **order)
    assert (await world.end(task)).state is S.CANCELLED
    again = await api.operator.post(f"/tasks/{task.id}/cancel", **order)
    assert again.status_code == first.status_code == 200
    assert again.json() == first.json()
    assert (await api.operator.post(f"/tasks/{task.id}/cancel", **call())).status_code == 409


async def test_a_refused_call_stays_refused_under_its_request_id(api: Apis, world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    world.fakes.plan("verify_reply", found("question"))
    task = await world.deliver(world.event())
    await world.fakes.entered["turn"].wait()
    order = call()
    refused = await api.operator.post(f"/tasks/{task.id}/cancel", **order)
    assert refused.status_code == 409
    assert refused.json()["code"] == "illegal_state"
    assert "running" in refused.json()["detail"]
    world.fakes.open_gate("turn")
    await world.reaches(task, S.WAITING_USER)

    assert (await api.operator.post(f"/tasks/{task.id}/cancel", **order)).status_code == 409
    assert (await api.operator.post(f"/tasks/{task.id}/cancel", **call())).status_code == 200


async def test_a_request_id_of_another_call_is_refused(api: Apis, world: World) -> None:
    task = await in_running(world)
    order = call()
    await api.operator.post(f"/tasks/{task.id}/cancel", **order)
    answer = await api.operator.post(f"/tasks/{task.id}/abort", **order)
    assert answer.status_code == 409
    assert answer.json()["code"] == "request_id_reused"
    assert (await api.operator.post(f"/tasks/{task.id}/abort", **call())).status_code == 200
    await world.end(task)


@pytest.mark.parametrize("action", ["cancel", "abort", "retry"])
async def test_a_task_that_ended_or_never_was_cannot_be_steered(api: Apis, world: World, action: str) -> None:
    task = await world.deliver(world.event())
    await world.end(task)
    ended = await api.operator.post(f"/tasks/{task.id}/{action}", **call())
    assert (ended.status_code, ended.json()["code"]) == (409, "illegal_state")
    assert "succeeded" in ended.json()["detail"]
    for unknown in ("gitea-task-0123456789abcdef", ids.CONTROL_WORKFLOW_ID.replace("/", "%2F"), "x"):
        answer = await api.operator.post(f"/tasks/{unknown}/{action}", **call())
        assert answer.status_code == 404


async def test_retry_does_not_wait_any_longer(api: Apis, world: World) -> None:
    task = await in_retry_wait(world)
    assert (await api.operator.post(f"/tasks/{task.id}/retry", **call())).status_code == 200
    assert (await world.end(task)).state is S.SUCCEEDED


async def test_unblock_reaches_every_blocked_task_of_the_repository_once(
    api: Apis, world: World, control: WorkflowHandle[Any, Any]
) -> None:
    task = await in_blocked_workspace(world)
    repo = world.event().repo_key
    order = call("looked at it")

    async def unblocked() -> bool:
        answer = await api.operator.post(f"/repos/{repo.removeprefix('default:')}/unblock", **call("early"))
        return answer.status_code == 200

    await eventually(unblocked)
    assert (await world.end(task)).state is S.SUCCEEDED
    nothing = await api.operator.post(f"/repos/{repo}/unblock", **order)
    assert (nothing.status_code, nothing.json()["code"]) == (409, "illegal_state")


async def test_unblock_repeated_names_the_same_tasks(
    api: Apis, world: World, control: WorkflowHandle[Any, Any]
) -> None:
    task = await in_blocked_workspace(world)
    repo = world.event().repo_key

    async def listed() -> bool:
        answer = await api.viewer.get("/tasks", repoKey=repo, state="blocked_workspace")
        return len(answer.json()["tasks"]) == 1

    await eventually(listed)
    order = call("looked at it")
    first = await api.operator.post(f"/repos/{repo}/unblock", **order)
    await world.end(task)
    again = await api.operator.post(f"/repos/{repo}/unblock", **order)
    assert first.json()["tasks"] == again.json()["tasks"] == [task.id]
    assert again.status_code == 200


async def test_pause_and_resume_are_seen_in_the_overview(
    api: Apis, world: World, control: WorkflowHandle[Any, Any]
) -> None:
    order = call("maintenance")
    assert (await api.admin.post("/control/pause", **order)).status_code == 200
    assert (await api.admin.post("/control/pause", **order)).status_code == 200
    shown = (await api.viewer.get("/overview")).json()["control"]
    assert (shown["globalPaused"], shown["pauseReason"]) == (True, "maintenance")
    assert (shown["updatedBy"], shown["version"]) == ("admin:admin-1", 1)
    task = await world.deliver(world.event())
    await world.reaches(task, S.QUEUED)
    assert (await api.admin.post("/control/resume", **call())).status_code == 200
    assert (await world.end(task)).state is S.SUCCEEDED


async def test_disable_and_enable_take_the_encoded_and_the_plain_key(
    api: Apis, world: World, control: WorkflowHandle[Any, Any]
) -> None:
    key = world.event().repo_key
    encoded = key.replace(":", "%3A").replace("/", "%2F")
    assert (await api.admin.post(f"/repos/{encoded}/disable", **call("moving"))).status_code == 200
    assert (await api.viewer.get("/overview")).json()["control"]["disabled"] == {key: "moving"}
    assert (await api.admin.post(f"/repos/{key.upper()}/enable", **call())).status_code == 200
    assert (await api.viewer.get("/overview")).json()["control"]["disabled"] == {}
    assert (await api.admin.post(f"/repos/{key}/enable", **call())).status_code == 409
    assert (await api.admin.post("/repos/no%20repo/disable", **call())).status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"requestId": "x"},
        {"requestId": "", "reason": "r"},
        {"requestId": "x y", "reason": "r"},
        {"requestId": "x", "reason": "  "},
        {"requestId": "x", "reason": "r", "model": "gpt"},
        {"requestId": "x", "reason": "r", "command": "git push --force"},
    ],
)
async def test_a_call_takes_a_request_id_a_reason_and_nothing_else(api: Apis, body: dict[str, str]) -> None:
    for path in ("/control/pause", "/tasks/gitea-task-0123456789abcdef/abort", "/repos/octo/x/disable"):
        answer = await api.admin.post(path, **body)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


async def test_calls_without_a_worker_are_stored_and_taken_once_it_runs(
    client: Client, api: Apis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operations.commands.ANSWER_SECONDS", 0.3)
    world = new_world(client)
    async with working(world):
        task = await in_waiting_user(world)
    order = call()
    first = await api.operator.post(f"/tasks/{task.id}/cancel", **order)
    again = await api.operator.post(f"/tasks/{task.id}/cancel", **order)
    assert first.status_code == again.status_code == 202
    assert first.json() == again.json()
    assert first.json()["taken"] is False
    assert (await api.operator.post(f"/tasks/{task.id}/abort", **call())).status_code == 409

    async with working(world):
        assert (await world.end(task)).state is S.CANCELLED
        late = await api.operator.post(f"/tasks/{task.id}/cancel", **order)
    assert late.json() | {"taken": False} == first.json()
    sent = [event.workflow_execution_signaled_event_attributes async for event in task.fetch_history_events()]
    assert [signal.signal_name for signal in sent].count("cancel") == 1


async def test_many_calls_at_once_with_one_request_id_are_one(api: Apis, world: World) -> None:
    task = await in_waiting_user(world)
    order = call()
    answers = await asyncio.gather(*(api.operator.post(f"/tasks/{task.id}/cancel", **order) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    await world.end(task)
