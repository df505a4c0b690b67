"""`ccweb doctor`: this host. Git, disk, the state folder, and who may read our secrets."""

import asyncio
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from operations.findings import Finding, fail, ok, warn
from operations.operators import FILE
from settings import Settings

AREA = "host"
_LEAST_FREE = 1 << 30
_ENOUGH_FREE = 5 << 30
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


async def examine(settings: Settings, env_file: Path) -> list[Finding]:
    return [await git(), disk(settings), state_folder(settings), *secret_files(settings, env_file)]


async def git() -> Finding:
    program = shutil.which("git")
    if program is None:
        return fail(AREA, "git", "not on PATH", "install git (Debian: apt-get install git)")
    process = await asyncio.create_subprocess_exec(program, "--version", stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return ok(AREA, "git", out.decode().strip())


def disk(settings: Settings) -> Finding:
    """Where clones and worktrees will lie."""
    place = settings.workspace_root
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    told = f"{free / (1 << 30):.1f} GiB free at {place}"
    if free < _LEAST_FREE:
        return fail(AREA, "disk", told, "free some space, or set CCWEB_WORKSPACE_ROOT to a larger disk")
    if free < _ENOUGH_FREE:
        return warn(AREA, "disk", told, "each repository is cloned once and each open issue has a worktree")
    return ok(AREA, "disk", told)


def state_folder(settings: Settings) -> Finding:
    """Everything in it is ours alone; the sandbox hides /tmp."""
    folder = settings.state_dir
    if folder.resolve().is_relative_to("/tmp"):  # noqa: S108
        return fail(AREA, "state folder", f"{folder} lies under /tmp", "set CCWEB_STATE_DIR elsewhere")
    if not folder.exists():
        return ok(AREA, "state folder", f"{folder} will be made")
    if not os.access(folder, os.W_OK | os.X_OK):
        return fail(AREA, "state folder", f"{folder} is not writable by this user", f"chown it to uid {os.getuid()}")
    if _open_to_others(folder):
        return warn(AREA, "state folder", f"other users may look into {folder}", f"chmod 700 {folder}")
    return ok(AREA, "state folder", str(folder))


def secret_files(settings: Settings, env_file: Path) -> Iterator[Finding]:
    """Files with secrets that others can read."""
    known = [*settings.secret_files, settings.state_dir / FILE, env_file]
    known += list(settings.secret_dir.glob("*")) if settings.secret_dir.is_dir() else []
    there = sorted({path for path in known if path.is_file()})
    bad = [path for path in there if _open_to_others(path)]
    for path in bad:
        yield fail(AREA, "secret files", f"other users may read {path}", f"chmod 600 {path}")
    if not bad:
        yield ok(AREA, "secret files", f"{len(there)} files, readable by this user only")


def _open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & _OTHERS)
