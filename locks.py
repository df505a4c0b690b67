"""One process of a kind per state folder."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from domain.errors import ErrorCode, SettingsError


@contextmanager
def only_one(state_dir: Path, name: str) -> Iterator[None]:
    """Holds `name` in this state folder; the lock goes with the process.

    Raises:
        SettingsError: another process holds it.
    """
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (state_dir / f"{name}.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                ErrorCode.SETTINGS_INVALID,
                f"another {name} runs with the state folder {state_dir}; stop it, or set CCWEB_STATE_DIR",
            ) from None
        yield
