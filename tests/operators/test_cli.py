"""The operators' commands as a person or a script runs them: the real program, the real Temporal."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHandle
from typer.testing import CliRunner

import cli
import embedded
from domain.states import TaskState
from tests.e2e.temporal_server import free_port
from tests.operators.harness import Apis
from tests.workflows.broken_task import BrokenTask
from tests.workflows.fakes import found
from tests.workflows.test_stops import in_blocked_workspace, in_running, in_waiting_user
from tests.workflows.world import World, eventually

S = TaskState


class Ccweb:
    """The program, against one server and one state folder; in a thread, since starting Python takes a second."""

    def __init__(self, address: str, state_dir: Path) -> None:
        self.environment = {"TEMPORAL_ADDRESS": address, "CCWEB_STATE_DIR": str(state_dir), "LOGNAME": "olga"}

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        runner = CliRunner(env=self.environment)
        result = await asyncio.to_thread(runner.invoke, cli.app, arguments)
        return result.exit_code, result.stdout, result.stderr

    async def json(self, *arguments: str, code: int = 0) -> Any:
        returned, out, err = await self.run(*arguments, "--json")
        assert returned == code, err
        return json.loads(out)


async def test_the_program_ends_cleanly_after_it_asked_temporal(address: str, state_dir: Path) -> None:
    environment = {**embedded.python_env(), "TEMPORAL_ADDRESS": address, "CCWEB_STATE_DIR": str(state_dir)}
    for _ in range(3):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "cli.py", "overview", "--json", cwd=embedded.ROOT, env=environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(), 40)
        assert (process.returncode, err) == (0, b"")
        assert json.loads(out)["control"]["globalPaused"] is False


async def test_a_task_is_listed_shown_and_aborted(world: World, address: str, state_dir: Path) -> None:
    ccweb = Ccweb(address, state_dir)
    task = await in_running(world)
    repo = f"octo/repo{world.repo}"

    async def listed() -> bool:
        return len((await ccweb.json("tasks", "--repo", repo, "--state", "running"))["tasks"]) == 1

    await eventually(listed)
    code, out, _ = await ccweb.run("tasks", "--repo", repo)
    assert code == 0 and task.id in out and "running" in out
    told = await ccweb.json("abort", task.id, "--reason", "wrong branch", "--request-id", "r1")
    assert (told["action"], told["taken"], told["fromState"]) == ("abort", True, "running")
    assert (await world.end(task)).state is S.ABORTED
    assert await ccweb.json("abort", task.id, "-r", "wrong branch", "--request-id", "r1") == told
    code, _, err = await ccweb.run("cancel", task.id, "-r", "again")
    assert code == 1 and err.startswith("ccweb: illegal_state:")
    shown = await ccweb.json("task", task.id)
    assert shown["state"] == "aborted"
    assert {move["actor"] for move in shown["moves"]} == {"system", "admin:olga"}
    code, out, _ = await ccweb.run("task", task.id)
    assert code == 0 and "wrong branch" in out and "aborting" in out
    code, out, _ = await ccweb.run("audit", "show", "--task", task.id, "--actor", "admin:olga")
    assert code == 0 and "task.abort" in out and "aborting > aborted" in out


async def test_waiting_and_blocked_tasks_are_steered(world: World, address: str, state_dir: Path) -> None:
    ccweb = Ccweb(address, state_dir)
    waiting = await in_waiting_user(world)
    assert (await ccweb.json("cancel", waiting.id, "-r", "no answer"))["taken"]
    assert (await world.end(waiting)).state is S.CANCELLED
    blocked = await in_blocked_workspace(world)
    repo = f"octo/repo{world.repo}"

    async def unblocked() -> bool:
        code, _, _ = await ccweb.run("unblock", repo, "-r", "looked at it")
        return code == 0

    await eventually(unblocked)
    assert (await world.end(blocked)).state is S.SUCCEEDED


async def test_switches_are_seen_over_http_too(
    api: Apis, control: WorkflowHandle[Any, Any], address: str, state_dir: Path
) -> None:
    ccweb = Ccweb(address, state_dir)
    assert (await ccweb.json("pause", "-r", "maintenance"))["taken"]
    assert (await ccweb.json("disable", "octo/x", "-r", "moving"))["repoKey"] == "default:octo/x"
    shown = (await api.viewer.get("/overview")).json()["control"]
    assert (shown["globalPaused"], shown["updatedBy"]) == (True, "admin:olga")
    assert shown["disabled"] == {"default:octo/x": "moving"}
    code, out, _ = await ccweb.run("overview")
    assert code == 0 and "maintenance" in out and "disabled: default:octo/x: moving" in out
    assert "! No worker polls" in out
    assert (await ccweb.json("overview"))["control"] == (await api.viewer.get("/overview")).json()["control"]
    for command in (["resume"], ["enable", "octo/x"]):
        assert (await ccweb.json(*command, "-r", "done"))["taken"]
    code, _, err = await ccweb.run("enable", "octo/x", "-r", "done")
    assert code == 1 and "illegal_state" in err


async def test_exit_codes_tell_wrong_usage_unknown_things_and_an_absent_temporal(
    address: str, state_dir: Path
) -> None:
    ccweb = Ccweb(address, state_dir)
    assert (await ccweb.run("task", "gitea-task-0123456789abcdef"))[0] == 3
    assert (await ccweb.run("cancel", "gitea-task-0123456789abcdef"))[0] == 2
    assert (await ccweb.run("cancel", "gitea-task-0123456789abcdef", "-r", " "))[0] == 2
    assert (await ccweb.run("tasks", "--state", "dancing"))[0] == 2
    assert (await ccweb.run("tasks", "--cursor", "x"))[0] == 2
    assert (await ccweb.run("operator", "add", "olga", "--role", "king"))[0] == 2
    assert (await ccweb.run("operator", "remove", "bob"))[0] == 3
    away = Ccweb(f"127.0.0.1:{free_port()}", state_dir)
    for command in (["tasks"], ["overview"], ["pause", "-r", "x"], ["audit", "verify"]):
        code, out, err = await away.run(*command)
        assert (code, out) == (4, "")
        assert err.startswith("ccweb: temporal_unavailable:") and err.count("\n") == 1


async def test_the_archive_is_exported_verified_and_searched_without_temporal(
    world: World, address: str, state_dir: Path
) -> None:
    ccweb = Ccweb(address, state_dir)
    world.fakes.plan("verify_reply", found("missing"), found("missing"))
    task = await world.deliver(world.event())
    await world.end(task)
    repo = f"octo/repo{world.repo}"

    async def exported() -> bool:
        await ccweb.json("audit", "export")
        ends = await ccweb.json("audit", "show", "--archive", "--task", task.id, "--action", "task.end")
        return len(ends) == 1

    await eventually(exported)
    away = Ccweb(f"127.0.0.1:{free_port()}", state_dir)
    told = await away.json("audit", "show", "--archive", "--repo", repo)
    assert {"webhook.accept", "task.start", "turn.run", "reply.fallback"} <= {event["action"] for event in told}
    sound = await away.json("audit", "verify", "--offline")
    assert sound["ok"] and sound["seq"] >= len(told)
    head = f"{sound['seq']}:{sound['head']}"
    assert (await ccweb.json("audit", "verify", "--head", head))["ok"]
    [path] = (state_dir / "audit").glob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert (await away.json("audit", "verify", "--offline"))["ok"]
    assert not (await away.json("audit", "verify", "--offline", "--head", head, code=1))["ok"]
    path.write_bytes(b"".join([*lines[:3], lines[3].replace(b'"system"', b'"nobody"', 1), *lines[4:]]))
    code, out, _ = await away.run("audit", "verify", "--offline")
    assert code == 1 and out.startswith("BROKEN") and ":4: was changed" in out


async def test_a_history_replays_on_this_code(world: World, address: str, state_dir: Path) -> None:
    ccweb = Ccweb(address, state_dir)
    task = await world.deliver(world.event())
    await world.end(task)
    assert await ccweb.json("replay", task.id) == {"workflowId": task.id, "ok": True, "fault": None}
    assert (await ccweb.json("replay", world.session(world.event()).id))["ok"]
    assert (await ccweb.run("replay", "gitea-task-0123456789abcdef"))[0] == 3


async def test_a_history_that_this_code_would_break_is_told(
    world: World, address: str, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await world.deliver(world.event())
    await world.end(task)
    monkeypatch.setattr("replaying.WORKFLOWS", (BrokenTask,))
    broken = await Ccweb(address, state_dir).json("replay", task.id, code=1)
    assert not broken["ok"] and "NondeterminismError" in broken["fault"]
