"""`./run dev`: embedded Temporal, sidecar, worker and ingress, with your Gitea and your model."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from rich.console import Console

import embedded
from domain.errors import ErrorCode, SettingsError
from embedded import Program, Running, StartError
from settings import Settings

TEMPORAL_PORT, TEMPORAL_UI_PORT = 7233, 8233
console = Console(stderr=True, highlight=False)


async def run(settings: Settings) -> None:
    """Runs until SIGINT or SIGTERM.

    Raises:
        SettingsError: the settings do not name a Gitea token, a webhook secret or a model key.
        StartError: a process did not start, or ended by itself; the detail has the end of its log.
    """
    _check(settings)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with _started(_programs(settings)) as running:
        console.print(f"Webhook URL  http://{settings.ingress_host}:{settings.ingress_port}/api/gitea/webhook")
        console.print(f"Temporal     http://127.0.0.1:{TEMPORAL_UI_PORT}   logs in {settings.state_dir / 'logs'}")
        console.print("Ctrl-C stops everything.")
        await _first_end(running, stop)


def _check(settings: Settings) -> None:
    for name in ("gitea_token", "webhook_secrets", "model_key"):
        if not getattr(settings, name).get_secret_value().strip():
            detail = f"CCWEB_{name.upper()} or CCWEB_{name.upper()}_FILE: not set (cp .env.example .env, fill it in)"
            raise SettingsError(ErrorCode.SETTINGS_INVALID, detail)


def _programs(settings: Settings) -> list[Program]:
    logs = settings.state_dir / "logs"
    env = {**os.environ, **embedded.python_env(), "TEMPORAL_ADDRESS": f"127.0.0.1:{TEMPORAL_PORT}"}
    temporal = embedded.temporal_program(settings.state_dir / "temporal", TEMPORAL_PORT, TEMPORAL_UI_PORT)
    ready: dict[str, Callable[[], Awaitable[bool]]] = {
        "sidecar": partial(embedded.exists, settings.codex_socket),
        "worker": embedded.logged(logs / "worker.log", "worker started"),
        "ingress": partial(embedded.port_open, settings.ingress_port),
    }
    return [
        temporal,
        *(embedded.ccweb_program(name, env, logs / f"{name}.log", check) for name, check in ready.items()),
    ]


@asynccontextmanager
async def _started(programs: list[Program]) -> AsyncIterator[list[Running]]:
    running: list[Running] = []
    try:
        for program in programs:
            console.print(f"starting {program.name}")
            running.append(await embedded.start(program))
        yield running
    finally:
        for one in reversed(running):
            await one.stop()


async def _first_end(running: list[Running], stop: asyncio.Event) -> None:
    ends = {asyncio.create_task(one.process.wait()): one for one in running}
    asked = asyncio.create_task(stop.wait())
    done, pending = await asyncio.wait({asked, *ends}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    for task in done - {asked}:
        ended = ends[task]
        raise StartError(ErrorCode.INTERNAL_ERROR, f"{ended.program.name} ended: {embedded.tail(ended.program.log)}")
