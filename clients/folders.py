"""Small files that must survive a power cut, and folders that somebody else filled. Standard library only."""

import os
import subprocess
from pathlib import Path

from domain.errors import ErrorCode, WorkspaceError

_PLACES = os.pathsep.join(("/usr/bin", "/bin"))
_LIMIT = 600.0


def write(path: Path, text: str) -> None:
    """Writes a file whole or not at all; durable when it returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def erase(folder: Path) -> None:
    """Removes a folder with all that it holds, however deep, locked or oddly named; follows no link.

    Raises:
        WorkspaceError: workspace_unavailable, something of it is still there.
    """
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        if os.path.lexists(folder):
            arguments = [*command, "--", str(folder)]
            subprocess.run(arguments, env={"PATH": _PLACES}, capture_output=True, check=False, timeout=_LIMIT)
    if os.path.lexists(folder):
        raise WorkspaceError(ErrorCode.WORKSPACE_UNAVAILABLE, f"{folder} cannot be removed")
