"""Rows of the failure matrix, provoked for real: the named state, its code, one receipt that says what to do."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from demo.scene import FULL_NAME, OWNER, REPO, Scene, until
from demo.stack import BOT
from domain.errors import TEXTS, ErrorCode
from tests.conftest import scratch_dir
from tests.harness import (
    assert_one_receipt_and_one_answer,
    fault,
    finished,
    play,
    release,
    running_scene,
    task_of_comment,
    temporal,
    until_asked,
    while_the_worker_is_away,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
C = ErrorCode
ASK = f"@{BOT} [[script:reply-only]]"
ISSUES = f"/repos/{FULL_NAME}/issues"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    with scratch_dir() as directory:
        async with running_scene(directory, CCWEB_MCP_STARTUP_TIMEOUT="4") as scene:
            yield scene


async def assert_told_once(scene: Scene, task: str, code: ErrorCode, number: int = 1) -> None:
    """The start receipt, then one that names the code and what to do; no answer."""
    start, end = [one["body"] for one in await scene.receipts(task, number)]
    assert code not in start
    assert f"`{code}`" in end and TEXTS[code].action_en in end
    assert await scene.answers(task, number) == []


@contextmanager
def gitea_mcp(scene: Scene, script: str) -> Iterator[None]:
    """Another program in the place of gitea-mcp."""
    command = Path(scene.stack.directory / "bin" / "gitea-mcp")
    kept = command.read_text(encoding="utf-8")
    command.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    try:
        yield
    finally:
        command.write_text(kept, encoding="utf-8")


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("echo broken >&2; exit 3", C.MCP_START_FAILED),
        ("exec /bin/sleep 600", C.MCP_HANDSHAKE_FAILED),
        ("echo this is no JSON; exec /bin/sleep 600", C.MCP_HANDSHAKE_FAILED),
    ],
)
async def test_a_gitea_mcp_that_does_not_come_up_is_told(scene: Scene, script: str, code: ErrorCode) -> None:
    with gitea_mcp(scene, script):
        comment = await scene.comment(ASK)
        assert await finished(scene, comment) == "failed"
    await assert_told_once(scene, await task_of_comment(scene, comment), code)


async def test_a_gitea_mcp_that_dies_in_the_turn_is_replaced(scene: Scene) -> None:
    held: list[dict[str, Any]] = [
        {"exec": "true"},
        {"gate": "mcp-dies", "mcp": "reply", "arguments": {"body": "Still here."}},
        {"say": "Done."},
    ]
    await play(scene, **{"mcp-dies": held})
    comment = await scene.comment(f"@{BOT} [[script:mcp-dies]]")
    await until_asked(scene, "mcp-dies", 1)
    for pid in _processes(scene, "gitea_mcp"):
        os.kill(pid, signal.SIGKILL)
    await release(scene, "mcp-dies")
    assert await finished(scene, comment) == "succeeded"
    await assert_one_receipt_and_one_answer(scene, comment)


def _processes(scene: Scene, name: str) -> list[int]:
    """Processes of this stack whose command line or environment leads to `name`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue
        if name.encode() in command and scene.stack.gitea_url.encode() in environment:
            found.append(int(folder.name))
    return found


async def test_a_gitea_that_is_down_for_the_read_back_gets_nothing_written_blindly(scene: Scene) -> None:
    posted: list[dict[str, Any]] = [
        {"mcp": "reply", "arguments": {"body": "Posted before Gitea went away."}},
        {"say": "Done.", "gate": "down"},
    ]
    await play(scene, down=posted)
    comment = await scene.comment(f"@{BOT} [[script:down]]")
    await until_asked(scene, "down", 1)
    await fault(scene, method="GET", path=f".*{ISSUES}/1/comments", mode="status", status=502, times=100_000)
    await release(scene, "down")
    assert await finished(scene, comment) == "failed_reply"
    await scene.http.delete(f"{scene.stack.gitea_url}/_sim/faults")
    await assert_one_receipt_and_one_answer(scene, comment)


async def test_an_app_server_that_is_away_is_waited_for_and_tried_once_more(scene: Scene) -> None:
    await scene.stack.stop("sidecar")
    try:
        comment = await scene.comment(ASK)
        task, client = await task_of_comment(scene, comment), await temporal(scene)

        async def tried_twice() -> bool:
            history = await client.get_workflow_handle(task).fetch_history()
            return b"retry_wait" in b"".join(event.SerializeToString() for event in history.events)

        await until(tried_twice, 60, "the task to wait for its second try")
    finally:
        await scene.stack.start("sidecar")
    assert await finished(scene, comment) == "succeeded"
    await assert_one_receipt_and_one_answer(scene, comment)


async def test_a_refused_push_is_the_agents_to_tell(scene: Scene) -> None:
    rule = {"branch_name": "ccweb/issue-1", "rule_name": "ccweb/issue-1", "enable_push": False}
    await scene.api("POST", f"/repos/{FULL_NAME}/branch_protections", json=rule)
    await play(
        scene,
        protected=[
            {"exec": "echo more >> more.txt"},
            {"mcp": "publish", "arguments": {"message": "More"}},
            {"mcp": "reply", "arguments": {"body": "Gitea said: {output}"}},
            {"say": "Done."},
        ],
    )
    comment = await scene.comment(f"@{BOT} [[script:protected]]")
    assert await finished(scene, comment) == "succeeded"
    (answer,) = await scene.answers(await task_of_comment(scene, comment))
    assert "publish_refused" in answer["body"]
    await scene.api("DELETE", f"/repos/{FULL_NAME}/branch_protections/ccweb%2Fissue-1")


async def _code(scene: Scene, task: str) -> str:
    """The error code in a failed task's history."""
    history = await (await temporal(scene)).get_workflow_handle(task).fetch_history()
    return history.events[-1].workflow_execution_failed_event_attributes.failure.application_failure_info.type


async def test_an_archived_repository_fails_and_nothing_is_written(scene: Scene) -> None:
    async def archive(_: int) -> None:
        await scene.api("PATCH", f"/repos/{FULL_NAME}", json={"archived": True})

    task, state = await while_the_worker_is_away(scene, ASK, archive)
    await scene.api("PATCH", f"/repos/{FULL_NAME}", json={"archived": False})
    assert (state, await _code(scene, task)) == ("failed", C.REPOSITORY_UNAVAILABLE)
    assert await scene.answers(task) == []


async def test_an_issue_that_was_deleted_ends_its_task(scene: Scene) -> None:
    number = (await scene.api("POST", ISSUES, json={"title": "gone soon"}))["number"]

    async def delete(_: int) -> None:
        await scene.api("DELETE", f"{ISSUES}/{number}")

    task, state = await while_the_worker_is_away(scene, ASK, delete, number)
    assert (state, await _code(scene, task)) == ("failed", C.REPOSITORY_UNAVAILABLE)


async def test_a_bot_that_was_removed_ends_its_task(scene: Scene) -> None:
    path = f"/repos/{FULL_NAME}/collaborators/{BOT}"

    async def remove(_: int) -> None:
        await scene.api("DELETE", path)
        await scene.api("PATCH", f"/repos/{FULL_NAME}", json={"private": True})

    task, state = await while_the_worker_is_away(scene, ASK, remove)
    await scene.api("PATCH", f"/repos/{FULL_NAME}", json={"private": False})
    await scene.api("PUT", path, json={"permission": "write"})
    assert (state, await _code(scene, task)) == ("failed", C.REPOSITORY_UNAVAILABLE)


async def test_a_wrong_token_is_named(scene: Scene) -> None:
    right = scene.stack.secrets

    async def spoil(_: int) -> None:
        scene.stack.secrets = replace(right, bot_token="0" * 40)

    try:
        task, state = await while_the_worker_is_away(scene, ASK, spoil)
    finally:
        scene.stack.secrets = right
        await scene.stack.stop("worker")
        await scene.stack.start("worker")
    assert (state, await _code(scene, task)) == ("failed", C.GITEA_AUTH_FAILED)


async def test_a_repository_renamed_before_the_task_began_is_followed(scene: Scene) -> None:
    async def rename(_: int) -> None:
        await scene.api("PATCH", f"/repos/{FULL_NAME}", json={"name": "renamed"})

    task, state = await while_the_worker_is_away(scene, ASK, rename)
    await scene.api("PATCH", f"/repos/{OWNER}/renamed", json={"name": REPO})
    assert state == "succeeded"
    assert len(await scene.answers(task)) == 1
