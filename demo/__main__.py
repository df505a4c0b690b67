"""`./run demo`: the main job on embedded parts, told on the screen."""

import argparse
import asyncio
import contextlib
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import httpx
from rich.console import Console

from demo.scene import Scene
from demo.stack import Ports, Stack, scratch
from demo.story import Told, tell
from domain.errors import CcwebError

console = Console(stderr=True, highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run demo", description="The main job of ccweb on embedded parts.")
    parser.add_argument("--once", action="store_true", help="end by itself; exit code 0 only if all was verified")
    parser.add_argument("--json", action="store_true", help="make the last line a JSON object")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="ccweb-demo-", dir=scratch()))
    told: list[Told] = []
    try:
        told = asyncio.run(_run(directory, stay=not options.once))
    except* CcwebError as errors:
        _explain(errors)
    if options.json:
        print(json.dumps({"tasks": [one.as_json() for one in told], "ok": _ok(told)}))  # noqa: T201
    if _ok(told):
        shutil.rmtree(directory, ignore_errors=True)
    else:
        console.print(f"[red]Not everything was verified.[/] The logs are in {directory / 'logs'}")
    return 0 if _ok(told) else 1


async def _run(directory: Path, *, stay: bool) -> list[Told]:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stack = Stack(directory, Ports.free())
    story = asyncio.create_task(_story(stack, stop, stay=stay))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({story, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not story.done() and not stay:
            story.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            return await story
        return []
    finally:
        stopped.cancel()
        console.print("Stopping.", style="dim")
        await stack.stop()


async def _story(stack: Stack, stop: asyncio.Event, *, stay: bool) -> list[Told]:
    console.print("[bold]Starting[/] (Temporal, Codex and ccweb are real; Gitea and the model are simulated)")
    await stack.start(announce=lambda part: console.print(f"  started {part}", style="dim"))
    async with httpx.AsyncClient(timeout=20) as http:
        told = await tell(Scene(stack, http), console)
        if stay:
            console.print("\n[bold]Everything stays up.[/] Ctrl-C stops it.")
            await stop.wait()
    return told


def _ok(told: list[Told]) -> bool:
    return len(told) == 2 and all(one.verified for one in told)


def _explain(errors: BaseExceptionGroup[CcwebError]) -> None:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            _explain(error)
        else:
            console.print(f"[red]ccweb:[/] {error.detail}", markup=True)


if __name__ == "__main__":
    sys.exit(main())
