"""Starts the demo's stack, tells the story, and leaves nothing behind unless something went wrong."""

import asyncio
import json
import shutil
import tempfile
from pathlib import Path

import httpx
from rich.console import Console
from rich.markup import escape

from demo.scene import Scene
from demo.stack import Ports, Stack, scratch
from demo.story import Told, look_around, tell
from domain.errors import CcwebError, lines
from stopping import StoppedError, stop_signal, unless_stopped


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Its reader went away. Not rich's SystemExit, which would leave the loop before all parts are stopped."""
        self.quiet = True
        raise BrokenPipeError


console = _Console(stderr=True, highlight=False, soft_wrap=True)


def play(*, once: bool, as_json: bool) -> int:
    """Runs the demo; returns its exit code: 0 all was verified, 1 not, 128 + N stopped before by signal N."""
    try:
        told = _told(stay=not once)
    except StoppedError as stopped:
        return stopped.exit_code
    if as_json:
        print(json.dumps({"tasks": [one.as_json() for one in told], "ok": _ok(told)}))  # noqa: T201
    return 0 if _ok(told) else 1


def _told(*, stay: bool) -> list[Told]:
    told: list[Told] = []
    try:
        told = asyncio.run(_run(stay=stay))
    except* (CcwebError, TimeoutError) as errors:
        for line in lines(errors):
            console.print(f"[red]ccweb:[/] {escape(line)}")
    return told


async def _run(*, stay: bool) -> list[Told]:
    asked = stop_signal()
    directory = Path(tempfile.mkdtemp(prefix="ccweb-demo-", dir=scratch()))
    stack = Stack(directory, Ports.free())
    told: list[Told] = []
    try:
        told = await unless_stopped(asked, _story(stack))
        if stay:
            look_around(stack, told[0], console)
            console.print("\n[bold]Everything stays up.[/] Ctrl-C stops it.")
            await asked
    finally:
        console.print("Stopping.", style="dim")
        await stack.stop()
        if _ok(told) or asked.done():
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        else:
            console.print(f"[red]Not everything was verified.[/] The logs are in {directory / 'logs'}")
    return told


async def _story(stack: Stack) -> list[Told]:
    console.print("[bold]Starting[/] (Temporal, Codex and ccweb are real; Gitea and the model are simulated)")
    await stack.start_anywhere(announce=lambda part: console.print(f"  started {part}", style="dim"))
    async with httpx.AsyncClient(timeout=20) as http:
        return await tell(Scene(stack, http), console)


def _ok(told: list[Told]) -> bool:
    return len(told) == 2 and all(one.verified for one in told)
