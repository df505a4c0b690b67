"""What an agent can plant in its worktree. Each test first shows that the trick works on plain git."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import git, git_tree
from domain.errors import ErrorCode, WorkspaceError
from tests.workspace.place import LIMITS, Place, make_place, plain

ODD_NAMES = [b"-rf", b"a\nb", b'"quoted"', b"caf\xe9", b"  blank ", b":(glob)*", b"*.txt", b"@{0}"]


@pytest.fixture
def place(state_dir: Path) -> Iterator[Place]:
    yield make_place(state_dir)


def test_edits_additions_removals_links_and_modes_are_taken(place: Place) -> None:
    (place.tree / "file.txt").unlink()
    (place.tree / "deep" / "er").mkdir(parents=True)
    (place.tree / "deep" / "er" / "new.sh").write_text("#!/bin/sh\n")
    (place.tree / "deep" / "er" / "new.sh").chmod(0o755)
    (place.tree / "link").symlink_to("deep/er/new.sh")
    taken = place.snapshot()
    assert {name: facts.split()[0] for name, facts in taken.items()} == {
        "deep/er/new.sh": "100755",
        "link": "120000",
    }


def test_a_replaced_git_file_leads_nowhere(place: Place) -> None:
    (place.tree / ".git").unlink()
    plain("init", "-q", cwd=place.tree)
    plain("config", "core.fsmonitor", str(place.program("monitor")), cwd=place.tree)
    plain("status", cwd=place.tree)
    assert place.ran()
    (place.tree / "new.txt").write_text("new")
    assert "new.txt" in place.snapshot()
    assert not place.ran()


def test_an_fsmonitor_in_the_clones_configuration_does_not_run(place: Place) -> None:
    plain("config", "core.fsmonitor", str(place.program("monitor")), cwd=place.repo.common_dir)
    plain("status", cwd=place.tree)
    assert place.ran()
    place.snapshot()
    assert not place.ran()


def test_a_foreign_commondir_is_not_followed(place: Place, state_dir: Path) -> None:
    evil = state_dir / "evil.git"
    plain("clone", "-q", "--bare", str(state_dir / "source"), str(evil), cwd=state_dir)
    plain("config", "core.fsmonitor", str(place.program("monitor")), cwd=evil)
    (place.repo.git_dir / "commondir").write_text(f"{evil}\n")
    plain("status", cwd=place.tree)
    assert place.ran()
    place.snapshot()
    assert not place.ran()


def test_hooks_do_not_run(place: Place) -> None:
    hooks = place.repo.common_dir / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "post-index-change", "reference-transaction"):
        place.program(name).rename(hooks / name)
    (place.tree / "new.txt").write_text("new")
    plain("add", "-A", cwd=place.tree)
    assert place.ran()
    tree = git_tree.snapshot(place.repo, LIMITS)
    head = git.word(["rev-parse", "HEAD"], repo=place.repo)
    git.move_head(place.repo, git.commit_tree(place.repo, head, tree, "m", "bot"))
    assert not place.ran()


def nested_with_filter(place: Place, folder: Path) -> None:
    """A repository of the agent's own, whose clean filter runs when git looks at a changed file in it."""
    folder.mkdir(exist_ok=True)
    plain("init", "-q", cwd=folder)
    (folder / ".gitattributes").write_text("* filter=evil\n")
    (folder / "inner.txt").write_text("inner")
    plain("add", "inner.txt", ".gitattributes", cwd=folder)
    plain("commit", "-q", "-m", "inner", cwd=folder)
    plain("config", "filter.evil.clean", str(place.program("filter")), cwd=folder)
    (folder / "inner.txt").write_text("changed")
    os.utime(folder / "inner.txt", (1, 1))


def add_gitlink(source: Path) -> None:
    inner = "1" * 40
    plain("update-index", "--add", "--cacheinfo", f"160000,{inner},sub", cwd=source)


def test_a_repository_planted_at_a_gitlink_is_never_looked_into(state_dir: Path) -> None:
    place = make_place(state_dir, add_gitlink)
    nested_with_filter(place, place.tree / "sub")
    git.run(["update-index", "-z", "--no-skip-worktree", "--stdin"], repo=place.repo, data=b"sub\0")
    plain("status", cwd=place.tree)
    assert place.ran()
    git.index_head(place.repo)
    plain("status", cwd=place.tree)
    assert not place.ran(), "Codex's own git status at the start of a turn"
    assert place.refused() == ErrorCode.NESTED_REPOSITORY
    assert not place.ran()


def test_a_submodule_stays_as_it_is(state_dir: Path) -> None:
    place = make_place(state_dir, add_gitlink)
    (place.tree / "new.txt").write_text("new")
    assert place.snapshot()["sub"].startswith("160000 commit 1111")


def test_files_in_the_folder_of_a_submodule_are_not_left_out_in_silence(state_dir: Path) -> None:
    place = make_place(state_dir, add_gitlink)
    (place.tree / "sub").mkdir()
    (place.tree / "sub" / "work.txt").write_text("work")
    assert plain("status", "--porcelain", cwd=place.tree) == ""
    assert place.refused() == ErrorCode.NESTED_REPOSITORY


def test_a_nested_repository_is_refused(place: Place) -> None:
    nested_with_filter(place, place.tree / "nested")
    plain("add", "-A", cwd=place.tree)
    assert "160000" in plain("ls-files", "-s", cwd=place.tree)
    place.ran()
    assert place.refused() == ErrorCode.NESTED_REPOSITORY
    assert not place.ran()


def test_a_repository_in_place_of_a_file_is_refused_and_never_looked_into(place: Place) -> None:
    (place.tree / "file.txt").unlink()
    nested_with_filter(place, place.tree / "file.txt")
    plain("status", cwd=place.tree / "file.txt")
    assert place.ran()
    assert place.refused() == ErrorCode.NESTED_REPOSITORY
    git_tree.salvage(place.repo, LIMITS)
    assert not place.ran()


def test_a_filter_attribute_runs_nothing(place: Place) -> None:
    plain("config", "filter.evil.clean", str(place.program("filter")), cwd=place.tree.parent.parent / "source")
    (place.tree / ".gitattributes").write_text("* filter=evil\n")
    (place.tree / "file.txt").write_text("two\n")
    assert place.content("file.txt") == b"two\n"
    assert not place.ran()


def test_a_file_swapped_for_a_link_in_a_loop_never_leaks_its_target(place: Place, state_dir: Path) -> None:
    secret = state_dir / "secret"
    secret.write_text("TOP SECRET")
    blob = git.run(["hash-object", "--stdin"], repo=place.repo, data=b"TOP SECRET").strip().decode()
    stop = threading.Event()
    swapped = place.tree / "swapped"

    def swap() -> None:
        while not stop.is_set():
            swapped.unlink(missing_ok=True)
            swapped.symlink_to(secret)
            swapped.unlink()
            swapped.write_text("harmless")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        assert any(_naive_read(swapped) == b"TOP SECRET" for _ in range(100_000))
        for _ in range(15):
            try:
                assert blob not in " ".join(place.snapshot().values())
            except WorkspaceError as error:
                assert error.code == ErrorCode.SPECIAL_FILE
    finally:
        stop.set()
        thread.join()


def _naive_read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_link_out_of_the_tree_is_stored_as_a_link(place: Place) -> None:
    (place.tree / "out").symlink_to("/etc/hostname")
    assert place.snapshot()["out"].startswith("120000")
    assert place.content("out") == b"/etc/hostname"


def test_a_folder_replaced_by_a_link_is_a_link(state_dir: Path) -> None:
    def folder(source: Path) -> None:
        (source / "folder").mkdir()
        (source / "folder" / "passwd").write_text("x")
        plain("add", "-A", cwd=source)

    place = make_place(state_dir, folder)
    (place.tree / "folder" / "passwd").unlink()
    (place.tree / "folder").rmdir()
    (place.tree / "folder").symlink_to("/etc")
    assert (place.tree / "folder" / "passwd").read_bytes() != b"x"
    taken = place.snapshot()
    assert taken["folder"].startswith("120000") and "folder/passwd" not in taken


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
def test_rules_that_are_a_fifo_are_refused_at_once(place: Place, name: str) -> None:
    os.mkfifo(place.tree / name)
    (place.tree / "file.txt").write_text("changed")
    with pytest.raises(subprocess.TimeoutExpired):
        plain("add", "-A", cwd=place.tree, timeout=1)
    started = time.monotonic()
    assert place.refused() == ErrorCode.SPECIAL_FILE
    assert time.monotonic() - started < 5


def test_a_fifo_in_place_of_a_file_is_refused(place: Place) -> None:
    (place.tree / "file.txt").unlink()
    os.mkfifo(place.tree / "file.txt")
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["cat", str(place.tree / "file.txt")], timeout=0.5, check=False)
    assert place.refused() == ErrorCode.SPECIAL_FILE


def test_a_huge_file_and_too_many_files_are_refused(place: Place) -> None:
    with (place.tree / "huge").open("wb") as file:
        file.truncate(3 * 1024**3)
    assert place.refused() == ErrorCode.FILE_TOO_LARGE
    (place.tree / "huge").unlink()
    for number in range(LIMITS.max_files + 1):
        (place.tree / f"{number}.txt").write_text("x")
    assert place.refused() == ErrorCode.TOO_MANY_FILES


def test_a_git_folder_in_capitals_is_refused(place: Place) -> None:
    (place.tree / ".GIT").mkdir()
    (place.tree / ".GIT" / "config").write_text("x")
    assert place.refused() == ErrorCode.NESTED_REPOSITORY


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_taken_as_they_are(place: Place, name: bytes) -> None:
    (place.tree / os.fsdecode(name)).write_text("odd")
    assert place.content(os.fsdecode(name)) == b"odd"


def test_three_hundred_levels_are_taken(place: Place) -> None:
    deep = place.tree.joinpath(*(["d"] * 300))
    deep.mkdir(parents=True)
    (deep / "leaf").write_text("x")
    assert any(name.endswith("/leaf") for name in place.snapshot())


def test_a_replace_ref_does_not_change_what_is_committed(place: Place) -> None:
    original = git.word(["rev-parse", "HEAD:file.txt"], repo=place.repo)
    fake = git.run(["hash-object", "-w", "--stdin"], repo=place.repo, data=b"fake\n").decode().strip()
    plain("replace", original, fake, cwd=place.repo.common_dir)
    assert plain("cat-file", "blob", original, cwd=place.repo.common_dir) == "fake\n"
    assert place.content("file.txt") == b"one\n"
