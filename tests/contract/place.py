"""A simulated Gitea with one repository, and bridges on issues of it, driven by the official MCP client."""

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent

from clients import bridge_config, journal, lease

ROOT = Path(__file__).resolve().parents[2]
MCP = ROOT / "simulators" / "gitea_mcp" / "main.py"
BRIDGE = ROOT / "bridge" / "main.py"
BOT = "ccweb-bot"
TOKEN = "bot-token-0123456789abcdef"
ALICE = "alice-token-0123456789abcdef"
TASK = "gitea-task-0123456789abcdef"
LEASE = f"{TASK}/1"
REAL_MCP = os.environ.get("CONTRACT_GITEA_MCP", "")
VERSIONS = ("real",) if REAL_MCP else ("2025-07", "2026-03", "methods")
Doc = dict[str, Any]
HTTP = httpx.Client(timeout=30)
atexit.register(HTTP.close)


@dataclass(frozen=True)
class Gitea:
    """The simulated Gitea."""

    url: str

    def ask(self, method: str, path: str, body: Doc | None = None, token: str = ALICE) -> Any:
        headers = {"Authorization": f"token {token}"}
        answer = HTTP.request(method, f"{self.url}{path}", json=body, headers=headers)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def post(self, path: str, body: Doc) -> None:
        HTTP.post(f"{self.url}{path}", json=body).raise_for_status()

    def new_issue(self) -> int:
        return int(self.ask("POST", "/api/v1/repos/alice/demo/issues", {"title": "t", "body": "b"})["number"])

    def comments(self, number: int) -> list[Doc]:
        return list(self.ask("GET", f"/api/v1/repos/alice/demo/issues/{number}/comments"))

    def comment(self, number: int, body: str, token: str) -> int:
        path = f"/api/v1/repos/alice/demo/issues/{number}/comments"
        return int(self.ask("POST", path, {"body": body}, token)["id"])

    def fault(self, **fault: Any) -> None:
        self.ask("POST", "/_sim/faults", fault)


@contextlib.contextmanager
def running_gitea(directory: Path, seed: Doc | None = None) -> Iterator[Gitea]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "simulators.gitea", "--port", str(port), "--root", str(directory)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: _open(port))
            gitea = Gitea(f"http://127.0.0.1:{port}")
            gitea.ask("POST", "/_sim/seed", seed or _SEED)
            yield gitea
        finally:
            process.kill()  # a request that hangs on purpose would hold up a gentle end


_SEED: Doc = {
    "users": [
        {"login": "alice", "token": ALICE, "scopes": ["all"]},
        {"login": BOT, "token": TOKEN, "scopes": ["all"]},
    ],
    "repositories": [
        {
            "owner": "alice",
            "name": "demo",
            "files": {"README.md": "# demo\n"},
            "collaborators": {BOT: "write"},
            "issues": [],
            "hooks": [],
        }
    ],
}


def _open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def until(condition: Any, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def mcp_command(version: str, fault: str = "") -> str:
    """The simulator; or the real one, which has no faults to order."""
    if version == "real" and not fault:
        return REAL_MCP
    env = f"SIM_GITEA_MCP_VERSION={version.replace('real', 'methods')} SIM_GITEA_MCP_FAULT={fault}"
    return f"env {env} {sys.executable} -I {MCP}"


@dataclass(frozen=True)
class Place:
    """One issue with its bridge's configuration."""

    gitea: Gitea
    directory: Path
    config: bridge_config.BridgeConfig

    def parameters(self, cwd: Path | None = None) -> StdioServerParameters:
        path = self.directory / "bridge.json"
        bridge_config.save(path, self.config)
        assert TOKEN not in path.read_text()
        environment = {"GITEA_ACCESS_TOKEN": TOKEN, "PATH": os.environ["PATH"], "SECRET_OF_OTHERS": "x"}
        return StdioServerParameters(
            command=sys.executable, args=["-I", str(BRIDGE), str(path)], env=environment, cwd=cwd
        )

    def with_config(self, **changes: Any) -> "Place":
        return replace(self, config=replace(self.config, **changes))

    def grant(self, lease_id: str = LEASE, task: str = TASK) -> None:
        lease.grant(Path(self.config.lease_dir), self.config.repository_id, lease.Lease(lease_id, task))

    def comments(self) -> list[Doc]:
        return self.gitea.comments(self.config.number)

    def journal(self, task: str = TASK) -> list[journal.JournalLine]:
        return journal.read(Path(self.config.journal_dir), task)


def make_place(gitea: Gitea, directory: Path, version: str, fault: str = "") -> Place:
    """A place whose task holds the lease."""
    config = bridge_config.BridgeConfig(
        gitea_url=gitea.url,
        gitea_mcp_command=mcp_command(version, fault),
        bot_name=BOT,
        owner="alice",
        repo="demo",
        repository_id=1,
        kind="issue",
        number=gitea.new_issue(),
        default_branch="main",
        worktree=str(directory / "work"),
        git_dir=str(directory / "work" / ".git"),
        common_dir=str(directory / "work" / ".git"),
        branch="ccweb/issue-x",
        lease_dir=str(directory / "leases"),
        journal_dir=str(directory / "journals"),
        home=str(directory / "home"),
        max_reply_chars=1000,
        max_file_bytes=100_000,
        max_files=100,
        start_timeout=5,
        call_timeout=20,
    )
    place = Place(gitea, directory, config)
    place.grant()
    return place


@contextlib.asynccontextmanager
async def session(parameters: StdioServerParameters) -> AsyncIterator[ClientSession]:
    async with stdio_client(parameters) as (reading, writing), ClientSession(reading, writing) as client:
        await client.initialize()
        yield client


# What the tools of older versions are called in newer ones.
NEWER: dict[str, tuple[str, dict[str, str]]] = {
    "get_my_user_info": ("get_me", {}),
    "get_issue_by_index": ("issue_read", {"method": "get"}),
    "get_issue_comments_by_index": ("issue_read", {"method": "get_comments"}),
    "create_issue_comment": ("issue_write", {"method": "add_comment"}),
    "edit_issue_comment": ("issue_write", {"method": "edit_comment"}),
    "create_pull_request": ("pull_request_write", {"method": "create"}),
    "list_repo_issues": ("list_issues", {}),
    "list_repo_pull_requests": ("list_pull_requests", {}),
    "get_file_content": ("get_file_contents", {}),
}


async def ask(client: ClientSession, tool: str, arguments: dict[str, Any]) -> Any:
    """Calls a tool by its older name, whatever this version calls it."""
    known = {one.name for one in (await client.list_tools()).tools}
    name, more = NEWER.get(tool, (tool, {})) if tool not in known else (tool, {})
    return await client.call_tool(name, {**more, **arguments})


def meta(**changes: str) -> Any:
    """What Codex sends with each call of a turn."""
    keys = {
        "turn_id": "turn-1",
        "thread_id": "thread-1",
        "ccweb_task_id": TASK,
        "ccweb_lease_id": LEASE,
        "ccweb_round": "1",
        "ccweb_source_key": "1:comment:7",
    }
    return {"x-codex-turn-metadata": {**keys, **changes}}


def text_of(result: Any) -> str:
    assert isinstance(result, CallToolResult)
    (item,) = result.content
    assert isinstance(item, TextContent)
    return item.text


async def own(client: ClientSession, tool: str, given: Any = None, **arguments: str) -> Doc:
    """Calls an own tool; its outcome."""
    result = await client.call_tool(tool, arguments, meta=meta() if given is None else given)
    outcome: Doc = json.loads(text_of(result))
    assert {"accepted", "commentId", "errorCode", "message"} <= outcome.keys()
    return outcome


def as_text(lines: list[journal.JournalLine]) -> str:
    return json.dumps([asdict(line) for line in lines])
