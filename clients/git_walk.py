"""Looks through the agent's worktree without git: opens part by part, follows no link, finds what git cannot take.

Git lists neither FIFOs nor folders that it may not read, and it waits for ever on a FIFO named `.gitignore`.
Standard library only.
"""

import contextlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from clients import git
from domain.errors import ErrorCode, WorkspaceError

PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ_BY_GIT = frozenset({b".gitignore", b".gitattributes"})
_MAX_RULES = 1_000_000
_MAX_NAME, _MAX_DEPTH = 3_000, 400
"""Bytes and parts of a path below the worktree: the kernel ends at 4096 bytes with the folder in front of it, and a
folder that is reached part by part costs its depth."""


@dataclass(frozen=True, slots=True)
class Odd:
    """A path that cannot be published, and why."""

    name: bytes
    code: ErrorCode
    why: str

    def error(self) -> WorkspaceError:
        return WorkspaceError(self.code, f"{shown(self.name)}: {self.why}")


def shown(name: bytes) -> str:
    """A name as it may stand in a message: one line of plain ASCII."""
    return ascii(name.decode(errors="replace"))[:200]


def last_part(name: bytes) -> bytes:
    return name.rpartition(b"/")[2]


@contextlib.contextmanager
def parent(root: Path, name: bytes, *, make: bool = False) -> Iterator[tuple[int, bytes]]:
    """The open folder of a name, reached part by part without following a link, and its last part.

    Raises:
        FileNotFoundError, NotADirectoryError: a part is missing (and not to be made), or is a file or a link.
        OSError: a part may not be read.
    """
    *folders, last = name.split(b"/")
    current = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=current)
            deeper = os.open(part, PLAIN | os.O_DIRECTORY, dir_fd=current)
            os.close(current)
            current = deeper
        yield current, last
    finally:
        os.close(current)


def look(root: Path, gitlinks: Collection[bytes]) -> list[Odd]:
    """Everything below `root` that git cannot take, ignored or not; what holds a `.git` is not entered.

    Raises:
        WorkspaceError: special_file or file_too_large, when git cannot even list what is there: `root` itself,
            a `.gitignore` or a `.gitattributes` cannot be read; workspace_unavailable when it takes too long.
    """
    odd: list[Odd] = []
    pending = [b""]
    while pending:
        git.check_time()
        folder = pending.pop()
        try:
            entries = _entries(root, folder)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            locked = Odd(folder, ErrorCode.SPECIAL_FILE, f"the folder cannot be read ({error.strerror})")
            if not folder:
                raise locked.error() from None
            odd.append(locked)
            continue
        if (reason := _as_a_whole(folder, entries, gitlinks)) is not None:
            odd.append(reason)
            continue
        for entry in entries:
            if entry.name.lower() == b".git":
                odd.append(Odd(entry.name, ErrorCode.NESTED_REPOSITORY, "a second .git of this folder"))
            elif entry.is_folder:
                pending.append(entry.name)
            elif (found := _single(entry, gitlinks)) is not None:
                odd.append(found)
    return odd


@dataclass(frozen=True, slots=True)
class _Entry:
    name: bytes
    is_folder: bool
    is_plain: bool
    size: int
    """Of files that git reads by itself; 0 for all others."""


def _entries(root: Path, folder: bytes) -> list[_Entry]:
    """What a folder holds, without the worktree's own `.git`."""
    with parent(root, folder + b"/." if folder else b".") as (descriptor, _), os.scandir(descriptor) as listed:
        return [_entry(folder, entry) for entry in listed if folder or entry.name != ".git"]


def _entry(folder: bytes, entry: os.DirEntry[str]) -> _Entry:
    own = os.fsencode(entry.name)
    is_file = entry.is_file(follow_symlinks=False)
    return _Entry(
        name=folder + b"/" + own if folder else own,
        is_folder=entry.is_dir(follow_symlinks=False),
        is_plain=is_file or entry.is_symlink(),
        size=entry.stat(follow_symlinks=False).st_size if is_file and own in _READ_BY_GIT else 0,
    )


def _as_a_whole(folder: bytes, entries: list[_Entry], gitlinks: Collection[bytes]) -> Odd | None:
    """Why nothing of a folder can be taken."""
    if folder in gitlinks and entries:
        return Odd(folder, ErrorCode.NESTED_REPOSITORY, "the folder of a submodule holds files")
    if folder and any(last_part(entry.name).lower() == b".git" for entry in entries):
        return Odd(folder, ErrorCode.NESTED_REPOSITORY, "a repository inside this one")
    if len(folder) > _MAX_NAME or folder.count(b"/") >= _MAX_DEPTH:
        return Odd(folder, ErrorCode.SPECIAL_FILE, "the path is too long")
    return None


def _single(entry: _Entry, gitlinks: Collection[bytes]) -> Odd | None:
    """Why a single entry that is no folder cannot be taken.

    Raises:
        WorkspaceError: git would read it, and must not.
    """
    if entry.size > _MAX_RULES:
        raise Odd(entry.name, ErrorCode.FILE_TOO_LARGE, f"more than {_MAX_RULES} bytes of rules").error()
    if entry.name in gitlinks:
        return Odd(entry.name, ErrorCode.NESTED_REPOSITORY, "it stands in place of a submodule")
    if entry.is_plain:
        return None
    found = Odd(entry.name, ErrorCode.SPECIAL_FILE, "neither a file nor a folder nor a link")
    if last_part(entry.name) in _READ_BY_GIT:
        raise found.error()
    return found
