"""A repository, its clone and a worktree that an agent owns, for tests that plant things there."""

import multiprocessing
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from clients import git, git_tree
from clients.git import Limits, Repo
from domain.errors import ErrorCode, WorkspaceError

NOBODY = 65534
LIMITS = Limits(max_file_bytes=1_000_000, max_files=100)
PERSON = {f"GIT_{who}_{what}": "x@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def plain(*arguments: str, cwd: Path, check: bool = True, timeout: float = 20) -> str:
    """git as a naive program runs it: in the agent's folder, believing what it finds there."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd.parent), **PERSON}
    done = subprocess.run(
        ["git", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=check
    )
    return done.stdout


def nest(folder: Path) -> None:
    """A repository of the agent's own, with a commit."""
    folder.mkdir()
    plain("init", "-q", cwd=folder)
    (folder / "inner.txt").write_text("inner")
    plain("add", "-A", cwd=folder)
    plain("commit", "-q", "-m", "inner", cwd=folder)


@dataclass(frozen=True)
class Place:
    """A bare clone outside, a detached worktree that the agent owns, and a file that planted code would make."""

    repo: Repo
    tree: Path
    proof: Path

    def program(self, name: str) -> Path:
        """A program of the agent's that proves that it ran."""
        path = self.tree.parent / name
        path.write_text(f"#!/bin/sh\ntouch {self.proof}\ncat\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def ran(self) -> bool:
        """Whether planted code ran since the last look."""
        found = self.proof.exists()
        self.proof.unlink(missing_ok=True)
        return found

    def snapshot(self) -> dict[str, str]:
        """Name to mode and blob of what publish would commit."""
        listed = git.run(["ls-tree", "-r", "-z", git_tree.snapshot(self.repo, LIMITS)], repo=self.repo)
        entries = (entry.split(b"\t", 1) for entry in listed.split(b"\0") if entry)
        return {os.fsdecode(name): facts.decode() for facts, name in entries}

    def content(self, name: str) -> bytes:
        blob = self.snapshot()[name].split()[2]
        return git.run(["cat-file", "blob", blob], repo=self.repo)

    def refused(self) -> ErrorCode:
        with pytest.raises(WorkspaceError) as caught:
            git_tree.snapshot(self.repo, LIMITS)
        return caught.value.code


def make_place(root: Path, prepare: Callable[[Path], None] = lambda _: None) -> Place:
    source, clone, tree = root / "source", root / "clone.git", root / "trees" / "issue-1"
    source.mkdir()
    plain("init", "-q", "-b", "main", cwd=source)
    (source / "file.txt").write_text("one\n")
    plain("add", "-A", cwd=source)
    prepare(source)
    plain("commit", "-q", "-m", "first", cwd=source)
    plain("clone", "-q", "--bare", str(source), str(clone), cwd=root)
    tree.parent.mkdir()
    git.run(["worktree", "add", "--quiet", "--detach", "--no-checkout", str(tree), "main"], git_dir=clone)
    repo = Repo(clone / "worktrees" / "issue-1", clone, tree)
    git.index_head(repo)
    git.run(["checkout-index", "--all", "--index", "--quiet"], repo=repo)
    return Place(repo, tree, root / "proof")


def as_nobody(place: Place, check: Callable[[], None]) -> None:
    """Runs `check` as a user whom permissions bind, in a process of its own when we are root."""
    if os.getuid() != 0:
        check()
        return
    for folder, _, files in os.walk(place.tree.parent.parent):
        for path in (Path(folder), *(Path(folder) / name for name in files)):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def drop_and_check() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        check()

    process = multiprocessing.get_context("fork").Process(target=drop_and_check)
    process.start()
    process.join()
    assert process.exitcode == 0
