"""`./run dev`: embedded Temporal, sidecar, worker and ingress, with your Gitea and your model."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from signal import Signals
from typing import Any

from rich.console import Console

import embedded
import ingress.server
import ports
import preflight
import sidecar
import worker
from domain.errors import CcwebError, ErrorCode
from embedded import Program, Running, StartError
from locks import only_one
from settings import Settings
from stopping import stop_signal, unless_stopped

TEMPORAL_PORT, TEMPORAL_UI_PORT = 7233, 8233
_TEMPORAL_HINT = "; the embedded Temporal needs it (does another Temporal run?)"
console = Console(stderr=True, highlight=False)


async def run(settings: Settings) -> None:
    """Runs until a signal; exit code 0 once everything was up.

    Raises:
        ExceptionGroup: what is wrong with the settings or this machine, each a CcwebError; nothing was started.
        StartError: a process did not start, or ended by itself; the detail has the end of its log.
        StoppedError: a signal came while it was starting.
    """
    asked = stop_signal()
    with only_one(settings.state_dir, "dev"):
        await unless_stopped(asked, check(settings))
        async with _running() as running:
            await unless_stopped(asked, _start(_programs(settings), running))
            console.print(f"Webhook URL  http://{settings.ingress_host}:{settings.ingress_port}/api/gitea/webhook")
            console.print(f"Operators    http://{settings.ingress_host}:{settings.ingress_port}/")
            console.print(f"Temporal     http://127.0.0.1:{TEMPORAL_UI_PORT}   logs in {settings.state_dir / 'logs'}")
            console.print("Ctrl-C stops everything.")
            await _first_end(running, asked)


async def check(settings: Settings) -> None:
    """Everything that would fail later, before anything is started.

    Raises:
        ExceptionGroup: of CcwebErrors, one for each thing to mend.
    """
    looks = (worker.check_settings, ingress.server.check, sidecar.check, preflight.gitea_mcp, _check_ports)
    problems = [problem for look in looks for problem in _problems(look, settings)]
    if settings.gitea_token.get_secret_value():
        problems += await preflight.gitea(settings)
    if not problems:
        await sidecar.try_out(settings)
    else:
        raise ExceptionGroup("dev", problems)


def _problems(look: Callable[[Settings], None], settings: Settings) -> list[CcwebError]:
    try:
        look(settings)
    except CcwebError as error:
        return [error]
    return []


def _check_ports(settings: Settings) -> None:
    """One after the other, since one that is taken is often taken by another `./run dev`."""
    ingress.server.listen(settings).close()
    for port in (TEMPORAL_PORT, TEMPORAL_UI_PORT):
        ports.listen(ports.LOOPBACK, port, port_hint=_TEMPORAL_HINT).close()


def _programs(settings: Settings) -> list[Program]:
    logs = settings.state_dir / "logs"
    person = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
    links = {"CCWEB_TEMPORAL_UI_URL": settings.temporal_ui_url or f"http://{ports.LOOPBACK}:{TEMPORAL_UI_PORT}"}
    env = {**person, **links, **embedded.python_env(), "TEMPORAL_ADDRESS": f"{ports.LOOPBACK}:{TEMPORAL_PORT}"}
    temporal = embedded.temporal_program(settings.state_dir / "temporal", TEMPORAL_PORT, TEMPORAL_UI_PORT)
    ours = ("sidecar", "worker", "ingress")
    return [temporal, *(embedded.ccweb_program(name, env, logs / f"{name}.log") for name in ours)]


@asynccontextmanager
async def _running() -> AsyncIterator[list[Running]]:
    """A list to put programs into; they are stopped in the reverse order."""
    running: list[Running] = []
    try:
        yield running
    finally:
        for one in reversed(running):
            await one.stop()


async def _start(programs: list[Program], running: list[Running]) -> None:
    for program in programs:
        console.print(f"starting {program.name}")
        running.append(await embedded.start(program))


async def _first_end(running: list[Running], asked: asyncio.Future[Signals]) -> None:
    """Until a signal, or until a program ends by itself.

    Raises:
        StartError: it did.
    """
    ends: dict[asyncio.Future[Any], Running] = {asyncio.create_task(one.process.wait()): one for one in running}
    done, pending = await asyncio.wait({asked, *ends}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    for task in done - {asked}:
        ended = ends[task]
        raise StartError(ErrorCode.INTERNAL_ERROR, f"{ended.program.name} ended: {embedded.tail(ended.program.log)}")
