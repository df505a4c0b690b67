"""Moving a worktree in place over what an agent left there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from clients import git, git_move, git_tree
from tests.workspace.place import LIMITS, Place, as_nobody, make_place, plain


@pytest.fixture
def place(state_dir: Path) -> Place:
    return make_place(state_dir)


def branch(place: Place, change: Callable[[Path], None]) -> str:
    """A commit on top of the first one, from elsewhere."""
    source = place.tree.parent.parent / "source"
    change(source)
    plain("add", "-A", cwd=source)
    plain("commit", "-q", "-m", "second", cwd=source)
    plain("fetch", "-q", str(source), "main", cwd=place.repo.common_dir)
    return plain("rev-parse", "HEAD", cwd=source).strip()


def move(place: Place, commit: str) -> None:
    git_move.move(place.repo, git_move.plan(place.repo, commit, git_tree.snapshot(place.repo, LIMITS)))
    assert git.word(["rev-parse", "HEAD"], repo=place.repo) == commit


def test_a_submodule_comes_moves_and_goes(place: Place) -> None:
    def a_file(source: Path) -> None:
        plain("update-index", "--force-remove", "sub", cwd=source)
        (source / "sub").write_text("now a file")

    for sha in ("1" * 40, "2" * 40):
        source = place.tree.parent.parent / "source"
        (source / "sub").mkdir(exist_ok=True)
        plain("update-index", "--add", "--cacheinfo", f"160000,{sha},sub", cwd=source)
        plain("commit", "-q", "-m", sha, cwd=source)
        plain("fetch", "-q", str(source), "main", cwd=place.repo.common_dir)
        move(place, plain("rev-parse", "HEAD", cwd=source).strip())
        assert place.snapshot()["sub"].startswith(f"160000 commit {sha}")
        (place.tree / "sub").mkdir(exist_ok=True)
    (place.tree.parent.parent / "source" / "sub").rmdir()
    move(place, branch(place, a_file))
    assert (place.tree / "sub").read_text() == "now a file"


def test_folders_that_the_agent_locked_are_written_to(place: Place) -> None:
    def fill(tree: Path) -> None:
        (tree / "locked").mkdir(exist_ok=True)
        (tree / "locked" / "x").write_text("x")
        (tree / "locked" / "gone").write_text("x")

    def change(tree: Path) -> None:
        (tree / "locked" / "x").write_text("y")
        (tree / "locked" / "gone").unlink()

    move(place, branch(place, fill))
    commit = branch(place, change)

    def check() -> None:
        (place.tree / "locked").chmod(0o500)
        move(place, commit)
        assert [path.name for path in (place.tree / "locked").iterdir()] == ["x"] and (
            place.tree / "locked" / "x"
        ).read_text() == "y"

    as_nobody(place, check)


def test_files_come_with_the_line_ends_of_the_new_attributes(place: Place) -> None:
    def change(tree: Path) -> None:
        (tree / ".gitattributes").write_text("*.bat text eol=crlf\n")
        (tree / "run.bat").write_bytes(b"a\r\n")

    commit = branch(place, change)
    move(place, commit)
    assert (place.tree / "run.bat").read_bytes() == b"a\r\n"
    assert git_tree.snapshot(place.repo, LIMITS) == git.word(["rev-parse", "HEAD^{tree}"], repo=place.repo)
