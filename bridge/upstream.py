"""gitea-mcp as a child process: started with a limit, missed at once when it ends, started again on need."""

import itertools
import json
import os
import queue
import shlex
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from bridge import rpc
from clients.children import DIE_WITH_PARENT
from domain.errors import ErrorCode

PROTOCOL = "2025-06-18"
_STDERR_KEPT = 500


class StartError(Exception):
    """gitea-mcp could not be started; `code` says how far it came."""

    def __init__(self, code: ErrorCode, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


class ToolFailedError(Exception):
    """gitea-mcp answered a call with an error."""


class NoAnswerError(Exception):
    """gitea-mcp ended or fell silent in a call: whether it did its work is not known."""


class EndedError(NoAnswerError):
    """gitea-mcp ended, whether its reader has noticed that yet or not."""


def command_line(command: str, path: str) -> list[str]:
    """The program and its arguments, by absolute path.

    Raises:
        StartError: mcp_command_missing.
    """
    words = [command] if shutil.which(command, path=path) else shlex.split(command)
    program = shutil.which(words[0], path=path) if words else None
    if program is None:
        raise StartError(ErrorCode.MCP_COMMAND_MISSING, f"{command or 'no command'} is not on PATH")
    return [str(Path(program).resolve()) if os.sep not in program else program, *words[1:], "-t", "stdio"]


def absolute_path() -> str:
    """PATH without relative folders: the working directory is the agent's."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if folder.startswith(os.sep))


class _Child:
    """One run of gitea-mcp."""

    def __init__(self, command: list[str], env: dict[str, str], secret: str) -> None:
        self._secret = secret
        self._ids = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[rpc.Message | None]] = {}
        self._lock = threading.Lock()
        self._stderr = ""
        self.ended = False
        # The thread that starts a child lives as long as the bridge, as PDEATHSIG follows the thread.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=env["HOME"],
            text=True,
            encoding="utf-8",
            errors="replace",
            preexec_fn=DIE_WITH_PARENT,  # noqa: PLW1509
        )
        threading.Thread(target=self._read, daemon=True).start()
        self._errors = threading.Thread(target=self._read_errors, daemon=True)
        self._errors.start()

    def request(self, method: str, params: rpc.Message, limit: float) -> Any:
        """The result of one request.

        Raises:
            ToolFailedError: it answered an error.
            EndedError: it ended.
            NoAnswerError: the limit (seconds) passed.
        """
        identity = next(self._ids)
        inbox: queue.SimpleQueue[rpc.Message | None] = queue.SimpleQueue()
        with self._lock:
            self._waiting[identity] = inbox
        try:
            self.send({"id": identity, "method": method, "params": params})
            message = inbox.get(timeout=limit)
        except queue.Empty:
            raise NoAnswerError(f"no answer to {method} in {limit:g} s") from None
        finally:
            with self._lock:
                self._waiting.pop(identity, None)
        if message is None:
            raise EndedError(f"gitea-mcp ended during {method}")
        if "error" in message:
            raise ToolFailedError(rpc.scrub(_error_text(message["error"]), self._secret))
        return message.get("result")

    def send(self, message: rpc.Message) -> None:
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - made with a pipe
        try:
            if self.ended:
                raise BrokenPipeError
            stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            stdin.flush()
        except (OSError, ValueError):
            raise EndedError("gitea-mcp ended") from None

    def stop(self) -> None:
        """Ends it and waits for it, so that nothing it does comes later than this."""
        self._process.kill()
        self._process.wait()

    def last_words(self) -> str:
        """Its exit status and the end of what it wrote to stderr."""
        self._process.wait()
        self._errors.join(timeout=1)
        words = rpc.scrub(self._stderr, self._secret).strip().replace("\n", " ")
        return f"exit status {self._process.returncode}: {words}"

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101
        for message in rpc.read(stdout):
            if message is not None and ("result" in message or "error" in message):
                with self._lock:
                    inbox = self._waiting.get(message.get("id") or 0)
                if inbox is not None:
                    inbox.put(message)
        with self._lock:
            self.ended = True
            waiting = list(self._waiting.values())
        for inbox in waiting:
            inbox.put(None)

    def _read_errors(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None  # noqa: S101
        for line in stderr:
            self._stderr = (self._stderr + line)[-_STDERR_KEPT:]


def _error_text(error: Any) -> str:
    return str(error.get("message", ""))[:_STDERR_KEPT] if isinstance(error, dict) else "unreadable error"


class Upstream:
    """gitea-mcp for one Gitea and one token; not for use by two threads at once.

    Limits are in seconds; `start_timeout` covers process, handshake and tool list together.
    """

    def __init__(self, command: str, gitea_url: str, token: str, home: Path, start_timeout: float) -> None:
        self._command, self._token, self._home = command, token, home
        self._start_timeout = start_timeout
        self._env = {
            "HOME": str(home),
            "PATH": absolute_path(),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            "GITEA_HOST": gitea_url,
            "GITEA_ACCESS_TOKEN": token,
        }
        self._child: _Child | None = None
        self.tools: dict[str, rpc.Message] = {}

    def start(self) -> None:
        """Starts it unless it runs.

        Raises:
            StartError: mcp_command_missing, mcp_start_failed or mcp_handshake_failed; may be tried again.
        """
        if self._child is not None and not self._child.ended:
            return
        self.stop()
        command = command_line(self._command, self._env["PATH"])
        try:
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._child = _Child(command, self._env, self._token)
        except FileNotFoundError as error:
            raise StartError(ErrorCode.MCP_COMMAND_MISSING, str(error)) from None
        except OSError as error:
            raise StartError(ErrorCode.MCP_START_FAILED, str(error)) from None
        self._shake_hands(self._child)

    def call(self, tool: str, arguments: rpc.Message, limit: float) -> rpc.Message:
        """The result of one tool call, never repeated here. A silent child is ended.

        Raises:
            StartError: nothing was called.
            ToolFailedError: it refused or failed.
            NoAnswerError: the effect is not known.
        """
        self.start()
        child = self._child
        assert child is not None  # noqa: S101 - start made it
        try:
            result = child.request("tools/call", {"name": tool, "arguments": arguments}, limit)
        except NoAnswerError:
            self.stop()
            raise
        if not isinstance(result, dict):
            raise ToolFailedError("unreadable result")
        return result

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None

    def _shake_hands(self, child: _Child) -> None:
        deadline = time.monotonic() + self._start_timeout
        hello = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "ccweb", "version": "1"}}
        try:
            child.request("initialize", hello, self._start_timeout)
            child.send({"method": "notifications/initialized"})
            listed = child.request("tools/list", {}, max(0.1, deadline - time.monotonic()))
            self.tools = {tool["name"]: tool for tool in listed["tools"]}
        except EndedError:
            words = child.last_words()
            self.stop()
            raise StartError(ErrorCode.MCP_START_FAILED, words) from None
        except NoAnswerError as error:
            self.stop()
            raise StartError(ErrorCode.MCP_HANDSHAKE_FAILED, str(error)) from None
        except (ToolFailedError, KeyError, TypeError) as error:
            self.stop()
            raise StartError(ErrorCode.MCP_HANDSHAKE_FAILED, str(error)) from None
