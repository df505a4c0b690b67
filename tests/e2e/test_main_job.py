"""The main job through HTTP, with the real Temporal, Codex app-server, git and bridge."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import WorkflowHandle

from demo.scene import Scene, until
from demo.stack import BOT
from domain import ids, marker
from tests.conftest import scratch_dir
from tests.harness import (
    ACCEPTED,
    assert_one_receipt_and_one_answer,
    deliveries,
    fault,
    finished,
    play,
    release,
    running_scene,
    state_of,
    steps_asked,
    task_of_comment,
    temporal,
    until_asked,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    with scratch_dir() as directory:
        async with running_scene(directory) as scene:
            yield scene


async def test_an_agent_that_only_says_it_posted_is_answered_for_by_rest(scene: Scene) -> None:
    comment = await scene.comment(f"@{BOT} [[script:say-posted]]")
    assert await finished(scene, comment) == "succeeded_with_rest_fallback"
    answer = await assert_one_receipt_and_one_answer(scene, comment)
    assert answer.kind == "rest_fallback"


async def test_a_comment_whose_answer_gitea_drops_is_posted_once(scene: Scene) -> None:
    await play(
        scene,
        dropped=[
            {"say": "Now.", "exec": "true", "gate": "dropped"},
            {"mcp": "reply", "arguments": {"body": "Once."}},
        ],
    )
    comment = await scene.comment(f"@{BOT} [[script:dropped]]")
    await until_asked(scene, "dropped", 0)
    await fault(scene, method="POST", path=".*/issues/1/comments", mode="drop_after_commit", times=1)
    await release(scene, "dropped")
    assert await finished(scene, comment) == "succeeded"
    await assert_one_receipt_and_one_answer(scene, comment)


async def test_a_question_waits_for_the_persons_answer(scene: Scene) -> None:
    await play(scene, answered=[{"mcp": "reply", "arguments": {"body": "Then main it is."}}])
    asking = await scene.comment(f"@{BOT} [[script:ask]]")
    client, task = await temporal(scene), await task_of_comment(scene, asking)

    async def waits() -> bool:
        return await state_of(client, task) == "waiting_user"

    await until(waits, 40, "the question")
    await scene.comment(f"@{BOT} main, please [[script:answered]]")
    assert await finished(scene, asking) == "succeeded"
    kinds = [
        found.kind
        for one in await scene.answers(task)
        if isinstance(found := marker.parse(one["body"]), marker.ReplyMarker)
    ]
    assert kinds == ["question", "final"]
    assert len(await scene.receipts(task)) == 1


async def test_the_ingress_takes_comments_while_the_worker_is_away(scene: Scene) -> None:
    await scene.stack.stop("worker")
    comment = await scene.comment(f"@{BOT} [[script:reply-only]]")
    await task_of_comment(scene, comment)
    await scene.stack.start("worker")
    assert await finished(scene, comment) == "succeeded"
    await assert_one_receipt_and_one_answer(scene, comment)


async def test_a_terminated_tasks_turn_can_neither_reply_nor_publish(scene: Scene) -> None:
    await play(
        scene,
        zombie=[
            {"exec": "echo zombie > zombie.txt", "gate": "zombie"},
            {"mcp": "publish", "arguments": {"message": "zombie"}},
            {"mcp": "reply", "arguments": {"body": "zombie"}},
        ],
    )
    before = await scene.branch("ccweb/issue-1")
    comment = await scene.comment(f"@{BOT} [[script:zombie]]")
    await until_asked(scene, "zombie", 0)
    client, task = await temporal(scene), await task_of_comment(scene, comment)
    await client.get_workflow_handle(task).terminate("test")
    await release(scene, "zombie")

    async def told() -> bool:
        return bool(await scene.receipts(task))

    await until(told, 40, "the receipt of the termination")
    assert await scene.answers(task) == []
    assert await scene.branch("ccweb/issue-1") == before


async def test_a_missing_gitea_mcp_fails_with_its_code_and_one_receipt(scene: Scene) -> None:
    command = Path(scene.stack.directory / "bin" / "gitea-mcp")
    kept = command.rename(command.with_suffix(".away"))
    try:
        comment = await scene.comment(f"@{BOT} [[script:reply-only]]")
        assert await finished(scene, comment) == "failed"
    finally:
        kept.rename(command)
    task = await task_of_comment(scene, comment)
    (start, failure) = await scene.receipts(task)
    assert "mcp_command_missing" in failure["body"] and "mcp_" not in start["body"]


async def test_each_step_was_asked_for_once(scene: Scene) -> None:
    comment = await scene.comment(f"@{BOT} please fix the failing test")
    assert await finished(scene, comment) == "succeeded"
    asked = await steps_asked(scene, "fix-failing-test")
    assert asked == sorted(set(asked))


async def test_a_comment_on_a_pull_request_works_on_its_head(scene: Scene) -> None:
    changing = {"exec": "echo more >> more.txt"}
    publishing = {"mcp": "publish", "arguments": {"message": "More"}}
    answering = {"mcp": "reply", "arguments": {"body": "More it is."}}
    await play(scene, pulled=[changing, publishing, answering])
    await finished(scene, await scene.comment(f"@{BOT} please [[script:pulled]]"))
    number = await scene.open_pull("ccweb/issue-1")
    before = await scene.branch("ccweb/issue-1")
    comment = await scene.comment(f"@{BOT} [[script:pulled]]", number)
    assert await finished(scene, comment) == "succeeded"
    await assert_one_receipt_and_one_answer(scene, comment, number)
    after = await scene.branch("ccweb/issue-1")
    assert after is not None and after != before


async def test_a_pause_by_the_temporal_binary_holds_new_work_until_resume(scene: Scene) -> None:
    await control(scene, "pause", '{"reason": "upgrade"}')
    comment = await scene.comment(f"@{BOT} [[script:reply-only]]")
    client, task = await temporal(scene), await task_of_comment(scene, comment)

    async def acknowledged() -> bool:
        return await state_of(client, task) == "queued" and len(await scene.receipts(task)) == 1

    await until(acknowledged, 40, "the receipt of a paused task")
    assert await scene.answers(task) == []
    await control(scene, "resume", '"done"')
    assert await finished(scene, comment) == "succeeded"


async def test_a_disabled_repository_is_refused_by_the_name_people_use(scene: Scene) -> None:
    await control(scene, "disable", '{"repo": "alice/demo", "reason": "test"}')
    comment = await scene.comment(f"@{BOT} [[script:reply-only]]")

    assert await _status(scene, comment) == 409
    await control(scene, "enable", '"alice/demo"')

    async def taken() -> int | None:
        """The ingress may believe the old state for two seconds."""
        again = await scene.comment(f"@{BOT} [[script:reply-only]]")
        return again if await _status(scene, again) == ACCEPTED else None

    assert await finished(scene, await until(taken, 20, "a comment to be taken again")) == "succeeded"


async def _status(scene: Scene, comment: int) -> int:
    """What the ingress answered to the delivery of a comment."""

    async def answered() -> int | None:
        return next((one["status"] for one in await deliveries(scene) if _comment_of(one) == comment), None)

    return await until(answered, 20, "the answer of the ingress")


async def control(scene: Scene, name: str, given: str) -> None:
    """Signals Control as the README says, and waits until its memo shows it."""
    client = await temporal(scene)
    handle = client.get_workflow_handle(ids.CONTROL_WORKFLOW_ID)
    before = await _version(handle)
    command = [str(Path(sys.executable).parent / "temporal"), "workflow", "signal", "--address"]
    arguments = [scene.stack.temporal_address, "-w", ids.CONTROL_WORKFLOW_ID, "--name", name, "--input", given]
    process = await asyncio.create_subprocess_exec(*command, *arguments, stdout=asyncio.subprocess.DEVNULL)
    assert await process.wait() == 0

    async def applied() -> bool:
        return await _version(handle) > before

    await until(applied, 20, name)


async def _version(handle: WorkflowHandle[Any, Any]) -> int:
    memo = await (await handle.describe()).memo()
    return int(memo.get("control", {}).get("version", 0))


async def test_an_outsiders_comment_starts_nothing_and_gets_no_comment(scene: Scene) -> None:
    before = len(await scene.comments())
    comment = await scene.comment(f"@{BOT} [[script:reply-only]]", author="carol")

    async def answered() -> bool:
        return any(one["status"] for one in await deliveries(scene) if _comment_of(one) == comment)

    await until(answered, 20, "the delivery")
    assert len(await scene.comments()) == before + 1


async def test_the_same_delivery_again_makes_no_second_task(scene: Scene) -> None:
    comment = await scene.comment(f"@{BOT} [[script:reply-only]]")
    assert await finished(scene, comment) == "succeeded"
    (delivery,) = [one for one in await deliveries(scene) if _comment_of(one) == comment]
    again = await scene.http.post(f"{scene.stack.gitea_url}/_sim/redeliver", json={"id": delivery["id"]})
    assert again.is_success

    async def taken() -> bool:
        same = [one for one in await deliveries(scene) if _comment_of(one) == comment]
        return len(same) == 2 and all(one["status"] for one in same)

    await until(taken, 20, "the redelivery")
    probe = await scene.comment(f"@{BOT} [[script:reply-only]]")
    assert await finished(scene, probe) == "succeeded"
    await assert_one_receipt_and_one_answer(scene, comment)


def _comment_of(delivery: dict[str, Any]) -> int | None:
    found: int | None = json.loads(delivery["body"]).get("comment", {}).get("id")
    return found
