"""One task in full and the audit trail over HTTP, from the real Temporal, with and without a worker."""

import json
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from clients import journal
from domain import ids
from domain.audit import AuditEvent
from domain.audit_chain import chain
from domain.errors import ErrorCode
from domain.states import TaskState
from tests.e2e.ingress_harness import send, signed
from tests.operators.harness import Api, Apis
from tests.workflows.fakes import found
from tests.workflows.test_stops import in_running
from tests.workflows.world import World, eventually, new_world, run_world, working

S = TaskState


async def events(api: Api, **query: Any) -> list[AuditEvent]:
    """All pages."""
    told, cursor = [], None
    while True:
        answer = await api.get("/audit", **query, **({"cursor": cursor} if cursor else {}))
        assert answer.status_code == 200, answer.text
        told += [AuditEvent.model_validate(event) for event in answer.json()["events"]]
        cursor = answer.json()["nextCursor"]
        if cursor is None:
            return told


async def ended(world: World, **more: Any) -> WorkflowHandle[Any, Any]:
    task = await world.deliver(world.event(**more))
    await world.end(task)
    return task


async def detail(api: Apis, task_id: str) -> dict[str, Any]:
    answer = await api.viewer.get(f"/tasks/{task_id}")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


async def test_a_task_is_shown_in_full(api: Apis, world: World) -> None:
    task = await ended(world)
    shown = await detail(api, task.id)
    assert shown["state"] == "succeeded" and shown["errorCode"] is None
    assert shown["instruction"] == "please fix it"
    assert [move["toState"] for move in shown["moves"]] == [
        "queued",
        "preparing",
        "running",
        "verifying_reply",
        "succeeded",
    ]
    assert [move["stateVersion"] for move in shown["moves"]] == [1, 2, 3, 4, 5]
    [turn] = shown["turns"]
    assert (turn["turnKey"], turn["status"], turn["kind"]) == (f"{task.id}/1.1", "completed", "normal")
    assert turn["turnId"] == f"turn of {task.id}/1.1" and turn["threadId"] == shown["threadId"]
    assert [(one["commentKey"], one["kind"], one["status"]) for one in shown["comments"]] == [
        (f"{task.id}:status:queued", "status", "sent"),
        (f"{task.id}:final:1", "mcp_final", "confirmed"),
    ]
    assert (shown["commentId"], shown["problem"]) == (7, None)
    assert shown["leaseId"] == f"{task.id}/1"


async def test_a_failed_task_says_why(api: Apis, world: World) -> None:
    world.fakes.plan("run_turn", ErrorCode.MCP_START_FAILED)
    world.fakes.plan("verify_reply", found("missing"))
    shown = await detail(api, (await ended(world)).id)
    assert (shown["state"], shown["errorCode"]) == ("failed", "mcp_start_failed")
    assert shown["turns"][0]["status"] == "failed"
    assert shown["moves"][-1]["errorCode"] == "mcp_start_failed"
    assert shown["comments"][-1]["commentKey"].endswith(":status:failed")


async def test_a_task_is_found_by_the_task_id_of_the_answer_that_it_got(api: Apis, world: World) -> None:
    world.fakes.plan("verify_reply", found("question"))
    task = await world.deliver(world.event())
    await world.reaches(task, S.WAITING_USER)
    answer = world.event("the second one")
    await world.deliver(answer)
    await world.end(task)

    async def resolves() -> bool:
        return (await api.viewer.get(f"/tasks/{answer.task_id}")).status_code == 200

    await eventually(resolves)
    shown = await detail(api, answer.task_id)
    assert shown["taskId"] == task.id
    assert shown["aliasTaskIds"] == [answer.task_id]
    assert shown["deliveryKeys"][1] == answer.delivery_key
    assert shown["round"] == 2


async def test_an_unknown_task_is_not_found(api: Apis) -> None:
    for unknown in ("gitea-task-ffffffffffffffff", "x"):
        answer = await api.viewer.get(f"/tasks/{unknown}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_the_trail_leads_from_a_delivery_to_its_comment(api: Apis, world: World) -> None:
    task = await ended(world)
    delivery = f"{world.repo}-1"

    async def listed() -> bool:
        return any(event.action == "webhook.accept" for event in await events(api.viewer, deliveryId=delivery))

    await eventually(listed)
    trail = await events(api.viewer, taskId=task.id)
    assert {event.task_id for event in trail} == {task.id}
    proven = chain(trail, delivery)
    shown = await detail(api, task.id)
    assert (proven.task_id, proven.session_key) == (task.id, shown["sessionKey"])
    assert (proven.thread_id, proven.turn_id, proven.comment_id) == (shown["threadId"], shown["turnId"], 7)
    assert trail == sorted(trail, key=lambda event: event.timestamp)


async def test_the_trail_is_filtered_by_each_id_and_by_time(api: Apis, world: World) -> None:
    first = await ended(world, issue=1)
    middle = (await detail(api, first.id))["closedAt"]
    second = await ended(world, issue=2)
    repo = world.event().repo_key

    async def whole() -> bool:
        ends = [event for event in await events(api.viewer, repoKey=repo) if event.action == "task.end"]
        return len(ends) == 2

    await eventually(whole)
    by_repo = await events(api.viewer, repoKey=repo)
    assert {event.task_id for event in by_repo} >= {first.id, second.id}
    by_resource = await events(api.viewer, resourceKey=f"{repo}:issue:2")
    assert {event.task_id for event in by_resource if event.task_id} == {second.id}
    by_turn = await events(api.viewer, repoKey=repo, turnId=f"turn of {second.id}/1.1")
    assert {event.task_id for event in by_turn} == {second.id}
    by_comment = await events(api.viewer, repoKey=repo, commentId=7)
    assert {event.action for event in by_comment} == {"reply.confirm", "task.move", "task.end"}
    by_thread = await events(api.viewer, repoKey=repo, threadId=f"thread of {repo}:issue:1", action="turn.run")
    assert [event.task_id for event in by_thread] == [first.id]
    by_actor = await events(api.viewer, repoKey=repo, actor="gitea:user:alice")
    assert {event.action for event in by_actor} == {"task.start", "webhook.accept"}
    late = await events(api.viewer, repoKey=repo, since=middle, action="task.start")
    assert [event.task_id for event in late] == [second.id]
    early = await events(api.viewer, repoKey=repo, until=middle, action="task.start")
    assert [event.task_id for event in early] == [first.id]


async def test_an_operators_call_stands_in_the_trail_with_name_and_reason(api: Apis, world: World) -> None:
    task = await in_running(world)
    order = {"requestId": uuid.uuid4().hex, "reason": "wrong branch"}
    await api.operator.post(f"/tasks/{task.id}/abort", **order)
    await world.end(task)
    [asked] = await events(api.viewer, taskId=task.id, action="task.abort")
    assert asked.actor == "admin:operator-1"
    assert asked.metadata == {"via": "update", **order}
    moves = await events(api.viewer, taskId=task.id, action="task.move", actor="admin:operator-1")
    assert [move.to_state for move in moves] == ["aborting", "aborted"]


async def test_a_page_ends_and_goes_on_with_its_cursor(api: Apis, world: World) -> None:
    for issue in range(1, 13):
        await ended(world, issue=issue)
    repo = world.event().repo_key

    async def whole() -> bool:
        return len(await events(api.viewer, repoKey=repo, action="session.start")) == 12

    await eventually(whole)
    page = (await api.viewer.get("/audit", repoKey=repo, limit=1)).json()
    assert page["nextCursor"]
    everything = await events(api.viewer, repoKey=repo, limit=1)
    starts = [event for event in everything if event.action == "task.start"]
    assert len(starts) == len({event.task_id for event in starts}) == 12
    assert (await api.viewer.get("/audit", cursor=page["nextCursor"])).status_code == 400


async def test_what_ingress_refused_is_in_the_trail(api: Apis) -> None:
    body, headers = signed({"action": "created"}, "d-refused")
    headers = {**headers, "x-gitea-signature": "00", "x-hub-signature-256": "sha256=00"}
    assert (await send(api.nobody.http, (body, headers))).status_code == 401
    trail = await events(api.viewer, action="webhook")
    assert [(event.to_state, event.error_code) for event in trail] == [("refused", "invalid_signature")]
    assert str(trail[0].metadata["payloadHash"]).startswith("sha256:")


async def test_a_journal_cut_by_a_kill_shows_its_whole_lines(api: Apis, world: World, state_dir: Path) -> None:
    task = await ended(world)
    directory = state_dir / "journals"
    line = journal.JournalLine(
        time.time(), 1, "c1", "intent", "reply", task.id, "turn-9", 1, f"{task.id}/1", {"sha256": "ab"}
    )
    journal.append(directory, line)
    with journal.path_of(directory, task.id).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"at": 1})[:-3])
    calls = await events(api.viewer, taskId=task.id, action="mcp.call")
    assert [(one.turn_id, one.metadata["phase"]) for one in calls] == [("turn-9", "intent")]


@pytest.mark.parametrize(
    "query", [{"since": "yesterday"}, {"since": "2026-12-01T00:00:00"}, {"commentId": "x"}, {"a": 1}]
)
async def test_a_filter_that_does_not_fit_is_named(api: Apis, query: dict[str, Any]) -> None:
    answer = await api.viewer.get("/audit", **query)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


async def test_a_task_and_its_trail_are_shown_while_no_worker_runs(client: Client, api: Apis) -> None:
    world = new_world(client)
    async with working(world):
        task = await ended(world)
    assert (await detail(api, task.id))["state"] == "succeeded"
    trail = await events(api.viewer, taskId=task.id)
    assert chain(trail, f"{world.repo}-1").comment_id == 7


@pytest.fixture
async def other(client: Client) -> AsyncIterator[World]:
    async with run_world(client) as ready:
        yield ready


async def test_the_trail_of_a_repository_holds_nothing_of_another(api: Apis, world: World, other: World) -> None:
    await ended(world)
    theirs = await ended(other)
    repo = world.event().repo_key

    async def listed() -> bool:
        return bool(await events(api.viewer, repoKey=other.event().repo_key))

    await eventually(listed)
    assert theirs.id not in {event.task_id for event in await events(api.viewer, repoKey=repo)}
    assert ids.is_task_id(theirs.id)
