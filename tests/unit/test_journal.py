import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from clients import journal
from clients.journal import JournalLine

INTENT = JournalLine(
    at=1.5,
    pid=os.getpid(),
    call_id="c1",
    phase="intent",
    tool="reply",
    task_id="task",
    turn_id="turn",
    round=1,
    lease_id="lease",
    fields={"chars": 3, "text": "文"},
)


def ended_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_lines_are_read_back_in_order(tmp_path: Path) -> None:
    result = replace(INTENT, phase="result")
    for line in (INTENT, result):
        journal.append(tmp_path / "new", line)
    assert journal.read(tmp_path / "new", "task") == [INTENT, result]
    assert journal.read(tmp_path, "other") == []


def test_a_line_cut_by_a_crash_is_left_out(tmp_path: Path) -> None:
    journal.append(tmp_path, INTENT)
    path = journal.path_of(tmp_path, "task")
    whole = path.read_text()
    path.write_text(whole + whole[:20])
    assert journal.read(tmp_path, "task") == [INTENT]


def test_an_intent_is_in_flight_until_its_result(tmp_path: Path) -> None:
    journal.append(tmp_path, INTENT)
    journal.append(tmp_path, replace(INTENT, call_id="c2"))
    journal.append(tmp_path, replace(INTENT, phase="result"))
    assert [line.call_id for line in journal.in_flight(tmp_path, "task")] == ["c2"]


def test_an_intent_of_a_dead_bridge_is_not_in_flight(tmp_path: Path) -> None:
    journal.append(tmp_path, replace(INTENT, pid=ended_pid()))
    assert journal.in_flight(tmp_path, "task") == []


def test_the_journal_is_the_owners_only(tmp_path: Path) -> None:
    journal.append(tmp_path / "j", INTENT)
    assert journal.path_of(tmp_path / "j", "task").stat().st_mode & 0o077 == 0
