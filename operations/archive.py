"""The audit archive: JSON lines that outlive Temporal's retention, each chained to the one before (section 10).

`<seq>`, the hash before and the event make a line's hash, so a changed, missing or moved line is found. What is
cut off at the end is found by a head that was told elsewhere: each export logs it, shows it as a metric and
returns it into Temporal's history. A last line that a crash cut in half is no line: the next export removes it.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = "audit"
GENESIS = "0" * 64
_MAX_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class Head:
    """The newest line."""

    seq: int = 0
    hash: str = GENESIS


@dataclass(slots=True)
class Report:
    """What a check of the whole archive found. `cut` is the size of an unfinished last line, which is no fault."""

    head: Head = field(default_factory=Head)
    problems: list[str] = field(default_factory=list)
    cut: int = 0

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class Line:
    """One line as it stands in a file; `event` is None where it cannot be read."""

    place: str
    seq: int | None
    prev: str | None
    event: dict[str, Any] | None
    hash: str | None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only one process may append; raises BlockingIOError while another does."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder / ".lock", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def append(folder: Path, head: Head, events: Iterable[dict[str, Any]]) -> Head:
    """Adds events after `head`, under `locked`; they are on disk when this returns the new head."""
    lines = []
    for event in events:
        digest = _hash(head.seq + 1, head.hash, event)
        lines.append(_json({"seq": head.seq + 1, "prev": head.hash, "event": event, "hash": digest}) + "\n")
        head = Head(head.seq + 1, digest)
    if lines:
        path = folder / f"{datetime.now(UTC):%Y-%m}.jsonl"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
    return head


def mend(folder: Path) -> int:
    """Removes an unfinished last line, under `locked`; returns its size in bytes."""
    path = max(folder.glob("*.jsonl"), default=None)
    cut = _unfinished(path) if path else 0
    if path and cut:
        os.truncate(path, path.stat().st_size - cut)
    return cut


def size(folder: Path) -> dict[str, int]:
    """The size of each file, by which an exporter knows that nothing was added behind its back."""
    return {path.name: path.stat().st_size for path in sorted(folder.glob("*.jsonl"))}


def read(folder: Path) -> Iterator[Line]:
    """Every finished line, oldest first."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if raw.endswith(b"\n"):
                    yield _line(f"{path.name}:{number}", raw)


def verify(folder: Path, known: Mapping[int, str] | None = None) -> Report:
    """Checks each line against the one before it, and the heads that were told elsewhere (seq to hash)."""
    report = Report()
    known = known or {}
    for line in read(folder):
        for problem in _problems(line, report.head, known):
            if len(report.problems) < _MAX_PROBLEMS:
                report.problems.append(f"{line.place}: {problem}")
        report.head = Head(line.seq or report.head.seq + 1, line.hash or report.head.hash)
    newest = max(known, default=0)
    if newest > report.head.seq:
        report.problems.append(f"the end is missing: {newest} lines were exported, {report.head.seq} are there")
    last = max(folder.glob("*.jsonl"), default=None)
    report.cut = _unfinished(last) if last else 0
    return report


def _problems(line: Line, before: Head, known: Mapping[int, str]) -> Iterator[str]:
    if line.event is None or line.seq is None or line.prev is None:
        yield "cannot be read"
        return
    if line.seq != before.seq + 1:
        yield f"seq {line.seq} after {before.seq}: lines are missing, moved or repeated"
    elif line.prev != before.hash:
        yield "does not follow the line before: one of them was changed"
    if line.hash != _hash(line.seq, line.prev, line.event):
        yield "was changed: its hash does not fit"
    if line.seq in known and known[line.seq] != line.hash:
        yield "is not the line that was exported: the chain was made anew"


def _line(place: str, raw: bytes) -> Line:
    try:
        found = json.loads(raw)
        return Line(place, int(found["seq"]), str(found["prev"]), dict(found["event"]), str(found["hash"]))
    except (ValueError, KeyError, TypeError):
        return Line(place, None, None, None, None)


def _hash(seq: int, prev: str, event: dict[str, Any]) -> str:
    return hashlib.sha256(f"{seq}\n{prev}\n{_json(event)}".encode()).hexdigest()


def _json(value: Any) -> str:
    """One text for one value."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _unfinished(path: Path) -> int:
    """Bytes after the last line end."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        tail = b""
        while (start := end - len(tail)) > 0 and b"\n" not in tail:
            step = min(65536, start)
            file.seek(start - step)
            tail = file.read(step) + tail
    return len(tail) - (tail.rfind(b"\n") + 1)
