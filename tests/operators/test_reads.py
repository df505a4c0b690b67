"""What operators read over HTTP, from the real Temporal."""

import pytest

from domain.states import TaskState
from tests.operators.harness import Apis
from tests.workflows.fakes import found
from tests.workflows.world import World, eventually

S = TaskState


async def listed(api: Apis, **query: str | int) -> list[str]:
    """All taskIds, page by page."""
    ids, cursor = [], None
    while True:
        answer = await api.viewer.get("/tasks", **query, **({"cursor": cursor} if cursor else {}))
        assert answer.status_code == 200, answer.text
        ids += [task["taskId"] for task in answer.json()["tasks"]]
        cursor = answer.json()["nextCursor"]
        if cursor is None:
            return ids


async def until_listed(api: Apis, number: int, **query: str) -> list[str]:
    """Lists are a little late."""

    async def there() -> bool:
        return len(await listed(api, **query)) == number

    await eventually(there)
    return await listed(api, **query)


async def test_a_call_without_a_valid_token_is_refused(api: Apis) -> None:
    for path in ("/overview", "/tasks"):
        answer = await api.nobody.get(path)
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["code"] == "unauthenticated"


async def test_a_removed_operators_token_is_refused_at_once(api: Apis) -> None:
    assert (await api.viewer.get("/tasks")).status_code == 200
    api.operators.remove("viewer-1")
    assert (await api.viewer.get("/tasks")).status_code == 401


async def test_tasks_are_found_by_repository_resource_and_state(api: Apis, world: World) -> None:
    world.fakes.plan("verify_reply", found("question"))
    asking = await world.deliver(world.event(issue=1))
    await world.reaches(asking, S.WAITING_USER)
    done = await world.deliver(world.event(issue=2))
    await world.end(done)
    repo = world.event().repo_key

    assert await until_listed(api, 2, repoKey=repo) == [asking.id, done.id]
    assert await until_listed(api, 1, repoKey=repo.removeprefix("default:").upper(), state="succeeded") == [done.id]
    assert await until_listed(api, 1, resourceKey=f"{repo}:issue:1") == [asking.id]
    assert await listed(api, repoKey=repo, state="failed") == []
    [task] = (await api.viewer.get("/tasks", repoKey=repo, state="waiting_user")).json()["tasks"]
    assert task["author"] == "alice"
    assert task["deliveryKey"] == f"default:{world.repo}-1"
    assert task["sessionKey"] == task["resourceKey"] == f"{repo}:issue:1"
    assert task["executionStatus"] == "running" and task["closedAt"] is None


async def test_a_terminated_task_counts_as_failed(api: Apis, world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    task = await world.deliver(world.event())
    await world.fakes.entered["turn"].wait()
    await task.terminate()
    repo = world.event().repo_key

    assert await until_listed(api, 1, repoKey=repo, state="failed") == [task.id]
    assert await listed(api, repoKey=repo, state="running") == []
    [shown] = (await api.viewer.get("/tasks", repoKey=repo)).json()["tasks"]
    assert (shown["state"], shown["errorCode"]) == ("failed", "terminated")


async def test_pages_leave_no_task_out_while_tasks_come_and_go(api: Apis, world: World) -> None:
    world.fakes.plan("verify_reply", *[found("question")] * 4)
    waiting = []
    for issue in range(1, 5):
        task = await world.deliver(world.event(issue=issue))
        await world.reaches(task, S.WAITING_USER)
        waiting.append(task)
    repo = world.event().repo_key
    await until_listed(api, 4, repoKey=repo)
    first = (await api.viewer.get("/tasks", repoKey=repo, limit=2)).json()
    await waiting[0].signal("cancel")
    await world.end(waiting[0])
    await until_listed(api, 1, repoKey=repo, state="cancelled")
    late = await world.deliver(world.event(issue=9))
    await world.end(late)
    second = (await api.viewer.get("/tasks", repoKey=repo, cursor=first["nextCursor"])).json()

    seen = {task["taskId"] for task in first["tasks"] + second["tasks"]}
    assert {task.id for task in waiting} <= seen


async def test_a_cursor_of_other_filters_is_refused(api: Apis, world: World) -> None:
    for issue in (1, 2):
        await world.end(await world.deliver(world.event(issue=issue)))
    repo = world.event().repo_key
    await until_listed(api, 2, repoKey=repo)
    cursor = (await api.viewer.get("/tasks", repoKey=repo, limit=1)).json()["nextCursor"]
    for wrong in (cursor, "", "x", "§", cursor[:-4]):
        answer = await api.viewer.get("/tasks", repoKey="default:octo/other", cursor=wrong or "AAAA")
        assert answer.status_code == 400
        assert answer.json()["code"] == "invalid_request"


@pytest.mark.parametrize("query", [{"state": "dancing"}, {"limit": 0}, {"limit": 201}, {"limit": "many"}])
async def test_a_parameter_that_does_not_fit_is_named(api: Apis, query: dict[str, str]) -> None:
    answer = await api.viewer.get("/tasks", **query)
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_request"
    assert next(iter(query)) in answer.json()["detail"]


async def test_a_filter_cannot_break_out_of_its_query(api: Apis, world: World) -> None:
    await world.end(await world.deliver(world.event()))
    await until_listed(api, 1, repoKey=world.event().repo_key)
    for evil in ('x" OR WorkflowType="AgentTask', "x\\", "x' OR 1=1 --"):
        assert await listed(api, repoKey=evil) == []


async def test_the_overview_shows_queues_switches_and_missing_workers(api: Apis, world: World) -> None:
    world.fakes.plan("run_turn", world.fakes.hold("turn"))
    world.fakes.plan("verify_reply", found("missing"))
    running = await world.deliver(world.event(issue=1))
    await world.fakes.entered["turn"].wait()
    queued = await world.deliver(world.event(issue=2))
    await world.reaches(queued, S.QUEUED)
    repo = world.event().repo_key
    await until_listed(api, 2, repoKey=repo)
    shown = (await api.viewer.get("/overview")).json()
    world.fakes.open_gate("turn")

    [queue] = [one for one in shown["queues"] if one["repoKey"] == repo]
    assert queue["working"] == [running.id]
    assert queue["queued"] == [queued.id]
    assert shown["runningSlots"] == 1
    assert shown["openTasks"] == {"running": 1, "queued": 1}
    assert shown["control"]["globalPaused"] is False
    assert shown["workers"] == [{"taskQueue": "agent", "workers": 0, "lastSeenAt": None}]
    assert "No worker polls" in shown["notes"][0]
