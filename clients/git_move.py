"""Moves a worktree to another commit in place: only what the branch changed is touched, and nothing else is lost.

No git writes into the agent's tree: it could lead a checkout out of it by a link. Git checks the files out where
the agent cannot reach, and each is renamed into place through folders opened part by part. Standard library only.
"""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from clients import git, git_tree, git_walk
from clients.git import Repo
from domain.errors import ErrorCode, WorkspaceError

_GONE = b"000000"
_GITLINK = b"160000"


@dataclass(frozen=True, slots=True)
class _Entry:
    mode: bytes
    sha: bytes

    @property
    def is_file(self) -> bool:
        return self.mode not in {_GONE, _GITLINK}


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do to a worktree.

    `own`: whether it has changes that `target` has not. `conflicts`: paths that both changed, each in its own way.
    """

    target: str
    entries: Mapping[bytes, _Entry]
    own: bool
    conflicts: tuple[bytes, ...]


def plan(repo: Repo, target: str, tree: str) -> Plan:
    """How to move a worktree whose content is `tree` from its HEAD to `target` and keep its own changes.

    Raises:
        WorkspaceError: workspace_unavailable.
    """
    theirs, ours = _changes(repo, "HEAD", git.check_sha(target)), _changes(repo, "HEAD", git.check_sha(tree))
    both = {name for name in theirs.keys() & ours.keys() if theirs[name] != ours[name]}
    conflicts = both | _in_the_way(theirs, ours) | _in_the_way(ours, theirs)
    todo = {name: entry for name, entry in theirs.items() if name not in ours}
    own = any(theirs.get(name) != entry for name, entry in ours.items())
    return Plan(target, todo, own, tuple(sorted(conflicts)))


def move(repo: Repo, plan: Plan) -> None:
    """Does it; HEAD moves last. Done again after a cut, with a plan made anew, it ends in the same state.

    Raises:
        WorkspaceError: workspace_dirty, an ignored folder stands where a file belongs (a person decides),
            disk_full, workspace_unavailable.
    """
    for name, entry in plan.entries.items():
        if not entry.is_file:
            _remove(repo.worktree, name)
    files = [name for name, entry in plan.entries.items() if entry.is_file]
    with git_tree.scratch(repo) as folder:
        copies = Repo(repo.git_dir, repo.common_dir, folder / "tree")
        copies.worktree.mkdir()
        extra = {"GIT_INDEX_FILE": str(folder / "index")}
        git.run(["read-tree", git.check_sha(plan.target)], repo=copies, extra=extra)
        names = b"".join(name + b"\0" for name in files)
        git.run(["checkout-index", "-z", "--stdin"], repo=copies, extra=extra, data=names)
        for name in files:
            _put(repo.worktree, name, copies.worktree)
    git.move_head(repo, plan.target)


def _changes(repo: Repo, old: str, new: str) -> dict[bytes, _Entry]:
    """Path to what it is in `new`, for all paths that differ."""
    fields = git.run(["diff-tree", "-r", "-z", "--raw", "--no-renames", old, new], repo=repo).split(b"\0")
    pairs = zip(fields[::2], fields[1::2], strict=False)
    return {name: _Entry(*facts.split(b" ")[1:4:2]) for facts, name in pairs}


def _in_the_way(changed: Mapping[bytes, _Entry], other: Mapping[bytes, _Entry]) -> set[bytes]:
    """Files of `changed` below which `other` has files too."""
    files = {name for name, entry in changed.items() if entry.is_file}
    return {folder for name, entry in other.items() if entry.is_file for folder in _folders(name) if folder in files}


def _folders(name: bytes) -> Iterator[bytes]:
    parts = name.split(b"/")
    return (b"/".join(parts[:end]) for end in range(1, len(parts)))


def _remove(root: Path, name: bytes) -> None:
    """Removes a file, and the folders that it leaves empty; what else took its place stays."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), _writable(root, name) as (folder, last):
        if stat.S_ISDIR(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode):
            return
        os.unlink(last, dir_fd=folder)
    with contextlib.suppress(OSError):  # the first that holds something ends it
        for above in reversed(list(_folders(name))):
            with _writable(root, above) as (folder, last):
                os.rmdir(last, dir_fd=folder)


def _put(root: Path, name: bytes, copies: Path) -> None:
    """Renames a checked-out file into place; an ignored file or link in the way of its folders goes."""
    for above in _folders(name):
        _make_folder(root, above)
    with _writable(root, name) as (folder, last), git_walk.parent(copies, name) as (source, _):
        with contextlib.suppress(OSError):
            os.rmdir(last, dir_fd=folder)  # an empty folder, that of a submodule say, makes room
        try:
            os.rename(last, last, src_dir_fd=source, dst_dir_fd=folder)
        except IsADirectoryError:
            detail = (
                f"{git_walk.shown(name)}: a folder stands where the branch has a file; move it away, then unblock"
            )
            raise WorkspaceError(ErrorCode.WORKSPACE_DIRTY, detail) from None


def _make_folder(root: Path, name: bytes) -> None:
    with _writable(root, name) as (folder, last):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISDIR(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(last, dir_fd=folder)
        with contextlib.suppress(FileExistsError):
            os.mkdir(last, dir_fd=folder)


@contextlib.contextmanager
def _writable(root: Path, name: bytes) -> Iterator[tuple[int, bytes]]:
    """As `git_walk.parent`, and the folder may be written to: the agent may have locked it."""
    with git_walk.parent(root, name) as (folder, last):
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        if mode & 0o300 != 0o300:
            os.fchmod(folder, mode | 0o700)
        yield folder, last


def shown(names: Iterable[bytes], most: int = 5) -> str:
    """Some names for a message."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(git_walk.shown(name) for name in listed[:most]) + more
