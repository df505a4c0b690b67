"""What starts a task besides a new comment, and what becomes of a request that changes while it waits."""

import base64
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio.client import Client

from demo.scene import FULL_NAME, Scene, until
from demo.stack import BOT
from tests.conftest import scratch_dir
from tests.harness import play, running_scene, state_of, temporal, while_the_worker_is_away

pytestmark = pytest.mark.asyncio(loop_scope="module")
REPO = f"/repos/{FULL_NAME}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    with scratch_dir() as directory:
        async with running_scene(directory) as scene:
            yield scene


async def _tasks(client: Client, session: str) -> dict[str, str]:
    """The source of each task of a session, with the state it is in."""
    query = f'WorkflowType="AgentTask" AND CcwebResource="default:{FULL_NAME}:{session}"'
    return {
        str(found.search_attributes["CcwebSource"][0]): await state_of(client, found.id)
        async for found in client.list_workflows(query)
    }


async def _ends(scene: Scene, session: str, source: str) -> str:
    """Waits for the task of a source to succeed; returns the source."""
    client = await temporal(scene)

    async def succeeded() -> bool:
        found = await _tasks(client, session)
        return any(key.partition(":")[2].startswith(source) and state == "succeeded" for key, state in found.items())

    await until(succeeded, 60, f"the task of {source} in {session}")
    return source


async def test_a_body_that_mentions_the_bot_and_is_assigned_to_it_is_one_task(scene: Scene) -> None:
    opened = await scene.api(
        "POST",
        f"{REPO}/issues",
        json={"title": "Broken", "body": f"@{BOT} [[script:reply-only]]", "assignees": [BOT]},
    )
    number = opened["number"]
    await _ends(scene, f"issue:{number}", "")
    found = await _tasks(await temporal(scene), f"issue:{number}")
    assert len(found) == 1


async def test_an_assignment_starts_once_and_again_after_it_was_taken_back(scene: Scene) -> None:
    opened = await scene.api("POST", f"{REPO}/issues", json={"title": "Later", "body": "[[script:reply-only]]"})
    issue = f"{REPO}/issues/{opened['number']}"
    session = f"issue:{opened['number']}"
    await scene.api("PATCH", issue, json={"assignees": [BOT]})
    await _ends(scene, session, f"assignment:{opened['number']}.1")
    await scene.api("PATCH", issue, json={"assignees": []})
    await scene.api("PATCH", issue, json={"assignees": [BOT]})
    await _ends(scene, session, f"assignment:{opened['number']}.2")


async def test_an_edit_that_adds_a_mention_starts_a_task(scene: Scene) -> None:
    comment = await scene.comment("please look at this")
    edited = {"body": f"@{BOT} please look at this [[script:reply-only]]"}
    await scene.api("PATCH", f"{REPO}/issues/comments/{comment}", json=edited)
    await _ends(scene, "issue:1", f"comment:{comment}")


async def test_a_review_and_its_inline_comment_are_each_answered(scene: Scene) -> None:
    await scene.api("POST", f"{REPO}/branches", json={"new_branch_name": "reviewed"})
    file = {"branch": "reviewed", "message": "Change", "content": base64.b64encode(b"x = 1\n").decode()}
    await scene.api("POST", f"{REPO}/contents/new.py", json=file)
    number = await scene.open_pull("reviewed")
    review = {
        "event": "COMMENT",
        "body": f"@{BOT} two things [[script:reply-only]]",
        "comments": [
            {"path": "new.py", "body": f"@{BOT} here [[script:reply-only]]", "new_position": 1},
            {"path": "new.py", "body": "nice", "new_position": 1},
        ],
    }
    made = await scene.api("POST", f"{REPO}/pulls/{number}/reviews", json=review)
    session = f"pull_request:{number}"
    await _ends(scene, session, f"review:{made['id']}")
    await _ends(scene, session, "review_comment:")
    assert len(await _tasks(await temporal(scene), session)) == 2


async def test_a_request_that_was_deleted_before_it_began_is_cancelled(scene: Scene) -> None:
    async def delete(comment: int) -> None:
        await scene.api("DELETE", f"{REPO}/issues/comments/{comment}")

    task, state = await while_the_worker_is_away(scene, f"@{BOT} [[script:reply-only]]", delete)
    assert state == "cancelled"
    assert await scene.answers(task) == []


async def test_a_request_that_was_edited_before_it_began_is_worked_on_as_it_reads_now(scene: Scene) -> None:
    await play(scene, second=[{"mcp": "reply", "arguments": {"body": "The second text."}}, {"say": "Done."}])

    async def edit(comment: int) -> None:
        await scene.api("PATCH", f"{REPO}/issues/comments/{comment}", json={"body": f"@{BOT} [[script:second]]"})

    task, state = await while_the_worker_is_away(scene, f"@{BOT} [[script:reply-only]]", edit)
    assert state == "succeeded"
    (answer,) = await scene.answers(task)
    assert "The second text." in answer["body"]
