"""The app-server client against a server that misbehaves."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, unix_serve

from clients import codex
from clients.codex import CodexClient, RpcError
from domain.errors import CodexError, ErrorCode

Play = Callable[[ServerConnection, dict[str, Any]], Awaitable[None]]


@contextlib.asynccontextmanager
async def served(directory: Path, play: Play, timeout: float = 5) -> AsyncIterator[CodexClient]:
    """A client of a server that shakes hands and then plays `play` at each request."""

    async def handle(socket: ServerConnection) -> None:
        async for frame in socket:
            message = json.loads(frame)
            if message.get("method") == "initialize":
                await socket.send(json.dumps({"id": message["id"], "result": {}}))
            elif message.get("method") != "initialized":
                await play(socket, message)

    path = directory / "s"
    async with unix_serve(handle, str(path)), codex.connect(path, timeout) as client:
        yield client


async def send(socket: ServerConnection, message: Any) -> None:
    await socket.send(json.dumps(message))


@pytest.mark.parametrize(
    "garbage",
    ["not json", "[1]", '{"id": []}', '{"id": 1, "method": []}', '{"id": 2, "error": "no"}', "{}", b"\xff"],
)
async def test_a_garbage_line_is_survived(state_dir: Path, garbage: str | bytes) -> None:
    async def play(socket: ServerConnection, message: dict[str, Any]) -> None:
        if message.get("method") == "ask":
            await socket.send(garbage)
            await send(socket, {"id": message["id"], "result": {"fine": True}})

    async with served(state_dir, play) as client:
        assert await client.call("ask", {}) == {"fine": True}
        assert await client.call("ask", {}) == {"fine": True}


async def test_an_unanswered_call_times_out_and_its_late_answer_goes_nowhere(state_dir: Path) -> None:
    late: list[int] = []

    async def play(socket: ServerConnection, message: dict[str, Any]) -> None:
        if message["method"] == "silent":
            late.append(message["id"])
        else:
            await send(socket, {"id": late[0], "result": {"late": True}})
            await send(socket, {"id": message["id"], "result": {"late": False}})

    async with served(state_dir, play) as client:
        with pytest.raises(CodexError) as raised:
            await client.call("silent", {}, timeout=0.05)
        assert raised.value.code == ErrorCode.APP_SERVER_TIMEOUT
        assert await client.call("other", {}) == {"late": False}


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("item/commandExecution/requestApproval", {"result": {"decision": "decline"}}),
        ("item/fileChange/requestApproval", {"result": {"decision": "decline"}}),
        ("mcpServer/elicitation/request", {"result": {"action": "decline", "content": None}}),
        ("item/tool/requestUserInput", {"result": {"answers": {}}}),
        ("something/new", {"error": {"code": -32601, "message": "nobody is here to answer"}}),
    ],
)
async def test_a_server_request_is_declined(state_dir: Path, method: str, answer: dict[str, Any]) -> None:
    asked: list[int] = []

    async def play(socket: ServerConnection, message: dict[str, Any]) -> None:
        if message.get("method") == "ask":
            asked.append(message["id"])
            await send(socket, {"id": "theirs", "method": method, "params": {}})
        else:
            await send(socket, {"id": asked[0], "result": {"got": message}})

    async with served(state_dir, play) as client:
        assert await client.call("ask", {}) == {"got": {"id": "theirs", **answer}}


async def test_overload_and_refusal_are_told_apart(state_dir: Path) -> None:
    async def play(socket: ServerConnection, message: dict[str, Any]) -> None:
        code = codex.OVERLOADED if message["method"] == "busy" else -32600
        await send(socket, {"id": message["id"], "error": {"code": code, "message": "no"}})

    async with served(state_dir, play) as client:
        with pytest.raises(CodexError) as overloaded:
            await client.call("busy", {})
        assert overloaded.value.code == ErrorCode.APP_SERVER_OVERLOADED and overloaded.value.retryable
        with pytest.raises(RpcError, match="bad: no"):
            await client.call("bad", {})


async def test_a_closed_connection_fails_pending_and_later_calls_at_once(state_dir: Path) -> None:
    async def play(socket: ServerConnection, message: dict[str, Any]) -> None:
        if message["method"] == "last":
            await send(socket, {"method": "told", "params": {}})
            await socket.close()

    async with served(state_dir, play, timeout=60) as client:
        calls = [asyncio.create_task(client.call(method, {})) for method in ("one", "two", "last")]
        done, _ = await asyncio.wait(calls, timeout=5)
        assert len(done) == len(calls)
        errors = [call.exception() for call in calls]
        assert all(isinstance(one, CodexError) and one.code == ErrorCode.APP_SERVER_TIMEOUT for one in errors)
        events = client.notifications()
        assert (await anext(events))["method"] == "told"
        with pytest.raises(CodexError):
            await anext(events)
        with pytest.raises(CodexError):
            await asyncio.wait_for(client.call("later", {}), 5)


async def test_nobody_on_the_socket(state_dir: Path) -> None:
    with pytest.raises(CodexError) as raised:
        async with codex.connect(state_dir / "s", 1):
            pass
    assert raised.value.code == ErrorCode.APP_SERVER_TIMEOUT
