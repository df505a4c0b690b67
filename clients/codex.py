"""A small client of the Codex app-server: JSON-RPC, one message per WebSocket frame on a unix socket.

No policy and no retries. Facts: a call may stay unanswered (every call has a time limit), a server request
that nobody answers blocks the turn for ever (every one is answered), and a closed connection means that the
state is unknown, not that the turn ended.
"""

import asyncio
import contextlib
import itertools
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import WebSocketException

from domain.errors import CodexError, ErrorCode

log = logging.getLogger("ccweb.codex")
Message = dict[str, Any]
OVERLOADED = -32001
_MAX_FRAME = 64 * 1024 * 1024
_DECLINED: dict[str, Message] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "mcpServer/elicitation/request": {"action": "decline", "content": None},
    "item/tool/requestUserInput": {"answers": {}},
}


class RpcError(Exception):
    """The app-server answered a call with an error."""

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(f"{method}: {message}")
        self.code = code
        self.message = message


class CodexClient:
    """One connection. `notifications()` yields what the server sends, in order, until it closes."""

    def __init__(self, socket: ClientConnection, timeout: float) -> None:
        self._socket = socket
        self._timeout = timeout
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Message]] = {}
        self._notifications: asyncio.Queue[Message | None] = asyncio.Queue()
        self._reader = asyncio.create_task(self._read())

    async def call(self, method: str, params: Message, timeout: float | None = None) -> Message:
        """Sends a request and returns its result.

        Raises:
            RpcError: the server refused.
            CodexError: app_server_timeout (no answer within `timeout` seconds, or the connection closed) or
                app_server_overloaded; may be retried when the call is idempotent.
        """
        number = next(self._numbers)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._calls[number] = future
        try:
            await self._send({"id": number, "method": method, "params": params})
            answer = await asyncio.wait_for(future, timeout or self._timeout)
        except TimeoutError:
            raise CodexError(ErrorCode.APP_SERVER_TIMEOUT, f"{method} was not answered") from None
        finally:
            self._calls.pop(number, None)
        return _result(method, answer)

    async def notify(self, method: str) -> None:
        await self._send({"method": method})

    async def notifications(self) -> AsyncIterator[Message]:
        """All notifications since the connection began.

        Raises:
            CodexError: app_server_timeout, the connection closed.
        """
        while (message := await self._notifications.get()) is not None:
            yield message
        raise CodexError(ErrorCode.APP_SERVER_TIMEOUT, "the app-server closed the connection")

    async def close(self) -> None:
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        await self._socket.close()

    async def _send(self, message: Message) -> None:
        try:
            await self._socket.send(json.dumps(message))
        except (WebSocketException, OSError) as error:
            raise CodexError(ErrorCode.APP_SERVER_TIMEOUT, "the app-server closed the connection") from error

    async def _read(self) -> None:
        try:
            async for frame in self._socket:
                await self._dispatch(frame)
        except (WebSocketException, OSError, CodexError):
            pass
        finally:
            self._fail_calls()
            self._notifications.put_nowait(None)

    async def _dispatch(self, frame: str | bytes) -> None:
        try:
            message = json.loads(frame)
        except ValueError:
            message = None
        if not _is_message(message):
            log.warning("the app-server sent a line that is not a message")
        elif "method" not in message:
            call = self._calls.get(message.get("id", 0))
            if call is not None and not call.done():
                call.set_result(message)
        elif "id" in message:
            await self._answer(message)
        else:
            self._notifications.put_nowait(message)

    async def _answer(self, request: Message) -> None:
        log.warning("the app-server asked %s, declined", request["method"])
        if request["method"] in _DECLINED:
            await self._send({"id": request["id"], "result": _DECLINED[request["method"]]})
        else:
            await self._send({"id": request["id"], "error": {"code": -32601, "message": "nobody is here to answer"}})

    def _fail_calls(self) -> None:
        for call in self._calls.values():
            if not call.done():
                call.set_exception(CodexError(ErrorCode.APP_SERVER_TIMEOUT, "the app-server closed the connection"))


def _is_message(value: Any) -> bool:
    """Whether it has the outer shape of JSON-RPC; one odd line must not end the connection."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("method", ""), str)
        and isinstance(value.get("id", 0), int | str)
        and isinstance(value.get("error") or {}, dict)
    )


def _result(method: str, answer: Message) -> Message:
    error = answer.get("error")
    if error is None:
        result: Message = answer.get("result") or {}
        return result
    if error.get("code") == OVERLOADED:
        raise CodexError(ErrorCode.APP_SERVER_OVERLOADED, method)
    raise RpcError(method, int(error.get("code", 0)), str(error.get("message", "")))


@contextlib.asynccontextmanager
async def connect(path: Path, timeout: float) -> AsyncIterator[CodexClient]:
    """Connects and shakes hands; `timeout` seconds bound each call.

    Raises:
        CodexError: app_server_timeout, nobody answers on the socket; may be retried.
    """
    try:
        socket = await asyncio.wait_for(
            unix_connect(str(path), "ws://localhost/", max_size=_MAX_FRAME, ping_interval=None), timeout
        )
    except (OSError, TimeoutError, WebSocketException) as error:
        raise CodexError(ErrorCode.APP_SERVER_TIMEOUT, f"no app-server on {path.name}: {error}") from error
    client = CodexClient(socket, timeout)
    try:
        await client.call(
            "initialize",
            {
                "clientInfo": {"name": "ccweb", "title": "ccweb", "version": "0.1.0"},
                "capabilities": {"experimentalApi": True},
            },
        )
        await client.notify("initialized")
        yield client
    finally:
        await client.close()
