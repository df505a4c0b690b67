"""What the activities of a host share while they wait (design section 5)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from temporalio import activity

from clients import journal
from settings import Settings

_POLL = 0.2


@contextlib.asynccontextmanager
async def heartbeats(settings: Settings, details: Callable[[], Any] = lambda: None) -> AsyncIterator[None]:
    """Heartbeats by timer with the last `details`, so that a quiet activity does not look like a dead worker."""

    async def beat() -> None:
        while True:
            activity.heartbeat(details())
            await asyncio.sleep(min(1.0, settings.heartbeat_timeout / 4))

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()


async def nothing_in_flight(settings: Settings, task_id: str) -> None:
    """Until the bridge has no call of the task in work; the caller revoked the lease and bounds the wait."""
    while journal.in_flight(settings.journal_dir, task_id):
        await asyncio.sleep(_POLL)
