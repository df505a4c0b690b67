"""What no delivery told us about is found once; an answer that Gitea did not take is posted later."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio.client import Client

import schedules
from demo.scene import FULL_NAME, Scene, until
from demo.stack import BOT
from domain import ids
from tests.conftest import scratch_dir
from tests.harness import (
    assert_one_receipt_and_one_answer,
    closed,
    deliveries,
    fault,
    finished,
    play,
    running_scene,
    state_of,
    task_of_comment,
    temporal,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    with scratch_dir() as directory:
        async with running_scene(directory, CCWEB_RECONCILE_INTERVAL="3600", CCWEB_RECONCILE_GRACE="0.5") as scene:
            await until(lambda: _first_look(scene), 30, "the first look")
            yield scene


async def _runs(client: Client) -> int:
    """How many looks of the Schedule are over."""
    query = f'TemporalScheduledById="{ids.RECONCILE_SCHEDULE_ID}" AND ExecutionStatus="Completed"'
    return len([one async for one in client.list_workflows(query)])


async def _first_look(scene: Scene) -> bool:
    return await _runs(await temporal(scene)) > 0


async def _look(scene: Scene) -> None:
    """Has the Schedule look again and waits for the end of it."""
    client = await temporal(scene)
    before = await _runs(client)
    await client.get_schedule_handle(ids.RECONCILE_SCHEDULE_ID).trigger()

    async def over() -> bool:
        return await _runs(client) > before

    await until(over, 30, "the reconciler")


async def _unheard_comment(scene: Scene, text: str) -> tuple[int, str]:
    """A comment whose delivery nobody took, and the taskId that the reconciler gives it."""
    await scene.stack.kill("ingress")
    comment = await scene.comment(text)

    async def given_up() -> bool:
        bodies = [json.loads(one["body"]) for one in await deliveries(scene)]
        return any(body.get("comment", {}).get("id") == comment for body in bodies)

    await until(given_up, 20, "the delivery to fail")
    await scene.stack.start("ingress")
    repository = next(json.loads(one["body"])["repository"]["id"] for one in await deliveries(scene))
    source = ids.source_key(repository, "comment", comment)
    return comment, ids.task_id(ids.delivery_key(f"reconcile:{source}"))


async def test_a_mention_made_while_the_ingress_was_down_is_answered_once(scene: Scene) -> None:
    comment, task = await _unheard_comment(scene, f"@{BOT} [[script:reply-only]]")
    client = await temporal(scene)

    async def would() -> bool:
        return [(find.task_id, find.kind) for find in (await schedules.reconcile_dry_run(client)).finds] == [
            (task, "would_deliver")
        ]

    await until(would, 20, "a dry run to see it")
    assert await state_of(client, task) == ""

    await _look_until_found(scene, task)
    assert await state_of(client, task) == "succeeded"

    late = next(one for one in await deliveries(scene) if f'"id":{comment},' in one["body"].replace(" ", ""))
    await scene.http.post(f"{scene.stack.gitea_url}/_sim/redeliver", json={"id": late["id"]})
    await _look(scene)
    assert len(await scene.receipts(task)) == 1
    assert len(await scene.answers(task)) == 1
    tasks = [one async for one in client.list_workflows('WorkflowType="AgentTask"')]
    assert [one.id for one in tasks] == [task]


async def _look_until_found(scene: Scene, task: str) -> None:
    client = await temporal(scene)

    async def found() -> bool:
        await _look(scene)
        return await state_of(client, task) != ""

    await until(found, 30, "the mention to be found")
    await closed(client.get_workflow_handle(task))


async def test_an_answer_that_gitea_did_not_take_is_posted_once_it_does(scene: Scene) -> None:
    path = f"/api/v1/repos/{FULL_NAME}/issues/1/comments"
    await play(scene, mute=[{"say": "These are my last words."}])
    comment = await scene.comment(f"@{BOT} [[script:mute]]")
    task = await task_of_comment(scene, comment)

    async def received() -> bool:
        return len(await scene.receipts(task)) == 1

    await until(received, 20, "the receipt")
    await fault(scene, method="POST", path=path, mode="status", status=500, times=50)
    assert await finished(scene, comment) == "failed_reply"
    assert await scene.answers(task) == []

    await scene.http.delete(f"{scene.stack.gitea_url}/_sim/faults")
    await _look(scene)
    await _look(scene)
    await assert_one_receipt_and_one_answer(scene, comment)
