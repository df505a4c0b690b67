"""The processes of this machine, read from /proc."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    command: str
    """Its arguments, with a blank between them; empty for a zombie."""


def all_of() -> list[Process]:
    """All that can be read."""
    return list(_read())


def _read() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it ended meanwhile
                continue
            yield Process(int(folder.name), int(after_name[1]), command)
