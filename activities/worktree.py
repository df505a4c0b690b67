"""The files that make a folder a worktree of the clone: made, mended and removed by us, never pruned by git.

`git worktree prune` takes a worktree whose `.git` is missing for gone and throws away what it knows of it, so it is
never run. All three files are ours to write again at any time.
"""

import contextlib
import os
import shutil
import stat
import time
from pathlib import Path

from activities.layout import Layout
from clients import folders, git, git_walk
from domain.errors import ErrorCode, WorkspaceError


def make(layout: Layout, commit: str) -> None:
    """A fresh detached worktree; what was there goes.

    Raises:
        WorkspaceError: workspace_unavailable, disk_full.
    """
    erase(layout)
    layout.worktree.mkdir(parents=True)
    _register(layout, commit)
    _point(layout)
    git.index_head(layout.repo)
    git.run(["checkout-index", "--all", "--index", "--quiet"], repo=layout.repo)


def mend(layout: Layout, head: str) -> None:
    """Writes again what the clone must know of a worktree, where that is lost; `head` is where it last stood."""
    try:
        git.check_sha((layout.git_dir / "HEAD").read_text(encoding="utf-8").strip())
    except (FileNotFoundError, ValueError, WorkspaceError):
        _register(layout, head)
    if (mode := stat.S_IMODE(layout.worktree.stat().st_mode)) & 0o700 != 0o700:
        layout.worktree.chmod(mode | 0o700)


def mend_pointer(layout: Layout) -> None:
    """Writes a worktree's `.git` file again unless it is as we made it.

    Raises:
        WorkspaceError: workspace_dirty, a folder that may hold work stands in its place.
    """
    path = layout.worktree / ".git"
    with contextlib.suppress(FileNotFoundError):
        facts = path.lstat()
        if stat.S_ISDIR(facts.st_mode):
            detail = (
                f"'.git': a repository stands in place of this file; move it out of {layout.worktree}, then unblock"
            )
            raise WorkspaceError(ErrorCode.WORKSPACE_DIRTY, detail)
        if stat.S_ISREG(facts.st_mode) and _read(path) == _pointer(layout):
            return
        path.unlink()
    _point(layout)


def erase(layout: Layout) -> None:
    """Removes a worktree and what the clone knows of it.

    Raises:
        WorkspaceError: workspace_unavailable, something is still there.
    """
    folders.erase(layout.worktree)
    shutil.rmtree(layout.git_dir, ignore_errors=True)


def clear_locks(layout: Layout, older_than: float) -> None:
    """Removes lock files that a git killed with its host left: nothing of ours works longer than that in seconds."""
    latest = time.time() - older_than
    for pattern in ("*.lock", "refs/**/*.lock", "worktrees/*/*.lock"):
        for lock in layout.clone.glob(pattern):
            with contextlib.suppress(FileNotFoundError):
                if lock.stat().st_mtime < latest:
                    lock.unlink()


def _register(layout: Layout, commit: str) -> None:
    layout.git_dir.mkdir(parents=True, exist_ok=True)
    (layout.git_dir / "commondir").write_text("../..\n", encoding="utf-8")
    (layout.git_dir / "gitdir").write_text(f"{layout.worktree / '.git'}\n", encoding="utf-8")
    (layout.git_dir / "HEAD").write_text(f"{git.check_sha(commit)}\n", encoding="utf-8")


def _point(layout: Layout) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(layout.worktree / ".git", flags, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(_pointer(layout))


def _pointer(layout: Layout) -> str:
    return f"gitdir: {layout.git_dir}\n"


def _read(path: Path) -> str:
    with os.fdopen(os.open(path, git_walk.PLAIN), encoding="utf-8", errors="replace") as file:
        return file.read(1000)
