"""The bridge as Codex sees it: the official MCP client on stdio, all versions of gitea-mcp, a Gitea behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from bridge import pulls
from bridge.calls import Call, RefusedError, Turn
from bridge.upstream import Upstream
from domain import marker
from tests.conftest import scratch_dir
from tests.contract.place import (
    ALICE,
    LEASE,
    ROOT,
    TASK,
    TOKEN,
    VERSIONS,
    Gitea,
    Place,
    as_text,
    ask,
    make_place,
    mcp_command,
    meta,
    own,
    running_gitea,
    session,
    text_of,
    until,
)


@pytest.fixture(scope="module")
def gitea() -> Iterator[Gitea]:
    with scratch_dir() as directory, running_gitea(directory) as running:
        yield running


@pytest.fixture(params=VERSIONS)
def place(gitea: Gitea, state_dir: Path, request: pytest.FixtureRequest) -> Place:
    return make_place(gitea, state_dir, request.param)


@pytest.fixture
def new_place(gitea: Gitea, state_dir: Path) -> Place:
    return make_place(gitea, state_dir, "2026-03")


def git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def clone(place: Place) -> Path:
    url = place.gitea.url.replace("http://", f"http://alice:{ALICE}@") + "/alice/demo.git"
    git(place.directory, "clone", "-q", url, "work")
    return place.directory / "work"


async def test_the_tool_list_holds_own_tools_and_pinned_reads_only(place: Place) -> None:
    async with session(place.parameters()) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"reply", "ask_user", "publish", "open_pull_request"} <= tools.keys()
    assert not tools.keys() & {"create_issue_comment", "merge_pull_request", "delete_branch", "get_my_user_info"}
    assert not tools.keys() & {"issue_write", "pull_request_write", "get_me"}
    reading = (tools.get("get_issue_by_index") or tools["issue_read"]).input_schema
    assert set(reading["properties"]) - {"method"} == set(reading["required"]) - {"method"} == {"index"}


async def test_reads_are_about_this_repository(place: Place) -> None:
    async with session(place.parameters()) as client:
        number: Any = str(place.config.number)
        issue = text_of(await client.call_tool("get_issue_by_index", {"index": number}))
        assert f'"number":{place.config.number},' in issue.replace(" ", "")
        named = await client.call_tool("get_issue_by_index", {"index": 1, "owner": "Alice", "repo": "demo"})
        assert '"number"' in text_of(named)
        for other in ({"owner": "bob"}, {"repo": "secret"}):
            refused = await client.call_tool("get_issue_by_index", {"index": 1, **other})
            assert "wrong_repository" in text_of(refused)
        climbing = {"ref": "main", "filePath": "../../secret/contents/x"}
        assert "wrong_repository" in text_of(await ask(client, "get_file_content", climbing))
        missing = await client.call_tool("get_issue_by_index", {"index": 99999})
        assert "couldn't be found" in text_of(missing)


async def test_tools_that_are_not_listed_are_unknown(new_place: Place) -> None:
    async with session(new_place.parameters()) as client:
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("merge_pull_request", {"index": 1})


async def test_a_reply_is_stamped_and_journaled(place: Place) -> None:
    async with session(place.parameters()) as client:
        outcome = await own(
            client, "reply", body="Done.\n<!-- ccweb kind=final taskId=x turnId=y round=9 source=z -->"
        )
    (comment,) = place.comments()
    assert outcome["accepted"] and outcome["commentId"] == comment["id"] and comment["user"]["login"] == "ccweb-bot"
    assert marker.parse(comment["body"]) == marker.ReplyMarker("final", TASK, "turn-1", 1, "1:comment:7")
    assert comment["body"].count("ccweb") == 1
    lines = place.journal()
    assert [(line.phase, line.tool, line.round) for line in lines] == [("intent", "reply", 1), ("result", "reply", 1)]
    assert lines[1].fields["commentId"] == comment["id"]


async def test_one_answer_or_question_per_round(place: Place) -> None:
    async with session(place.parameters()) as client:
        first = await own(client, "ask_user", question="Which branch?")
        again = await own(client, "ask_user", question="Which branch?")
        other = await own(client, "ask_user", meta(turn_id="turn-2"), question="Which one?")
        answer = await own(client, "reply", body="Done.")
        later = await own(client, "reply", meta(ccweb_round="2"), body="Done.")
    assert first["accepted"] and again["accepted"] and again["commentId"] == first["commentId"]
    for refused in (other, answer):
        assert refused["errorCode"] == "reply_already_posted" and refused["commentId"] == first["commentId"]
    assert later["accepted"] and len(place.comments()) == 2


async def test_a_marker_of_somebody_else_counts_for_nothing(place: Place) -> None:
    forged = marker.stamp("Not me", marker.ReplyMarker("final", TASK, "turn-1", 1, "1:comment:7"))
    place.gitea.comment(place.config.number, forged, ALICE)
    async with session(place.parameters()) as client:
        assert (await own(client, "reply", body="Really me"))["accepted"]


@pytest.mark.parametrize("tool", ["reply", "ask_user", "publish", "open_pull_request"])
async def test_effects_need_the_current_lease(new_place: Place, tool: str) -> None:
    given = {"body": "b", "question": "b", "message": "b", "title": "b"}
    async with session(new_place.parameters()) as client:
        new_place.grant("another-lease")
        assert (await own(client, tool, **given))["errorCode"] == "lease_expired"
        new_place.grant(LEASE, "gitea-task-fedcba9876543210")
        assert (await own(client, tool, **given))["errorCode"] == "not_current_task"
        Path(new_place.config.lease_dir, "1.json").unlink()
        assert (await own(client, tool, **given))["errorCode"] == "lease_expired"
    assert new_place.comments() == []


@pytest.mark.parametrize("key", ["ccweb_task_id", "ccweb_lease_id", "ccweb_round", "ccweb_source_key", "turn_id"])
async def test_effects_need_every_key_of_the_turn(new_place: Place, key: str) -> None:
    async with session(new_place.parameters()) as client:
        for bad in ("", "a b", "../../x -->"):
            assert (await own(client, "reply", meta(**{key: bad}), body="b"))["errorCode"] == "not_current_task"
        assert (await own(client, "reply", {"other": 1}, body="b"))["errorCode"] == "not_current_task"
        assert "Result" in text_of(await client.call_tool("get_issue_by_index", {"index": 1}))
    assert new_place.comments() == []


async def test_empty_and_too_long_answers_are_refused(new_place: Place) -> None:
    async with session(new_place.parameters()) as client:
        assert (await own(client, "reply", body=" \n"))["errorCode"] == "reply_empty"
        assert (await own(client, "reply", body="<!-- ccweb x"))["errorCode"] == "reply_empty"
        assert (await own(client, "reply", body="x" * 1001))["errorCode"] == "reply_too_long"


async def test_the_token_leaves_by_no_way(place: Place) -> None:
    place.gitea.comment(place.config.number, f"see {TOKEN}", ALICE)
    async with session(place.parameters()) as client:
        await own(client, "reply", body=f"the token is {TOKEN}")
        number = {"index": place.config.number}
        told = text_of(await ask(client, "get_issue_comments_by_index", number))
    assert TOKEN not in told and TOKEN not in place.comments()[1]["body"]
    assert TOKEN not in as_text(place.journal())


async def test_a_dropped_answer_makes_one_comment(place: Place) -> None:
    path = f".*/issues/{place.config.number}/comments"
    place.gitea.fault(method="POST", path=path, mode="drop_after_commit", times=1)
    async with session(place.parameters()) as client:
        outcome = await own(client, "reply", body="Once.")
    (comment,) = place.comments()
    assert outcome["accepted"] and outcome["commentId"] == comment["id"]


async def test_a_failing_gitea_is_told_and_a_later_call_posts_once(new_place: Place) -> None:
    path = f".*/issues/{new_place.config.number}/comments"
    async with session(new_place.parameters()) as client:
        new_place.gitea.fault(method="GET", path=path, mode="status", status=500, times=1)
        assert (await own(client, "reply", body="Once."))["errorCode"] == "gitea_unavailable"
        new_place.gitea.fault(method="POST", path=path, mode="status", status=500, times=1)
        assert (await own(client, "reply", body="Once."))["errorCode"] == "gitea_unavailable"
        assert (await own(client, "reply", body="Once."))["accepted"]
    assert len(new_place.comments()) == 1


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_silent_gitea_mcp_that_posted_is_looked_after(gitea: Gitea, state_dir: Path, version: str) -> None:
    place = make_place(gitea, state_dir, version, "never_answer:create_issue_comment").with_config(call_timeout=5)
    async with session(place.parameters()) as client:
        outcome = await own(client, "reply", body="Once.")
    (comment,) = place.comments()
    assert outcome["accepted"] and outcome["commentId"] == comment["id"]


async def test_an_effect_whose_gitea_mcp_dies_is_not_repeated(gitea: Gitea, state_dir: Path) -> None:
    place = make_place(gitea, state_dir, "2026-03", "die_on_call:create_issue_comment")
    async with session(place.parameters()) as client:
        outcome = await own(client, "reply", body="Once.")
        assert outcome["errorCode"] == "reply_unknown" and not outcome["accepted"]
        assert "Result" in text_of(await client.call_tool("get_issue_by_index", {"index": 1}))
    assert place.comments() == [] and place.journal()[-1].fields["errorCode"] == "reply_unknown"


async def test_a_read_is_repeated_once_when_gitea_mcp_dies_under_it(gitea: Gitea, state_dir: Path) -> None:
    dying = mcp_command("2026-03", "die_on_call:get_issue_by_index")
    place = make_place(gitea, state_dir, "2026-03").with_config(gitea_mcp_command=dying)
    async with session(place.parameters()) as client:
        assert "gitea_unavailable" in text_of(await client.call_tool("get_issue_by_index", {"index": 1}))
    script = state_dir / "dies-once"
    flag = state_dir / "died"
    script.write_text(
        f'#!/bin/sh\n[ -e {flag} ] && exec {mcp_command("2026-03")} "$@"\ntouch {flag}\nexec {dying} "$@"\n'
    )
    script.chmod(0o700)
    async with session(place.with_config(gitea_mcp_command=str(script)).parameters()) as client:
        assert "Result" in text_of(await client.call_tool("get_issue_by_index", {"index": 1}))


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


class Raw:
    """A bridge as a plain process, for what a client does not let one see."""

    def __init__(self, place: Place) -> None:
        parameters = place.parameters()
        self.process = subprocess.Popen(
            [parameters.command, *parameters.args], env=parameters.env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, **message: Any) -> Any:
        self.send(id=1, **message)
        return self.read()

    def read_issue(self) -> Any:
        return self.ask(method="tools/call", params={"name": "get_issue_by_index", "arguments": {"index": 1}})

    @property
    def child(self) -> int:
        (pid,) = children(self.process.pid)
        return pid


@pytest.fixture
def raw(new_place: Place) -> Iterator[Raw]:
    bridge = Raw(new_place)
    with bridge.process:
        assert "result" in bridge.ask(method="initialize", params={"protocolVersion": "2025-06-18"})
        yield bridge
        bridge.process.kill()


def test_gitea_mcp_gets_the_named_variables_only(raw: Raw) -> None:
    environment = Path(f"/proc/{raw.child}/environ").read_text().split("\0")
    names = {pair.partition("=")[0] for pair in environment if pair and not pair.startswith("SIM_")}
    assert names == {"HOME", "PATH", "LANG", "GITEA_HOST", "GITEA_ACCESS_TOKEN"}
    assert TOKEN not in Path(f"/proc/{raw.child}/cmdline").read_text()


def test_gitea_mcp_killed_under_the_bridge_is_started_again(raw: Raw) -> None:
    first = raw.child
    os.kill(first, signal.SIGKILL)
    assert "Result" in json.dumps(raw.read_issue())
    assert raw.child != first


@pytest.mark.parametrize("end", ["sigterm", "end of input", "sigkill"])
def test_nothing_stays_after_the_bridge(raw: Raw, end: str) -> None:
    child = raw.child
    if end == "end of input":
        assert raw.process.stdin is not None
        raw.process.stdin.close()
    else:
        raw.process.send_signal(signal.SIGTERM if end == "sigterm" else signal.SIGKILL)
    assert raw.process.wait(5) == (-9 if end == "sigkill" else 0)
    until(lambda: not alive(child), 5)


def test_rubbish_and_unknown_methods_get_errors(raw: Raw) -> None:
    assert raw.process.stdin is not None
    raw.process.stdin.write("rubbish\n")
    raw.send(method="notifications/initialized")
    raw.send(id=7, method="resources/list")
    assert raw.read()["error"]["code"] == -32700
    assert raw.read()["error"]["code"] == -32601
    assert raw.ask(method="ping")["result"] == {}
    assert raw.ask(method="tools/call", params={"name": 3})["error"]["code"] == -32602


def test_sigterm_in_a_call_begins_no_effect(gitea: Gitea, state_dir: Path) -> None:
    place = make_place(gitea, state_dir, "2026-03").with_config(call_timeout=5)
    path = f".*/issues/{place.config.number}/comments"
    gitea.fault(method="GET", path=path, mode="hang", times=1)
    bridge = Raw(place)
    with bridge.process:
        bridge.ask(method="initialize", params={})
        bridge.send(id=2, method="tools/call", params={"name": "reply", "arguments": {"body": "b"}, "_meta": meta()})
        until(lambda: [line.phase for line in place.journal()] == ["intent"])
        bridge.process.terminate()
        assert bridge.process.wait(10) == 0
    assert place.comments() == []


async def test_a_call_is_answered_before_its_limit_and_posts_nothing_afterwards(new_place: Place) -> None:
    place = new_place.with_config(call_timeout=0.5)
    place.gitea.fault(method="GET", path=f".*/issues/{place.config.number}/comments", mode="hang", times=20)
    async with asyncio.timeout(5), session(place.parameters()) as client:
        outcome = await own(client, "reply", body="b")
        assert outcome["errorCode"] in {"reply_unknown", "gitea_unavailable"}
        until(lambda: [line.phase for line in place.journal()] == ["intent", "result"])
    place.gitea.ask("DELETE", "/_sim/faults")
    assert place.comments() == []


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("/nowhere/gitea-mcp", "mcp_command_missing"),
        ("", "mcp_command_missing"),
        (mcp_command("2026-03", "exit_at_start"), "mcp_start_failed"),
        (mcp_command("2026-03", "hang_handshake"), "mcp_handshake_failed"),
        ("true", "mcp_start_failed"),
    ],
)
async def test_a_gitea_mcp_that_does_not_start_is_told_by_code(new_place: Place, command: str, code: str) -> None:
    parameters = new_place.with_config(gitea_mcp_command=command, start_timeout=1).parameters()
    with pytest.raises(BaseException) as caught:
        async with session(parameters):
            pass
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, MCPError) and str(error).startswith(code)


async def test_modules_in_the_working_directory_change_nothing(new_place: Place, state_dir: Path) -> None:
    evil = state_dir / "evil"
    code = f"open({str(state_dir / 'ran')!r}, 'w').close()\nraise SystemExit(3)\n"
    for name in ("bridge/__init__.py", "mcp/__init__.py", "domain/__init__.py", "json.py", "sitecustomize.py"):
        (evil / name).parent.mkdir(parents=True, exist_ok=True)
        (evil / name).write_text(code)
    async with session(new_place.parameters(evil)) as client:
        assert (await own(client, "reply", body="b"))["accepted"]
    assert not (state_dir / "ran").exists()


async def test_a_publish_that_hangs_ends_in_the_journal_before_its_call_is_given_up(new_place: Place) -> None:
    place = new_place.with_config(call_timeout=3, branch="ccweb/issue-hung")
    (clone(place) / "new.txt").write_text("new")
    place.gitea.fault(method="GET", path=".*/info/refs", mode="hang", times=20)
    async with session(place.parameters()) as client:
        outcome = await own(client, "publish", message="Add a file")
        written = place.journal()
    place.gitea.ask("DELETE", "/_sim/faults")
    assert outcome["errorCode"] == "workspace_unavailable" and "took too long" in outcome["message"]
    assert [line.phase for line in written] == ["intent", "result"]


def test_pull_requests_are_not_read_on_after_the_call_was_given_up(new_place: Place) -> None:
    config = new_place.config
    gone = Call(config, TOKEN, Turn(TASK, LEASE, 1, "1:comment:7", "turn-1"), "open_pull_request", lambda: True)
    upstream = Upstream("/nowhere", config.gitea_url, TOKEN, Path(config.home), config.start_timeout)
    with pytest.raises(RefusedError) as caught:
        pulls.open_one(upstream, gone, "T", "B")
    assert caught.value.code == "tool_timeout"


async def test_publish_then_a_pull_request_each_once(place: Place) -> None:
    number = place.config.number
    place = place.with_config(branch=f"ccweb/issue-{number}")
    work = clone(place)
    (work / "new.txt").write_text(f"{number}\n")
    async with session(place.parameters()) as client:
        early = await own(client, "open_pull_request", title="T", body="B")
        published = await own(client, "publish", message="Add a file")
        again = await own(client, "publish", message="Add a file")
        opened = await own(client, "open_pull_request", title="T", body="B")
        twice = await own(client, "open_pull_request", title="T", body="B")
    assert early["errorCode"] == "publish_refused"
    assert published["accepted"], published
    head = git(work, "ls-remote", "origin", f"refs/heads/{place.config.branch}").split()[0]
    assert published["commit"] == head
    assert again["errorCode"] == "nothing_to_publish"
    assert opened["accepted"] and twice["accepted"] and twice["pullRequest"] == opened["pullRequest"]
    assert place.journal()[3].fields["commit"] == head


def test_the_bridge_starts_without_heavy_imports() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from bridge import server; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True).stdout
    assert not set(loaded.split()) & {"asyncio", "pydantic", "httpx", "mcp", "temporalio"}
