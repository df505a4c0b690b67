"""Server-sent events: the server says "changed", the page fetches its part again (design section 13)."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from temporalio.client import Client

from domain.errors import CcwebError
from operations import reads, visibility

_FRESH = 2.0
"""Seconds between two looks at Temporal, however many pages are open."""
_LIFE = 300.0
"""Seconds after which the browser asks anew, so that nothing lives for ever."""


class Overviews:
    """A mark of what the overview shows, shared by all open pages."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = asyncio.Lock()
        self._mark = ""
        self._at = -_FRESH

    async def mark(self) -> str:
        async with self._lock:
            if time.monotonic() - self._at >= _FRESH:
                self._mark, self._at = await self._look(), time.monotonic()
            return self._mark

    async def _look(self) -> str:
        try:
            overview = await reads.overview(self._client)
            tasks = await reads.tasks(self._client, limit=50)
        except CcwebError as error:
            return str(error.code)
        alive = [poller.workers for poller in overview.workers]
        shown = overview.model_copy(update={"workers": [], "ended_last_day": {}}).model_dump_json()
        return hashlib.sha256(f"{shown}{alive}{tasks.model_dump_json()}".encode()).hexdigest()


async def task_mark(client: Client, task_id: str) -> str:
    """Changes with each step of the task's workflow."""
    try:
        async with visibility.asking():
            found = await visibility.described(client, task_id)
    except CcwebError as error:
        return str(error.code)
    info = found.workflow_execution_info if found else None
    return f"{info.status}/{info.state_transition_count}" if info else "gone"


async def stream(look: Callable[[], Awaitable[str]], may_go_on: Callable[[], bool]) -> AsyncIterator[str]:
    """Events until `may_go_on` says no (signed out, the server stops), the browser leaves or `_LIFE` is over."""
    until = time.monotonic() + _LIFE
    known = await look()
    yield "retry: 2000\n\n"
    while time.monotonic() < until and may_go_on():
        await asyncio.sleep(_FRESH)
        seen = await look()
        yield "event: changed\ndata: 1\n\n" if seen != known else ": still here\n\n"
        known = seen
