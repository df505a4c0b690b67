"""Starts ccweb's commands as people do, and looks at what they leave behind."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import embedded

LIMIT = 60.0


class Command:
    """A running command; `said` is what it wrote so far, both outputs together."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""

    async def until(self, words: str) -> None:
        """Reads until the command wrote `words`."""
        assert self.process.stdout is not None
        async with asyncio.timeout(LIMIT):
            while words not in self.said:
                line = await self.process.stdout.readline()
                assert line, f"it ended without {words!r}: {self.said}"
                self.said += line.decode()

    async def ended(self) -> int:
        """Reads the rest; returns the exit code as a shell shows it."""
        rest, _ = await asyncio.wait_for(self.process.communicate(), LIMIT)
        self.said += rest.decode()
        code = self.process.returncode
        assert code is not None
        return 128 - code if code < 0 else code

    async def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return await self.ended()


@asynccontextmanager
async def command(*argv: str, **env: str) -> AsyncIterator[Command]:
    """`python ARGV` in the checkout, with a scrubbed environment."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *argv, cwd=embedded.ROOT, env=embedded.python_env(**env),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    started = Command(process)
    try:
        yield started
    finally:
        if process.returncode is None:
            process.terminate()
            await started.ended()


async def ccweb(*arguments: str, **env: str) -> tuple[int, str]:
    """Runs `ccweb ARGUMENTS` to its end; the exit code and what it said."""
    async with command("cli.py", *arguments, **env) as started:
        code = await started.ended()
    return code, started.said


async def processes_of(directory: Path) -> list[str]:
    """Processes that name something below `directory` in their command line or environment."""
    listing = await asyncio.create_subprocess_exec("ps", "axeww", "-o", "args", stdout=asyncio.subprocess.PIPE)
    out, _ = await listing.communicate()
    return [line for line in out.decode().splitlines() if str(directory) in line]
