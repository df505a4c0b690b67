"""Work that a signal may end: what started it can clean up, and exits as shells expect (128 + signal)."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
T = TypeVar("T")


class StoppedError(Exception):
    """A signal asked to stop before the work was done."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.exit_code = 128 + number


def stop_signal() -> asyncio.Future[signal.Signals]:
    """The first signal that asks this process to stop, from now on."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[signal.Signals] = loop.create_future()
    for number in SIGNALS:
        loop.add_signal_handler(number, _ask, asked, number)
    return asked


def _ask(asked: asyncio.Future[signal.Signals], number: signal.Signals) -> None:
    if not asked.done():
        asked.set_result(number)


async def unless_stopped(asked: asyncio.Future[signal.Signals], work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, unless a signal comes first.

    Raises:
        StoppedError: it did; `work` was cancelled and has ended.
    """
    task = asyncio.ensure_future(work)
    either: set[asyncio.Future[Any]] = {task, asked}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if asked.done():
        task.cancel()
        await asyncio.wait({task})
        raise StoppedError(asked.result())
    return task.result()
