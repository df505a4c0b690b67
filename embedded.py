"""Starts and stops the processes of an embedded installation: `./run dev`, the demo, the tests.

In production each of these is a service of its own; here one parent starts them in order, waits until each
is ready, and stops them by pid in the reverse order.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from domain import search_attributes
from domain.errors import CcwebError, ErrorCode

ROOT = Path(__file__).resolve().parent
START_LIMIT = 60.0
_TAKEN = ("is taken", "address already in use")
OURS = "ccweb: "
"""How each line begins that tells a person why a command ends."""
_SECOND_LIMIT = 5.0
# The dev server reads each shard's queues 20 times a second by default: 50 ms for every step of a workflow.
_FAST_QUEUES = (
    "--dynamic-config-value=history.transferProcessorMaxPollRPS=1000",
    "--dynamic-config-value=history.timerProcessorMaxPollRPS=1000",
)


class StartError(CcwebError):
    """A process did not become ready; the detail has the end of its log."""


async def _at_once() -> bool:
    return True


class PortTakenError(StartError):
    """A process did not become ready because somebody else has its port."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to start, where its output goes, and how to see that it is ready."""

    name: str
    argv: list[str]
    env: Mapping[str, str]
    log: Path
    says: str
    """What it writes into its own log once it has its port: somebody else's answer on that port proves nothing."""
    ready: Callable[[], Awaitable[bool]] = _at_once
    """What must be true besides."""


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
    """Starts a program and waits until it is ready; it never outlives a failure or a cancellation of this.

    Raises:
        StartError: it ended, or was not ready within `START_LIMIT` seconds.
    """
    program.log.parent.mkdir(parents=True, exist_ok=True)
    with program.log.open("ab") as log:
        since = log.tell()
        # In a session of its own: Ctrl-C goes to the parent alone, which stops its children in order.
        process = await asyncio.create_subprocess_exec(
            *program.argv, env=dict(program.env), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT,
            start_new_session=True,
        )  # fmt: skip
    running = Running(program, process)
    try:
        await asyncio.wait_for(_until_ready(running, since), START_LIMIT)
    except (TimeoutError, StartError) as error:
        await running.stop()
        raise _not_started(program, since) from error
    except asyncio.CancelledError:
        await running.stop()
        raise
    return running


async def _until_ready(running: Running, since: int) -> None:
    program = running.program
    while not (await asyncio.to_thread(_said, program, since) and await program.ready()):
        if running.process.returncode is not None:
            raise StartError(ErrorCode.INTERNAL_ERROR, program.name)
        await asyncio.sleep(0.05)


def _not_started(program: Program, since: int) -> StartError:
    """A taken port is told by its own line: a trace of any length may stand below it."""
    lines = _log(program, since).decode(errors="replace").splitlines()
    taken = next((line for line in lines if any(words in line for words in _TAKEN)), None)
    if taken is None:
        return StartError(ErrorCode.INTERNAL_ERROR, f"{program.name} did not start: {tail(program.log)}")
    return PortTakenError(ErrorCode.INTERNAL_ERROR, f"{program.name} did not start: {taken.removeprefix(OURS)}")


def _said(program: Program, since: int) -> bool:
    return program.says.encode() in _log(program, since)


def _log(program: Program, since: int) -> bytes:
    with program.log.open("rb") as log:
        log.seek(since)
        return log.read()


def tail(log: Path, lines: int = 5) -> str:
    """The end of a log on one line; only the last line where that is one of ours, which says all."""
    found = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-lines:]
    if found and found[-1].startswith(OURS):
        return found[-1].removeprefix(OURS)
    return " | ".join(found) or "it printed nothing"


def python_env(**extra: str) -> dict[str, str]:
    """The environment of a ccweb process: what the machine sets for paths, locale and certificates, and `extra`.

    The person's own `temporal.toml` is not for an embedded Temporal.
    """
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_STATE_HOME")
    base = {name: os.environ[name] for name in kept if name in os.environ}
    own = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TEMPORAL_CONFIG_FILE": os.devnull}
    return {**base, **own, **extra}


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
    ready = partial(temporal_ready, port)
    return Program("temporal", argv, python_env(), directory / "temporal.log", "Temporal Server:", ready)


async def temporal_ready(port: int) -> bool:
    """Whether the server answers for the default namespace, search attributes included."""
    from temporalio.client import Client  # noqa: PLC0415  # the SDK costs 0.4 s; `--help` must not pay it

    try:
        client = await Client.connect(f"127.0.0.1:{port}")
        await client.count_workflows('CcwebState="none"')
    except Exception:  # noqa: BLE001  # anything it answers while starting means: not yet
        return False
    return True


def ccweb_program(
    command: str, env: Mapping[str, str], log: Path, ready: Callable[[], Awaitable[bool]] = _at_once
) -> Program:
    """One of ccweb's own processes: `worker`, `ingress` or `sidecar`."""
    return Program(command, [sys.executable, str(ROOT / "cli.py"), command], env, log, f"{command} started", ready)
