"""The Codex thread of a session: what it is configured with, how it is found, opened and put to rest."""

import logging
import sys
from pathlib import Path
from typing import Any

from activities.layout import Layout
from activities.workspace import base_instructions
from clients import bridge_config
from clients.bridge_config import BridgeConfig
from clients.codex import CodexClient, RpcError
from domain import prompts, turn_errors
from domain.errors import CodexError, ErrorCode, GiteaError
from domain.events import TurnRequest
from operations import OPERATORS_ONLY
from settings import Settings

log = logging.getLogger("ccweb.codex")
BRIDGE = Path(__file__).resolve().parent.parent / "bridge" / "main.py"
SERVER = "gitea"
PROFILE = "ccweb"
_ANSWER_FIRST = 0.8
"""The bridge's own limits as a share of Codex's: so the model hears the bridge's words, not a time-out."""
_PAGE = 50


def write_bridge_config(settings: Settings, request: TurnRequest) -> Path:
    """Writes what this session's bridge must know and returns the file; no secret is in it."""
    layout = Layout.of_session(settings, request.session_key)
    path = settings.bridge_dir / f"{request.repository.id}-{request.kind}-{request.number}.json"
    home = settings.state_dir / "gitea-mcp"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    config = BridgeConfig(
        gitea_url=settings.gitea_url,
        gitea_mcp_command=settings.gitea_mcp_command,
        bot_name=settings.bot_name,
        owner=request.repository.owner,
        repo=request.repository.name,
        repository_id=request.repository.id,
        kind=request.kind,
        number=request.number,
        default_branch=request.repository.default_branch,
        worktree=str(layout.worktree),
        git_dir=str(layout.git_dir),
        common_dir=str(layout.clone),
        branch=request.workspace.branch,
        lease_dir=str(settings.lease_dir),
        journal_dir=str(settings.journal_dir),
        home=str(home),
        max_reply_chars=settings.max_reply_chars,
        max_file_bytes=settings.max_file_bytes,
        max_files=settings.max_files,
        start_timeout=settings.mcp_startup_timeout * _ANSWER_FIRST,
        call_timeout=settings.tool_timeout * _ANSWER_FIRST,
    )
    bridge_config.save(path, config)
    return path


def thread_params(settings: Settings, request: TurnRequest) -> dict[str, Any]:
    """What `thread/start` and each `thread/resume` are given; holds the bot's token, never log it."""
    layout = Layout.of_session(settings, request.session_key)
    bridge = {
        "command": sys.executable,
        "args": ["-I", str(BRIDGE), str(write_bridge_config(settings, request))],
        "env": {"GITEA_ACCESS_TOKEN": settings.gitea_token.get_secret_value()},
        "required": True,
        "default_tools_approval_mode": "approve",
        "startup_timeout_sec": settings.mcp_startup_timeout,
        "tool_timeout_sec": settings.tool_timeout,
    }
    config = {
        "mcp_servers": {SERVER: bridge},
        "permissions": {PROFILE: _profile(settings, layout)},
        "shell_environment_policy": {
            "inherit": "core",
            "set": {"PATH": settings.command_path, "TMPDIR": str(layout.tmp), "HOME": str(layout.tmp)},
        },
    }
    return {
        "cwd": str(layout.worktree),
        "approvalPolicy": "never",
        "permissions": PROFILE,
        "developerInstructions": prompts.developer_instructions(base_instructions(layout, request.workspace.base)),
        "config": config,
    }


def _profile(settings: Settings, layout: Layout) -> dict[str, Any]:
    """Writes only in the worktree and the session's own temporary folder; our secrets cannot even be read."""
    denied = (
        settings.secret_dir,
        settings.codex_home,
        settings.lease_dir,
        settings.journal_dir,
        settings.bridge_dir,
        settings.state_dir / "gitea-mcp",
        settings.state_dir / "logs",
        *(settings.state_dir / name for name in OPERATORS_ONLY),
        *settings.secret_files,
    )
    return {
        "extends": ":workspace",
        "filesystem": {
            "/tmp": "read",  # noqa: S108
            ":tmpdir": "read",
            ":slash_tmp": "read",
            str(layout.tmp): "write",
            **{str(path): "deny" for path in denied},
        },
    }


async def open_thread(client: CodexClient, settings: Settings, request: TurnRequest) -> tuple[str, bool]:
    """The session's thread, loaded in the app-server with this turn's configuration, and whether it is new.

    `request.thread_id` is the one to take up, as `find` finds it.

    Raises:
        CodexError: the bridge or gitea-mcp did not start (mcp_*), the configuration was refused
            (codex_config_invalid), another process has the thread (app_server_timeout, may be retried).
    """
    params = thread_params(settings, request)
    known = request.thread_id
    if known and await _resume(client, known, params):
        return known, False
    try:
        started = await client.call("thread/start", params, settings.mcp_startup_timeout + settings.rpc_timeout)
    except RpcError as error:
        raise _refused(error) from error
    thread_id = str(started["thread"]["id"])
    # The name also makes the thread durable before its first turn, and lets a later session find it.
    await client.call("thread/name/set", {"threadId": thread_id, "name": thread_name(request)})
    return thread_id, True


def thread_name(request: TurnRequest) -> str:
    return request.thread_name or request.session_key


async def find(client: CodexClient, name: str) -> str | None:
    """The id of the thread with this name, newest first."""
    cursor = None
    while True:
        page = await client.call("thread/list", {"limit": _PAGE, "cursor": cursor, "modelProviders": []})
        for thread in page["data"]:
            if thread.get("name") == name:
                return str(thread["id"])
        cursor = page.get("nextCursor")
        if not cursor:
            return None


async def _resume(client: CodexClient, thread_id: str, params: dict[str, Any]) -> bool:
    """Loads a thread with `params`; False when it is gone. A loaded one ignores them, so unless it is at work
    it is unloaded first: archiving is the only way that is at once.
    """
    resume = {"threadId": thread_id, "excludeTurns": True, **params}
    try:
        if thread_id in await loaded(client) and not await is_active(client, thread_id):
            await client.call("thread/archive", {"threadId": thread_id})
            await client.call("thread/unarchive", {"threadId": thread_id})
        await client.call("thread/resume", resume)
    except RpcError as error:
        if turn_errors.thread_is_gone(error.message):
            return False
        if "archived" in error.message:
            await client.call("thread/unarchive", {"threadId": thread_id})
            await client.call("thread/resume", resume)
            return True
        raise _refused(error) from error
    return True


def _refused(error: RpcError) -> CodexError:
    if "MCP" in error.message:
        return CodexError(turn_errors.mcp_error(error.message), error.message[:300])
    if "active writer" in error.message:
        return CodexError(ErrorCode.APP_SERVER_TIMEOUT, "another process has the thread")
    return CodexError(ErrorCode.CODEX_CONFIG_INVALID, str(error)[:300])


async def loaded(client: CodexClient) -> list[str]:
    return [str(thread) for thread in (await client.call("thread/loaded/list", {}))["data"]]


async def is_active(client: CodexClient, thread_id: str) -> bool:
    thread = (await client.call("thread/read", {"threadId": thread_id}))["thread"]
    return str(thread["status"]["type"]) == "active"


async def preflight(client: CodexClient, thread_id: str, request: TurnRequest) -> None:
    """Asks gitea-mcp for this Issue or PR through the bridge: a bad token or address shows here, not in the turn.

    Raises:
        CodexError, GiteaError: with the code of what is wrong.
    """
    arguments = {"owner": request.repository.owner, "repo": request.repository.name, "index": request.number}
    call = {"threadId": thread_id, "server": SERVER, "tool": "get_issue_by_index", "arguments": arguments}
    try:
        answer = await client.call("mcpServer/tool/call", call)
    except RpcError as error:
        raise _preflight_error(error.message) from error
    if answer.get("isError"):
        raise _preflight_error(str(answer.get("content"))[:300])


def _preflight_error(text: str) -> CodexError | GiteaError:
    if "Transport closed" in text:
        return CodexError(ErrorCode.INTERRUPTED_BY_RESTART, "the bridge was killed")
    if "mcp_" in text:
        return CodexError(turn_errors.mcp_error(text), text[:300])
    if "user does not exist" in text or "token" in text:
        return GiteaError(ErrorCode.GITEA_AUTH_FAILED, text[:300])
    return GiteaError(ErrorCode.GITEA_UNAVAILABLE, text[:300])
