"""The archive's chain: whatever is changed, missing or moved is found; a line cut by a kill is mended."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations import archive
from operations.archive import GENESIS, Head
from tests.conftest import scratch_dir


def event(number: int) -> dict[str, Any]:
    return {"eventId": f"w/r/{number}", "action": "task.move", "metadata": {"文": "字", "n": number}}


def filled(folder: Path, lines: int = 9) -> Head:
    folder.mkdir(exist_ok=True)
    head = Head()
    for number in range(1, lines + 1):
        head = archive.append(folder, head, [event(number)])
    return head


def only_file(folder: Path) -> Path:
    [path] = folder.glob("*.jsonl")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    filled(tmp_path / "audit")
    return tmp_path / "audit"


def rewrite(folder: Path, lines: list[bytes]) -> None:
    only_file(folder).write_bytes(b"".join(lines))


def test_an_untouched_archive_is_sound(folder: Path) -> None:
    report = archive.verify(folder)
    assert report.ok and report.head.seq == 9 and report.cut == 0
    assert only_file(folder).stat().st_mode & 0o777 == 0o600


def test_an_empty_archive_is_sound(tmp_path: Path) -> None:
    assert archive.verify(tmp_path).head == Head(0, GENESIS)


def test_every_single_changed_byte_is_found(folder: Path) -> None:
    whole = only_file(folder).read_bytes()
    for place in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[place] ^= 1
        only_file(folder).write_bytes(bytes(changed))
        report = archive.verify(folder)
        assert not report.ok or report.cut, f"byte {place}"


@pytest.mark.parametrize("missing", range(8))
def test_a_missing_line_is_found_with_its_place(folder: Path, missing: int) -> None:
    lines = only_file(folder).read_bytes().splitlines(keepends=True)
    rewrite(folder, lines[:missing] + lines[missing + 1 :])
    [problem] = archive.verify(folder).problems
    assert f":{missing + 1}: seq {missing + 2} after {missing}" in problem


def test_lines_that_changed_places_or_stand_twice_are_found(folder: Path) -> None:
    lines = only_file(folder).read_bytes().splitlines(keepends=True)
    rewrite(folder, [*lines[:3], lines[4], lines[3], *lines[5:]])
    assert not archive.verify(folder).ok
    rewrite(folder, [*lines[:3], lines[2], *lines[3:]])
    assert not archive.verify(folder).ok


def test_a_line_changed_with_a_fitting_hash_is_found_by_the_next(folder: Path) -> None:
    lines = only_file(folder).read_bytes().splitlines(keepends=True)
    found = json.loads(lines[4])
    found["event"]["action"] = "nothing"
    found["hash"] = archive._hash(found["seq"], found["prev"], found["event"])
    rewrite(folder, [*lines[:4], json.dumps(found).encode() + b"\n", *lines[5:]])
    [problem] = archive.verify(folder).problems
    assert ":6: does not follow the line before" in problem


def test_a_missing_end_is_found_by_a_head_told_elsewhere(folder: Path) -> None:
    known = {5: archive_hash(folder, 5), 9: archive_hash(folder, 9)}
    assert archive.verify(folder, known).ok
    lines = only_file(folder).read_bytes().splitlines(keepends=True)
    rewrite(folder, lines[:7])
    assert archive.verify(folder).ok
    [problem] = archive.verify(folder, known).problems
    assert "the end is missing: 9 lines were exported, 7 are there" in problem


def test_a_chain_made_anew_is_found_by_a_head_told_elsewhere(folder: Path) -> None:
    known = {5: archive_hash(folder, 5)}
    only_file(folder).unlink()
    archive.append(folder, Head(), [event(number + 100) for number in range(9)])
    assert archive.verify(folder).ok
    [problem] = archive.verify(folder, known).problems
    assert "made anew" in problem


def archive_hash(folder: Path, seq: int) -> str:
    return next(str(line.hash) for line in archive.read(folder) if line.seq == seq)


def test_files_of_several_months_are_one_chain(folder: Path) -> None:
    lines = only_file(folder).read_bytes().splitlines(keepends=True)
    path = only_file(folder)
    path.unlink()
    for name, part in (("2026-01", lines[:3]), ("2026-02", lines[3:6]), ("2026-03", lines[6:])):
        (folder / f"{name}.jsonl").write_bytes(b"".join(part))
    assert archive.verify(folder).ok
    (folder / "2026-02.jsonl").unlink()
    [problem] = archive.verify(folder).problems
    assert "2026-03.jsonl:1: seq 7 after 3" in problem


@given(st.integers(1, 400), st.integers(1, 70_000))
def test_a_line_cut_anywhere_is_mended_and_the_chain_goes_on(cut: int, size: int) -> None:
    with scratch_dir() as scratch:
        head = filled(scratch / "audit", 2)
        folder = scratch / "audit"
        archive.append(folder, head, [{"eventId": "w/r/3", "text": "x" * size}])
        path = only_file(folder)
        whole = path.read_bytes()
        last = whole.splitlines(keepends=True)[-1]
        keep = min(cut, len(last) - 1)
        path.write_bytes(whole[: len(whole) - len(last) + keep])
        report = archive.verify(folder)
        assert report.ok and report.cut == keep and report.head == head
        assert archive.mend(folder) == keep
        after = archive.append(folder, report.head, [event(3)])
        assert archive.verify(folder).ok and archive.verify(folder).head == after


def test_only_one_may_append(folder: Path) -> None:
    with archive.locked(folder), pytest.raises(BlockingIOError), archive.locked(folder):
        pass
    with archive.locked(folder):
        pass
