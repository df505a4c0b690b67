"""The lease file of a repository on this host: who may write to Gitea and git right now (design section 5).

It lies outside every workspace and is denied to the sandbox. The worker writes and revokes it; the bridge
reads it right before each effect. Standard library only.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Lease:
    lease_id: str
    task_id: str


class LockBusyError(Exception):
    """Another process of this host works in the repository."""


def grant(directory: Path, repository_id: int, lease: Lease) -> None:
    """Makes `lease` the current one; durable when it returns."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = _path(directory, repository_id)
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(asdict(lease), file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def current(directory: Path, repository_id: int) -> Lease | None:
    """The lease that may write now; None when there is none or the file is unreadable (fail closed)."""
    try:
        fields = json.loads(_path(directory, repository_id).read_text(encoding="utf-8"))
        return Lease(str(fields["lease_id"]), str(fields["task_id"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def revoke(directory: Path, repository_id: int, lease_id: str) -> None:
    """Ends `lease_id` if it is still the current one; a later holder's lease stays."""
    held = current(directory, repository_id)
    if held is not None and held.lease_id == lease_id:
        _path(directory, repository_id).unlink(missing_ok=True)


@contextlib.contextmanager
def host_lock(directory: Path, repository_id: int) -> Iterator[None]:
    """Holds the host's lock of the repository; freed by the kernel when the process dies.

    Raises:
        LockBusyError: somebody else holds it; try again later.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _path(directory, repository_id).with_suffix(".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockBusyError(f"repository {repository_id}") from None
        yield


def _path(directory: Path, repository_id: int) -> Path:
    return directory / f"{repository_id}.json"
