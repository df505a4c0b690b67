"""A git tree of the agent's worktree, made without letting git read a single file of it by name.

The agent owns the tree: it may hold filters, nested repositories, FIFOs, and files that become links while we
look. So git only lists names and gets bytes: names come from `ls-files`, each file is opened part by part
without following links, its bytes go to `hash-object --stdin`, and the index we write is a copy of our own.
Standard library only.
"""

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clients import git
from clients.git import Limits, Repo
from domain.errors import ErrorCode, WorkspaceError

_LIST_LIMIT = 30.0
_GITLINK = b"160000"
_O_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _Entry:
    mode: bytes
    sha: bytes


def snapshot(repo: Repo, limits: Limits) -> str:
    """The tree of HEAD with all changes of the worktree.

    Raises:
        WorkspaceError: nested_repository, special_file, file_too_large, too_many_files, disk_full,
            workspace_unavailable (listing took too long: a FIFO in place of a .gitignore does that).
    """
    with tempfile.TemporaryDirectory(prefix="ccweb-index-", dir=repo.git_dir) as folder:
        index = Path(folder) / "index"
        if (repo.git_dir / "index").exists():
            shutil.copyfile(repo.git_dir / "index", index)
        extra = {"GIT_INDEX_FILE": str(index)}
        _fresh_index(repo, extra)
        lines = _changes(repo, extra, limits)
        git.run(["update-index", "-z", "--index-info"], repo=repo, extra=extra, data=b"".join(lines))
        tree = git.run(["write-tree"], repo=repo, extra=extra).decode().strip()
    _refuse_moved_gitlinks(repo, tree)
    return tree


def _fresh_index(repo: Repo, extra: dict[str, str]) -> None:
    """The copied index as HEAD has it: the worktree's own is made by us but may be left from a cut run."""
    git.run(["read-tree", "HEAD"], repo=repo, extra=extra)


def _changes(repo: Repo, extra: dict[str, str], limits: Limits) -> list[bytes]:
    """Lines for `update-index --index-info`, removals first: a file may stand where a folder was."""
    tracked = _tracked(repo, extra)
    gitlinks = {name for name, entry in tracked.items() if entry.mode == _GITLINK}
    names = [name for name in _listed(repo, extra) if name not in gitlinks]
    if len(names) > limits.max_files:
        raise WorkspaceError(ErrorCode.TOO_MANY_FILES, f"{len(names)} changed files, {limits.max_files} at most")
    removals, additions = [], []
    for name in names:
        line = _line(repo, name, tracked.get(name), limits)
        if line is None:
            removals.append(b"0 " + b"0" * 40 + b"\t" + name + b"\0")
        else:
            additions.append(line)
    return removals + additions


def _tracked(repo: Repo, extra: dict[str, str]) -> dict[bytes, _Entry]:
    entries = git.run(["ls-files", "-s", "-z"], repo=repo, extra=extra).split(b"\0")
    found = {}
    for entry in entries:
        if entry:
            facts, name = entry.split(b"\t", 1)
            mode, sha, _ = facts.split(b" ")
            found[name] = _Entry(mode, sha)
    return found


def _listed(repo: Repo, extra: dict[str, str]) -> list[bytes]:
    """Names that may differ from the index. Git may be fooled about them; each is judged by us afterwards."""
    arguments = ["ls-files", "-z", "-m", "-d", "-o", "--exclude-standard"]
    out = git.run(arguments, repo=repo, extra=extra, limit=_LIST_LIMIT)
    return sorted(set(filter(None, out.split(b"\0"))))


def _line(repo: Repo, name: bytes, known: _Entry | None, limits: Limits) -> bytes | None:
    """The index line of a file as it is now; None when it is not there.

    Raises:
        WorkspaceError: it is nothing that can be published.
    """
    _check_name(name)
    try:
        with _parent(repo.worktree, name) as (folder, last):
            facts = os.stat(last, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(facts.st_mode):
                sha = _store(repo, None, os.readlink(last, dir_fd=folder))
                return b"120000 " + sha + b"\t" + name + b"\0"
            if stat.S_ISDIR(facts.st_mode):
                return None
            content, executable = _read(folder, last, limits, name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    mode = b"100755" if executable else b"100644"
    return mode + b" " + _store(repo, name, content) + b"\t" + name + b"\0"


def _check_name(name: bytes) -> None:
    parts = name.split(b"/")
    if name.endswith(b"/") or any(part.lower() == b".git" for part in parts):
        raise WorkspaceError(ErrorCode.NESTED_REPOSITORY, _shown(name))
    if b".." in parts or b"" in parts or b"." in parts:
        raise WorkspaceError(ErrorCode.SPECIAL_FILE, _shown(name))


@contextlib.contextmanager
def _parent(root: Path, name: bytes) -> Iterator[tuple[int, bytes]]:
    """The open folder of a name, reached part by part without following a link, and its last part.

    Raises:
        FileNotFoundError, NotADirectoryError: a part is missing, or is a file or a link now.
    """
    *folders, last = name.split(b"/")
    current = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            deeper = os.open(part, _O_PLAIN | os.O_DIRECTORY, dir_fd=current)
            os.close(current)
            current = deeper
        yield current, last
    finally:
        os.close(current)


def _read(folder: int, last: bytes, limits: Limits, name: bytes) -> tuple[bytes, bool]:
    """The bytes of a regular file and whether it is executable, all from one descriptor."""
    try:
        descriptor = os.open(last, _O_PLAIN, dir_fd=folder)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        # ELOOP: it became a link after we looked; ENXIO: a socket.
        raise WorkspaceError(ErrorCode.SPECIAL_FILE, _shown(name)) from None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise WorkspaceError(ErrorCode.SPECIAL_FILE, _shown(name))
        content = file.read(limits.max_file_bytes + 1)
    if len(content) > limits.max_file_bytes:
        raise WorkspaceError(ErrorCode.FILE_TOO_LARGE, f"{_shown(name)}: more than {limits.max_file_bytes} bytes")
    return content, bool(facts.st_mode & stat.S_IXUSR)


def _store(repo: Repo, name: bytes | None, content: bytes) -> bytes:
    """Writes a blob. No filter can run: there is no configuration that defines one; eol rules stay."""
    path = ["--no-filters"] if name is None else [f"--path={os.fsdecode(name)}"]
    return git.run(["hash-object", "-w", "--stdin", *path], repo=repo, data=content).strip()


def _refuse_moved_gitlinks(repo: Repo, tree: str) -> None:
    changed = git.run(["diff-tree", "-r", "-z", "--raw", "HEAD", tree], repo=repo).split(b"\0")
    modes = (mode for line in changed if line.startswith(b":") for mode in line[1:].split(b" ")[:2])
    if _GITLINK in modes:
        raise WorkspaceError(ErrorCode.NESTED_REPOSITORY, "a submodule was changed or replaced")


def _shown(name: bytes) -> str:
    return ascii(name.decode(errors="replace"))[:200]
