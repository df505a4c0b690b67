"""The bridge's journal: one append-only file of JSON lines per task (design section 9).

Each effect has an `intent` line before the lease is checked and a `result` line after it, so that whoever
revoked the lease can wait until nothing is in flight. Standard library only; holds no secret.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class JournalLine:
    """`phase` is `intent` or `result`; `pid` is the bridge's; `fields` are the tool's own."""

    at: float
    pid: int
    call_id: str
    phase: str
    tool: str
    task_id: str
    turn_id: str
    round: int
    lease_id: str
    fields: dict[str, Any]


def append(directory: Path, line: JournalLine) -> None:
    """Adds a line; it is on disk when this returns."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    data = json.dumps({name: getattr(line, name) for name in JournalLine.__slots__}, ensure_ascii=False) + "\n"
    descriptor = os.open(path_of(directory, line.task_id), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, data.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(directory: Path, task_id: str) -> list[JournalLine]:
    """All complete lines of a task, oldest first; a line cut by a crash is left out."""
    try:
        text = path_of(directory, task_id).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    lines = []
    for raw in text.splitlines():
        try:
            lines.append(JournalLine(**json.loads(raw)))
        except (ValueError, TypeError):
            continue
    return lines


def in_flight(directory: Path, task_id: str) -> list[JournalLine]:
    """Intents without a result whose bridge process is still alive."""
    open_calls: dict[tuple[int, str], JournalLine] = {}
    for line in read(directory, task_id):
        if line.phase == "intent":
            open_calls[line.pid, line.call_id] = line
        else:
            open_calls.pop((line.pid, line.call_id), None)
    return [line for line in open_calls.values() if _alive(line.pid)]


def path_of(directory: Path, task_id: str) -> Path:
    return directory / f"{task_id}.jsonl"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
