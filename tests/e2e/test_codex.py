"""Codex through the whole system: the model's errors, an abort, one turn per key, the sidecar."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import embedded
from activities import codex_thread, codex_turn
from clients import codex
from demo.scene import Scene, until
from demo.stack import BOT
from domain import marker
from tests.conftest import scratch_dir
from tests.harness import (
    app_server_pids,
    assert_one_receipt_and_one_answer,
    finished,
    play,
    running_scene,
    task_of_comment,
    turns_asked,
    until_asked,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
ERRORS = {
    "401": ("model_auth_failed", 1),
    "400": ("model_request_refused", 1),
    "429-quota": ("model_quota_exceeded", 1),
    "context": ("model_context_exceeded", 1),
    "500": ("model_unavailable", 2),
    "cut": ("model_unavailable", 2),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    with scratch_dir() as directory:
        async with running_scene(directory) as scene:
            yield scene


async def assert_one_failure(scene: Scene, comment: int, code: str) -> None:
    """One receipt of the failure besides that of the start, and no answer."""
    task = await task_of_comment(scene, comment)
    receipts = await scene.receipts(task)
    assert [code in one["body"] for one in receipts] == [False, True]
    assert await scene.answers(task) == []


async def test_each_error_of_the_model_ends_in_one_receipt_with_its_code(scene: Scene) -> None:
    await play(scene, **{f"error-{fault}": [{"fault": fault}] for fault in ERRORS})
    comments = {fault: await scene.comment(f"@{BOT} [[script:error-{fault}]]") for fault in ERRORS}
    for fault, (code, turns) in ERRORS.items():
        assert await finished(scene, comments[fault]) == "failed", fault
        await assert_one_failure(scene, comments[fault], code)
        assert len(await turns_asked(scene, f"error-{fault}")) == turns, fault


async def test_after_the_errors_the_same_thread_still_answers(scene: Scene) -> None:
    comment = await scene.comment(f"@{BOT} [[script:reply-only]]")
    assert await finished(scene, comment) == "succeeded"
    await assert_one_receipt_and_one_answer(scene, comment)


def sleepers(mark: str) -> list[int]:
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in line.read_bytes().split(b"\0"):
                found.append(int(line.parent.name))
        except OSError:
            continue
    return found


async def test_an_abort_ends_the_turn_and_its_command(scene: Scene) -> None:
    await play(
        scene,
        sleeper=[
            {"exec": "sleep 300.4125", "yield_time_ms": 30000},
            {"mcp": "reply", "arguments": {"body": "Never."}},
        ],
    )
    comment = await scene.comment(f"@{BOT} [[script:sleeper]]")
    task = await task_of_comment(scene, comment)

    async def runs() -> bool:
        return bool(sleepers("300.4125"))

    await until(runs, 40, "the command to run")
    signalled = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "temporal"), "workflow", "signal",
        "--address", scene.stack.temporal_address, "-w", task, "--name", "abort", "--input", '"wrong branch"',
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, err = await signalled.communicate()
    assert signalled.returncode == 0, err.decode()
    assert await finished(scene, comment) == "aborted"
    assert sleepers("300.4125") == []
    assert await scene.answers(task) == []
    start, end = await scene.receipts(task)
    assert "was stopped" in end["body"] and "was stopped" not in start["body"]


async def test_a_turn_is_found_by_its_key(scene: Scene) -> None:
    comment = await scene.comment(f"@{BOT} [[script:reply-only]]")
    assert await finished(scene, comment) == "succeeded"
    found = await assert_one_receipt_and_one_answer(scene, comment)
    assert isinstance(found, marker.ReplyMarker)
    async with codex.connect(scene.stack.state_dir / "codex.sock", 10) as client:
        threads = await client.call("thread/list", {"limit": 50, "modelProviders": []})
        (thread,) = (one["id"] for one in threads["data"])
        assert not await codex_thread.is_active(client, thread)
        page = await client.call("thread/turns/list", {"threadId": thread, "itemsView": "full", "limit": 1})
        keys = [item["clientId"] for turn in page["data"] for item in turn["items"] if item.get("clientId")]
        (key,) = keys
        turn = await codex_turn.find(client, thread, key)
        assert turn is not None and turn["id"] == found.turn_id and turn["status"] == "completed"
        assert await codex_turn.find(client, thread, f"{key}-other") is None


async def test_the_app_server_has_neither_git_nor_secrets(scene: Scene) -> None:
    raw = await asyncio.to_thread(Path(f"/proc/{app_server_pids(scene)[-1]}/environ").read_bytes)
    variables = dict(one.split("=", 1) for one in raw.decode().split("\0") if one)
    secrets = scene.stack.secrets
    for secret in (secrets.bot_token, secrets.owner_token, secrets.webhook, secrets.model_key):
        assert secret not in raw.decode()
    assert not [name for name in variables if name.startswith(("CCWEB_", "TEMPORAL_"))]
    assert [[one.name for one in Path(folder).iterdir()] for folder in variables["PATH"].split(":")] == [["bwrap"]]


async def sidecar(scene: Scene, **settings: str) -> str:
    """Starts another sidecar, which must refuse; returns its last words."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", "sidecar", env=scene.stack.environment() | settings, cwd=embedded.ROOT,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode not in (0, None)
    assert "Traceback" not in out.decode()
    return out.decode()


async def test_a_second_sidecar_of_one_state_folder_refuses_and_changes_nothing(scene: Scene) -> None:
    before = app_server_pids(scene)
    other = scene.stack.directory / "other-key"
    other.write_text("sk-other", encoding="utf-8")
    text = await sidecar(scene, CCWEB_MODEL="other-1", CCWEB_MODEL_KEY_FILE=str(other))
    assert text.startswith(f"ccweb: another sidecar runs with the state folder {scene.stack.state_dir};")
    assert app_server_pids(scene) == before and Path(f"/proc/{before[-1]}").exists()
    comment = await scene.comment(f"@{BOT} [[script:reply-only]]")
    assert await finished(scene, comment) == "succeeded"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("CCWEB_STATE_DIR", "/tmp/ccweb-never", "must not lie under /tmp"),
        ("CCWEB_CODEX_BIN", "/nonexistent/codex", "not an executable: /nonexistent/codex"),
    ],
)
async def test_the_sidecar_refuses_what_cannot_work(scene: Scene, name: str, value: str, words: str) -> None:
    text = await sidecar(scene, **{name: value})
    assert text == f"ccweb: {name}: {words}\n"
    assert not Path("/tmp/ccweb-never").exists()


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()


async def test_codex_runs_no_git_over_the_agents_files(scene: Scene) -> None:
    comment = await scene.comment(f"@{BOT} [[script:reply-only]]")
    assert await finished(scene, comment) == "succeeded"
    (worktree,) = (scene.stack.state_dir).glob("**/worktrees/issue-1/README.md")
    tree = worktree.parent
    ran = tree.parent.parent / "tmp" / "issue-1" / "ran"
    making: list[dict[str, Any]] = [
        {
            "exec": "mkdir sub && cd sub && git init -q . && echo a > a && git add a && "
            "git -c user.name=a -c user.email=a@b commit -qm a && echo '* filter=x' > .gitattributes && "
            f"git config filter.x.clean 'touch {ran}; cat' && echo b > a && git rev-parse HEAD"
        },
        {"mcp": "reply", "arguments": {"body": "Made {output}"}},
    ]
    await play(scene, nested=making)
    comment = await scene.comment(f"@{BOT} [[script:nested]]")
    assert await finished(scene, comment) == "succeeded"
    head = git("-C", str(tree / "sub"), "rev-parse", "HEAD")
    git("-C", str(tree), "update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    git("-C", str(tree), "status", "--porcelain")
    assert ran.exists(), "the trap must work, or this test shows nothing"
    ran.unlink()
    async with codex.connect(scene.stack.state_dir / "codex.sock", 10) as client:
        thread = (await client.call("thread/start", {"cwd": str(tree)}))["thread"]["id"]
        say = [{"type": "text", "text": "[[script:say-posted]]"}]
        turn = (await client.call("turn/start", {"threadId": thread, "input": say}))["turn"]["id"]
        async with asyncio.timeout(20):
            async for message in client.notifications():
                if message["method"] == "turn/completed" and message["params"]["turn"]["id"] == turn:
                    break
        assert message["params"]["turn"]["status"] == "completed"
    assert not ran.exists()


async def test_a_model_that_never_answers_is_given_up_after_one_retry() -> None:
    with scratch_dir() as directory:
        async with running_scene(directory, CCWEB_SILENCE_TIMEOUT="2") as scene:
            await play(scene, mute=[{"fault": "never_headers"}])
            comment = await scene.comment(f"@{BOT} [[script:mute]]")
            await until_asked(scene, "mute", 0)
            assert await finished(scene, comment) == "failed"
            await assert_one_failure(scene, comment, "app_server_timeout")
            assert len(await turns_asked(scene, "mute")) == 2
