"""The loop of the bridge: MCP over stdin and stdout for one session (design section 9).

The main thread reads and answers what needs no work; one worker thread does all calls, one after another, and
starts gitea-mcp. A call that takes too long is answered by its timer, and what it did stays in the journal.
"""

import contextlib
import json
import queue
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridge import calls, passthrough, rpc, tools
from bridge.upstream import PROTOCOL, StartError, Upstream
from clients import bridge_config
from domain.errors import CcwebError, ErrorCode

_KNOWN_PROTOCOLS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
_GRACE = 5.0
"""Seconds that a call in work gets to end, with its line in the journal, when the bridge has to go."""


class _StopError(Exception):
    """SIGTERM."""


def run(config_path: Path, token: str) -> int:
    """Serves until the end of input or SIGTERM; the exit status."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    write = rpc.Writer(sys.stdout, token)
    try:
        server = _Server(bridge_config.load(config_path), token, write)
    except (OSError, ValueError, TypeError) as error:
        server = None
        failure = rpc.RpcError(rpc.START_FAILED, f"{ErrorCode.MCP_START_FAILED}: bridge config: {error}")
    with contextlib.suppress(_StopError, BrokenPipeError):
        for message in rpc.read(sys.stdin):
            if server is not None:
                server.take(message)
            elif message is not None and "id" in message:
                rpc.Answer(write, message["id"]).error(failure)
    if server is not None:
        server.close()
    return 0


def _on_sigterm(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _StopError


Work = Callable[[], None]


class _Server:
    def __init__(self, config: bridge_config.BridgeConfig, token: str, write: rpc.Writer) -> None:
        self._config, self._token, self._write = config, token, write
        self._upstream = Upstream(
            config.gitea_mcp_command, config.gitea_url, token, Path(config.home), config.start_timeout
        )
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._closing = False
        self._worker = threading.Thread(target=self._run, daemon=True)
        self._worker.start()

    def take(self, message: rpc.Message | None) -> None:
        """Answers a message or hands it to the worker."""
        if message is None:
            rpc.Answer(self._write, None).error(rpc.RpcError(rpc.PARSE_ERROR, "not a JSON object"))
            return
        if "id" not in message or "method" not in message:
            return  # notifications need no answer, and we ask nothing
        answer = rpc.Answer(self._write, message["id"])
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        try:
            self._dispatch(str(message["method"]), params, answer)
        except rpc.RpcError as error:
            answer.error(error)

    def close(self) -> None:
        """Lets the call in work end, begins no other, then ends gitea-mcp."""
        self._closing = True
        self._work.put(None)
        self._worker.join(_GRACE)
        self._upstream.stop()

    def _dispatch(self, method: str, params: rpc.Message, answer: rpc.Answer) -> None:
        if method == "ping":
            answer.result({})
        elif method == "initialize":
            self._work.put(lambda: self._initialize(params, answer))
        elif method == "tools/list":
            self._work.put(lambda: answer.result({"tools": [*tools.OWN, *passthrough.listed(self._upstream)]}))
        elif method == "tools/call":
            self._call(params, answer)
        else:
            raise rpc.RpcError(rpc.METHOD_NOT_FOUND, f"no method {method}")

    def _initialize(self, params: rpc.Message, answer: rpc.Answer) -> None:
        try:
            self._upstream.start()
        except StartError as error:
            answer.error(rpc.RpcError(rpc.START_FAILED, str(error)))
            return
        asked = params.get("protocolVersion")
        answer.result(
            {
                "protocolVersion": asked if asked in _KNOWN_PROTOCOLS else PROTOCOL,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "ccweb-gitea", "version": "1"},
            }
        )

    def _call(self, params: rpc.Message, answer: rpc.Answer) -> None:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            raise rpc.RpcError(rpc.INVALID_PARAMS, "name and arguments are needed")
        timer = threading.Timer(self._config.call_timeout, lambda: answer.result(_too_late(name)))
        timer.daemon = True
        timer.start()

        def work() -> None:
            if not answer.given:
                self._serve_call(name, arguments or {}, params, answer)
            timer.cancel()

        self._work.put(work)

    def _serve_call(self, name: str, arguments: rpc.Message, params: rpc.Message, answer: rpc.Answer) -> None:
        try:
            if name in tools.NAMES:
                answer.result(_as_result(self._own(name, arguments, params, answer)))
            else:
                answer.result(passthrough.call(self._upstream, self._config, name, arguments))
        except rpc.RpcError as error:
            answer.error(error)
        except Exception as error:  # noqa: BLE001 - one broken call must not end the session's server
            sys.stderr.write(rpc.scrub(f"bridge: {type(error).__name__}: {error}\n", self._token))
            answer.error(rpc.RpcError(rpc.INTERNAL, f"{ErrorCode.INTERNAL_ERROR}: {type(error).__name__}"))

    def _own(self, name: str, arguments: rpc.Message, params: rpc.Message, answer: rpc.Answer) -> rpc.Message:
        try:
            turn = calls.turn_of(params)
        except CcwebError as error:
            return calls.refusal(error.code, error.detail)
        call = calls.Call(self._config, self._token, turn, name, lambda: answer.given or self._closing)
        return tools.call(self._upstream, call, arguments)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            if not self._closing:
                with contextlib.suppress(BrokenPipeError):  # the end of input follows
                    work()


def _too_late(name: str) -> rpc.Message:
    code = ErrorCode.REPLY_UNKNOWN if name in ("reply", "ask_user") else ErrorCode.TOOL_TIMEOUT
    outcome = calls.refusal(code, f"{name} did not end in time; it looks before it acts, so it may be called again")
    return _as_result(outcome)


def _as_result(outcome: Any) -> rpc.Message:
    return rpc.text_result(json.dumps(outcome, ensure_ascii=False))
