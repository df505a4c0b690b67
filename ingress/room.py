"""How much of large bodies one process holds at once, so that many senders together cannot fill its memory."""

from collections.abc import Iterator
from contextlib import contextmanager

SMALL = 64 * 1024
"""Bytes of each body that always have room, so that large ones never shut out the usual ones."""
LARGE = 64 * 1024 * 1024
"""Bytes beyond `SMALL` of all bodies together."""


class NoRoomError(Exception):
    """Too much is held for other requests; may be sent again soon."""


class Room:
    """The room of one process."""

    def __init__(self, large: int = LARGE) -> None:
        self._free = large

    @contextmanager
    def share(self) -> Iterator["Share"]:
        """The part of one request; given back when the block ends."""
        taken = Share(self)
        try:
            yield taken
        finally:
            self._free += taken.large

    def take(self, more: int) -> None:
        if more > self._free:
            raise NoRoomError
        self._free -= more


class Share:
    """What one request holds."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.large = 0

    def grow(self, size: int) -> None:
        """The request holds `size` bytes now. Raises NoRoomError when there is no room for them."""
        more = max(0, size - SMALL) - self.large
        if more > 0:
            self._room.take(more)
            self.large += more
