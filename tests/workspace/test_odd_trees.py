"""Trees that no attack made but that git, the disk or the clock make difficult."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clients import git, git_tree, git_walk
from domain.errors import ErrorCode, WorkspaceError
from tests.contract.place import ROOT
from tests.workspace.place import LIMITS, Place, as_nobody, make_place, nest, plain


@pytest.fixture
def place(state_dir: Path) -> Place:
    return make_place(state_dir)


def salvaged(place: Place) -> tuple[dict[str, str], list[ErrorCode]]:
    """What could be saved, by name, and the codes of what could not."""
    found = git_tree.salvage(place.repo, LIMITS)
    assert found.tree is not None
    listed = plain("ls-tree", "-r", "--name-only", found.tree, cwd=place.repo.common_dir).splitlines()
    blobs = {name: plain("cat-file", "blob", f"{found.tree}:{name}", cwd=place.repo.common_dir) for name in listed}
    return blobs, [error.code for error in found.refused]


def listen(path: Path) -> None:
    """Leaves a socket at a path (bound by a short name: the kernel allows about 100 bytes)."""
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


@pytest.mark.parametrize("make", [os.mkfifo, listen], ids=["fifo", "socket"])
def test_an_untracked_special_file_is_refused_not_skipped(place: Place, make: Callable[[Path], None]) -> None:
    (place.tree / "deep").mkdir()
    make(place.tree / "deep" / "special")
    assert plain("status", "--porcelain", cwd=place.tree) == ""
    assert place.refused() == ErrorCode.SPECIAL_FILE


def test_what_is_ignored_may_hold_anything(place: Place) -> None:
    (place.tree / ".gitignore").write_text("build/\n*.sock\n")
    nest(place.tree / "build")
    os.mkfifo(place.tree / "build" / "fifo")
    listen(place.tree / "of-a-server.sock")
    assert place.snapshot().keys() == {".gitignore", "file.txt"}


@pytest.mark.parametrize("name", [":(glob)x", "-x", "a\nb", "*", "./-"])
def test_special_files_of_any_name_are_found(place: Place, name: str) -> None:
    (place.tree / ".").joinpath(name).parent.mkdir(exist_ok=True)
    os.mkfifo(place.tree / name)
    assert place.refused() == ErrorCode.SPECIAL_FILE


def test_all_but_the_odd_is_saved(place: Place) -> None:
    nest(place.tree / "nested")
    os.mkfifo(place.tree / "fifo")
    with (place.tree / "huge").open("wb") as file:
        file.truncate(3 * 1024**3)
    (place.tree / "file.txt").write_text("two\n")
    (place.tree / "new.txt").write_text("new\n")
    blobs, codes = salvaged(place)
    assert blobs == {"file.txt": "two\n", "new.txt": "new\n"}
    assert set(codes) == {ErrorCode.NESTED_REPOSITORY, ErrorCode.SPECIAL_FILE, ErrorCode.FILE_TOO_LARGE}


def test_a_tracked_file_that_became_odd_stays_as_it_was(place: Place) -> None:
    (place.tree / "file.txt").unlink()
    os.mkfifo(place.tree / "file.txt")
    assert salvaged(place) == ({"file.txt": "one\n"}, [ErrorCode.SPECIAL_FILE])


def test_of_too_many_files_the_first_are_saved_and_the_folder_is_named(place: Place) -> None:
    (place.tree / "out").mkdir()
    for number in range(LIMITS.max_files + 5):
        (place.tree / "out" / f"{number:03}").write_text("x")
    found = git_tree.salvage(place.repo, LIMITS)
    (error,) = found.refused
    assert error.code == ErrorCode.TOO_MANY_FILES and "'out'" in error.detail and "105" in error.detail
    assert len(salvaged(place)[0]) == LIMITS.max_files + 1


def test_line_ends_are_stored_as_the_attributes_say(state_dir: Path) -> None:
    def attributes(source: Path) -> None:
        (source / ".gitattributes").write_text("*.txt text\n")
        plain("add", "-A", cwd=source)

    place = make_place(state_dir, attributes)
    (place.tree / "dos.txt").write_bytes(b"a\r\nb\r\n")
    (place.tree / "dos.dat").write_bytes(b"a\r\nb\r\n")
    assert place.content("dos.txt") == b"a\nb\n" and place.content("dos.dat") == b"a\r\nb\r\n"
    (place.tree / ".gitattributes").write_text("*.dat text\n")
    assert place.content("dos.txt") == b"a\r\nb\r\n" and place.content("dos.dat") == b"a\nb\n"


def test_files_are_checked_out_with_the_line_ends_of_the_attributes_and_stay_unchanged(state_dir: Path) -> None:
    def attributes(source: Path) -> None:
        (source / ".gitattributes").write_text("*.bat text eol=crlf\n")
        (source / "run.bat").write_bytes(b"a\r\nb\r\n")
        plain("add", "-A", cwd=source)

    place = make_place(state_dir, attributes)
    assert (place.tree / "run.bat").read_bytes() == b"a\r\nb\r\n"
    os.utime(place.tree / "run.bat", (1, 1))
    assert git_tree.snapshot(place.repo, LIMITS) == git.word(["rev-parse", "HEAD^{tree}"], repo=place.repo)


def test_a_pointer_of_large_file_storage_stays_a_pointer(state_dir: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 5\n"

    def large(source: Path) -> None:
        (source / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
        (source / "big.bin").write_text(pointer)
        plain("add", "-A", cwd=source)

    place = make_place(state_dir, large)
    os.utime(place.tree / "big.bin", (1, 1))
    assert place.content("big.bin") == pointer.encode()


def test_a_file_that_git_cannot_convert_is_named_and_the_others_are_saved(place: Place) -> None:
    (place.tree / ".gitattributes").write_text("*.u16 working-tree-encoding=UTF-16\n")
    (place.tree / "bad.u16").write_text("no byte order mark")
    (place.tree / "good.txt").write_text("good")
    found = git_tree.salvage(place.repo, LIMITS)
    (error,) = found.refused
    assert error.code == ErrorCode.SPECIAL_FILE and "bad.u16" in error.detail
    assert salvaged(place)[0].keys() == {".gitattributes", "file.txt", "good.txt"}


@pytest.mark.parametrize("name", ["git~1", ".git ", ".git::$INDEX_ALLOCATION"])
def test_names_that_git_takes_for_its_own_are_refused_not_left_out(place: Place, name: str) -> None:
    (place.tree / name).write_text("x")
    assert place.refused() == ErrorCode.SPECIAL_FILE


def test_rules_of_gigabytes_are_not_read(place: Place) -> None:
    with (place.tree / ".gitignore").open("wb") as file:
        file.truncate(3 * 1024**3)
    assert place.refused() == ErrorCode.FILE_TOO_LARGE


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_rules_that_are_a_folder_or_a_link_are_no_rules(place: Place, kind: str) -> None:
    for name in (".gitignore", ".gitattributes"):
        if kind == "folder":
            (place.tree / name).mkdir()
            (place.tree / name / "x").write_text("x")
        else:
            (place.tree / name).symlink_to("file.txt")
    (place.tree / "new.txt").write_text("new")
    assert "new.txt" in place.snapshot()


def test_a_path_too_long_for_git_is_refused_not_left_out(place: Place) -> None:
    here = os.open(place.tree, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    assert place.refused() == ErrorCode.SPECIAL_FILE


def test_looking_at_a_tree_without_end_ends_in_time(place: Place) -> None:
    place.tree.joinpath(*["d"] * 450).mkdir(parents=True)
    assert place.refused() == ErrorCode.SPECIAL_FILE
    with git.within(0), pytest.raises(WorkspaceError) as caught:
        git_walk.look(place.tree, frozenset())
    assert caught.value.code == ErrorCode.WORKSPACE_UNAVAILABLE


def test_names_that_differ_in_case_only_are_both_taken(place: Place) -> None:
    (place.tree / "FILE.txt").write_text("upper\n")
    assert place.content("FILE.txt") == b"upper\n" and place.content("file.txt") == b"one\n"


def test_a_file_and_a_folder_change_places(state_dir: Path) -> None:
    def more(source: Path) -> None:
        (source / "folder").mkdir()
        (source / "folder" / "x").write_text("x")
        (source / "plain").write_text("p")
        plain("add", "-A", cwd=source)

    place = make_place(state_dir, more)
    shutil.rmtree(place.tree / "folder")
    (place.tree / "folder").write_text("now a file")
    (place.tree / "plain").unlink()
    (place.tree / "plain").mkdir()
    (place.tree / "plain" / ".gitattributes").write_text("* text\n")
    assert place.snapshot().keys() == {"file.txt", "folder", "plain/.gitattributes"}


@pytest.mark.parametrize("what", ["file.txt", "locked", ""])
def test_what_the_agent_locked_is_refused_not_taken_for_removed(place: Place, what: str) -> None:
    (place.tree / "locked").mkdir()
    (place.tree / "locked" / "x").write_text("x")

    def check() -> None:
        (place.tree / "file.txt").write_text("two")
        (place.tree / what).chmod(0)
        try:
            assert place.refused() == ErrorCode.SPECIAL_FILE
        finally:
            (place.tree / what).chmod(0o700)

    as_nobody(place, check)


def test_folders_that_may_not_be_written_are_read(place: Place) -> None:
    (place.tree / "fixed").mkdir()
    (place.tree / "fixed" / "x").write_text("x")

    def check() -> None:
        (place.tree / "fixed").chmod(0o500)
        assert "fixed/x" in place.snapshot()

    as_nobody(place, check)


def count_reads(place: Place, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Takes a snapshot; the names of files that were read by us."""
    read: list[str] = []
    copy = git_tree._Stage._copy

    def counted(stage: git_tree._Stage, name: bytes) -> int | None:
        read.append(os.fsdecode(name))
        return copy(stage, name)

    with monkeypatch.context() as patch:
        patch.setattr(git_tree._Stage, "_copy", counted)
        git_tree.snapshot(place.repo, LIMITS)
    return read


def test_only_changed_files_are_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.tree / "new.txt").write_text("new")
    assert count_reads(place, monkeypatch) == ["new.txt"]
    head = git.word(["rev-parse", "HEAD"], repo=place.repo)
    tree = git_tree.snapshot(place.repo, LIMITS)
    git.move_head(place.repo, git.commit_tree(place.repo, head, tree, "m", "bot"))
    assert count_reads(place, monkeypatch) == []


def test_unchanged_files_are_not_read_by_git_either(place: Place) -> None:
    """A file that cannot be read, and that nobody changed since the last look, is in nobody's way."""

    def check() -> None:
        os.utime(place.tree / "file.txt", (1, 1))  # well before the index was written
        git_tree.snapshot(place.repo, LIMITS)
        git.move_head(place.repo, git.word(["rev-parse", "HEAD"], repo=place.repo))
        facts = git.run(["ls-files", "--debug"], repo=place.repo).decode()
        assert "size: 4" in facts and "mtime: 1:0" in facts

    as_nobody(place, check)


def test_an_index_that_a_power_cut_left_empty_is_made_anew(place: Place) -> None:
    (place.repo.git_dir / "index").write_bytes(b"")
    (place.tree / "new.txt").write_text("new")
    assert place.snapshot().keys() == {"file.txt", "new.txt"}


FULL_DISK = """
import os, sys
from pathlib import Path
from clients import git_tree
from domain.errors import CcwebError
from tests.contract.place import ROOT
from tests.workspace.place import LIMITS, make_place
place = make_place(Path(sys.argv[1]))
if sys.argv[2] == "content":
    (place.tree / "new.txt").write_bytes(os.urandom(900_000))
    left = 1_100_000
else:
    left = 0
space = os.statvfs(place.tree)
with open(place.repo.common_dir / "fill", "wb") as file:
    os.posix_fallocate(file.fileno(), 0, max(space.f_bavail * space.f_frsize - left, 1))
try:
    git_tree.snapshot(place.repo, LIMITS)
except CcwebError as error:
    print(error.code)
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("what", ["index", "content"])
def test_a_full_disk_is_told_as_such(state_dir: Path, what: str) -> None:
    script = (
        f"mount -t tmpfs -o size=6m none {state_dir} && exec {sys.executable} -c '{FULL_DISK}' {state_dir} {what}"
    )
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.strip() in {ErrorCode.DISK_FULL, "No space left on device"}, done


def test_nothing_is_left_over_of_a_snapshot(place: Place) -> None:
    before = sorted(place.repo.git_dir.iterdir())
    (place.tree / "new.txt").write_text("new")
    place.snapshot()
    assert sorted(place.repo.git_dir.iterdir()) == before
