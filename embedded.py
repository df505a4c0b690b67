"""Starts and stops the processes of an embedded installation: `./run dev`, the demo, the tests.

In production each of these is a service of its own; here one parent starts them in order, waits until each
is ready, and stops them by pid in the reverse order.
"""

import asyncio
import os
import shutil
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from domain import search_attributes
from domain.errors import CcwebError, ErrorCode

ROOT = Path(__file__).resolve().parent
START_LIMIT = 60.0
_SECOND_LIMIT = 5.0
# The dev server reads each shard's queues 20 times a second by default: 50 ms for every step of a workflow.
_FAST_QUEUES = (
    "--dynamic-config-value=history.transferProcessorMaxPollRPS=1000",
    "--dynamic-config-value=history.timerProcessorMaxPollRPS=1000",
)


class StartError(CcwebError):
    """A process did not become ready; the detail has the end of its log."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to start, where its output goes, and how to see that it is ready."""

    name: str
    argv: list[str]
    env: Mapping[str, str]
    log: Path
    ready: Callable[[], Awaitable[bool]]


@dataclass(slots=True)
class Running:
    """A started program."""

    program: Program
    process: asyncio.subprocess.Process = field(repr=False)

    @property
    def pid(self) -> int:
        return self.process.pid

    async def stop(self, limit: float = 20) -> None:
        """SIGTERM, once more after `limit` seconds (the sidecar then stops waiting for turns), then SIGKILL."""
        await self._end(signal.SIGTERM, limit)
        await self._end(signal.SIGTERM, _SECOND_LIMIT)
        await self._end(signal.SIGKILL, limit)

    async def kill(self) -> None:
        """SIGKILL, and waits until it is gone."""
        await self._end(signal.SIGKILL, 20)

    async def _end(self, number: signal.Signals, limit: float) -> None:
        if self.process.returncode is not None:
            return
        self.process.send_signal(number)
        try:
            await asyncio.wait_for(self.process.wait(), limit)
        except TimeoutError:
            return


async def start(program: Program) -> Running:
    """Starts a program and waits until it is ready.

    Raises:
        StartError: it ended, or was not ready within `START_LIMIT` seconds.
    """
    program.log.parent.mkdir(parents=True, exist_ok=True)
    with program.log.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *program.argv, env=dict(program.env), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT
        )
    running = Running(program, process)
    try:
        await asyncio.wait_for(_until_ready(running), START_LIMIT)
    except (TimeoutError, StartError) as error:
        await running.kill()
        raise StartError(ErrorCode.INTERNAL_ERROR, f"{program.name} did not start: {tail(program.log)}") from error
    return running


async def _until_ready(running: Running) -> None:
    while not await running.program.ready():
        if running.process.returncode is not None:
            raise StartError(ErrorCode.INTERNAL_ERROR, running.program.name)
        await asyncio.sleep(0.05)


def tail(log: Path, lines: int = 5) -> str:
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    return " | ".join(text.splitlines()[-lines:]) or "it printed nothing"


def free_port(preferred: int = 0) -> int:
    """`preferred` when nobody listens there, else any free port of the loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", preferred))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def exists(path: Path) -> bool:
    return await asyncio.to_thread(path.exists)


def logged(log: Path, message: str) -> Callable[[], Awaitable[bool]]:
    """A check whether a process wrote `message` into its log since now."""
    since = log.stat().st_size if log.exists() else 0

    async def found() -> bool:
        return message.encode() in (await asyncio.to_thread(log.read_bytes))[since:]

    return found


async def port_open(port: int) -> bool:
    """Whether somebody accepts connections on the loopback port."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def python_env(**extra: str) -> dict[str, str]:
    """The environment of a ccweb process: what the machine sets for paths, locale and certificates, and `extra`."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_STATE_HOME")
    base = {name: os.environ[name] for name in kept if name in os.environ}
    return {**base, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **extra}


def temporal_program(directory: Path, port: int, ui_port: int) -> Program:
    """The Temporal dev server with its Web UI, its history in a file below `directory`.

    Raises:
        StartError: the `temporal` program is not installed.
    """
    executable = shutil.which(
        "temporal", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    )
    if executable is None:
        raise StartError(ErrorCode.INTERNAL_ERROR, "the temporal program is missing; run ./run setup")
    directory.mkdir(parents=True, exist_ok=True)
    attributes = [f"--search-attribute={name}={kind}" for name, kind in search_attributes.TYPES.items()]
    argv = [
        executable, "server", "start-dev", "--ip", "127.0.0.1", "--port", str(port), "--ui-port", str(ui_port),
        "--db-filename", str(directory / "temporal.db"), "--log-level", "error", *attributes, *_FAST_QUEUES,
    ]  # fmt: skip
    return Program("temporal", argv, python_env(), directory / "temporal.log", lambda: temporal_ready(port))


async def temporal_ready(port: int) -> bool:
    """Whether the server answers for the default namespace, search attributes included."""
    from temporalio.client import Client  # noqa: PLC0415  # the SDK costs 0.4 s; `--help` must not pay it

    try:
        client = await Client.connect(f"127.0.0.1:{port}")
        await client.count_workflows('CcwebState="none"')
    except Exception:  # noqa: BLE001  # anything it answers while starting means: not yet
        return False
    return True


def ccweb_program(command: str, env: Mapping[str, str], log: Path, ready: Callable[[], Awaitable[bool]]) -> Program:
    """One of ccweb's own processes: `worker`, `ingress` or `sidecar`."""
    return Program(command, [sys.executable, str(ROOT / "cli.py"), command], env, log, ready)
