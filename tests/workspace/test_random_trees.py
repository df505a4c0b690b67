"""Snapshots and moves of random trees give what plain git gives on a tree that nobody tampers with."""

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import git, git_move, git_tree
from tests.workspace.place import LIMITS, Place, make_place, plain

NAMES = ["a", "b", "c", "dir", "a b", "é", ".gitattributes", "x.ign", "keep.txt"]
TEXTS = ["", "one\n", "two\r\nlines\r\n", "\0binary", "*.txt text\n"]


def paths(chance: random.Random) -> Iterator[str]:
    for _ in range(chance.randint(1, 6)):
        yield "/".join(chance.choices(NAMES, k=chance.randint(1, 3)))


def clear(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


def scribble(tree: Path, chance: random.Random) -> None:
    """Adds, changes, removes and replaces files, folders, links and modes."""
    for name in paths(chance):
        path = tree / name
        for above in list(path.relative_to(tree).parents)[-2::-1]:
            if not (tree / above).is_dir() or (tree / above).is_symlink():
                clear(tree / above)
        clear(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        match chance.choice(["file", "file", "program", "link", "gone"]):
            case "file":
                path.write_bytes(chance.choice(TEXTS).encode())
            case "program":
                path.write_bytes(b"#!/bin/sh\n")
                path.chmod(0o755)
            case "link":
                path.symlink_to(chance.choice(["a", "/etc", "../.."]))


def trusted_tree(place: Place) -> str:
    """The tree as `git add -A` makes it, in an index of its own."""
    index = {"GIT_INDEX_FILE": str(place.tree.parent / "index")}
    git.run(["read-tree", "HEAD"], repo=place.repo, extra=index)
    git.run(["add", "-A"], repo=place.repo, extra={**index, "GIT_LITERAL_PATHSPECS": "0"})
    return git.run(["write-tree"], repo=place.repo, extra=index).decode().strip()


def content(tree: Path) -> dict[str, tuple[str, bytes]]:
    """Everything that lies in a worktree but empty folders."""
    found = {}
    for folder, folders, files in os.walk(tree):
        for name in [*files, *(name for name in folders if (Path(folder) / name).is_symlink())]:
            path = Path(folder) / name
            mode = "link" if path.is_symlink() else oct(path.stat().st_mode & 0o100)
            found[str(path.relative_to(tree))] = (
                mode,
                os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes(),
            )
    found.pop(".git", None)
    return found


def commit(place: Place, tree: str) -> str:
    return git.commit_tree(place.repo, git.word(["rev-parse", "HEAD"], repo=place.repo), tree, "m", "bot")


@pytest.fixture
def place(state_dir: Path) -> Place:
    def ignore(source: Path) -> None:
        (source / ".gitignore").write_text("*.ign\n")
        plain("add", "-A", cwd=source)

    return make_place(state_dir, ignore)


@pytest.mark.parametrize("seed", range(4))
def test_a_snapshot_is_what_git_would_commit(place: Place, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(4):
        scribble(place.tree, chance)
        tree = git_tree.snapshot(place.repo, LIMITS)
        assert tree == trusted_tree(place), plain(
            "diff", "--raw", tree, trusted_tree(place), cwd=place.repo.common_dir
        )
        if chance.random() < 0.5:
            git.move_head(place.repo, commit(place, tree))


@pytest.mark.parametrize("seed", range(4))
def test_a_move_gives_the_files_of_the_target_and_keeps_what_is_ours(place: Place, seed: int) -> None:
    chance = random.Random(seed)
    home = git.word(["rev-parse", "HEAD"], repo=place.repo)
    for _ in range(4):
        scribble(place.tree, chance)
        git.move_head(place.repo, commit(place, git_tree.snapshot(place.repo, LIMITS)))
    target, wanted = git.word(["rev-parse", "HEAD"], repo=place.repo), content(place.tree)
    back = git_move.plan(place.repo, home, git_tree.snapshot(place.repo, LIMITS))
    assert back.conflicts == () and not back.own
    git_move.move(place.repo, back)
    assert git_tree.snapshot(place.repo, LIMITS) == git.word(["rev-parse", f"{home}^{{tree}}"], repo=place.repo)
    (place.tree / "ours.txt").write_text("ours")
    forth = git_move.plan(place.repo, target, git_tree.snapshot(place.repo, LIMITS))
    assert forth.conflicts == () and forth.own
    git_move.move(place.repo, forth)
    assert content(place.tree) == {**wanted, "ours.txt": ("0o0", b"ours")}
