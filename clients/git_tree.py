"""A git tree of the agent's worktree, made without letting git read a single file of it by name.

The agent owns the tree: it may hold filters, nested repositories, FIFOs, and files that become links while we
look. So git only lists names. Each file is opened part by part without following links and copied to a folder
that the agent cannot reach; from there git takes it, with the eol rules of that tree, into an index of our own.
Standard library only.
"""

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clients import git, git_walk
from clients.git import GitError, Limits, Repo
from clients.git_walk import Odd, shown
from domain.errors import ErrorCode, WorkspaceError

_LIST_LIMIT = 30.0
_GITLINK = b"160000"
_SCRATCH = "ccweb-scratch-"
_BATCH_FILES = 500
_BATCH_BYTES = 64 * 1024 * 1024
_CHUNK = 1024 * 1024
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

Refuse = Callable[[WorkspaceError], None]


@dataclass(frozen=True, slots=True)
class Salvage:
    """What could be saved of a worktree: its tree without the paths that were refused.

    `tree` is None when git cannot look at the worktree at all.
    """

    tree: str | None
    refused: tuple[WorkspaceError, ...]


def snapshot(repo: Repo, limits: Limits) -> str:
    """The tree of HEAD with all changes of the worktree.

    Raises:
        WorkspaceError: nested_repository, special_file, file_too_large, too_many_files, disk_full,
            workspace_unavailable (may be retried).
    """
    return _take(repo, limits, _refuse_at_once)


def salvage(repo: Repo, limits: Limits) -> Salvage:
    """As `snapshot`, but what cannot be taken stays as HEAD has it and is told.

    Raises:
        WorkspaceError: disk_full, workspace_unavailable (may be retried).
    """
    refused: list[WorkspaceError] = []
    try:
        return Salvage(_take(repo, limits, refused.append), tuple(refused))
    except WorkspaceError as error:
        if error.retryable:
            raise
        return Salvage(None, (*refused, error))


def clear_scratch(repo: Repo) -> None:
    """Removes what a killed process left half done; nobody else may be at work in the worktree."""
    for folder in repo.git_dir.glob(f"{_SCRATCH}*"):
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def scratch(repo: Repo) -> Iterator[Path]:
    """A folder next to the worktree's index, out of the agent's reach."""
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=repo.git_dir) as folder:
        yield Path(folder)


def _refuse_at_once(error: WorkspaceError) -> None:
    raise error


def _take(repo: Repo, limits: Limits, refuse: Refuse) -> str:
    with scratch(repo) as folder:
        index = folder / "index"
        if (repo.git_dir / "index").exists():
            shutil.copyfile(repo.git_dir / "index", index)
        extra = {"GIT_INDEX_FILE": str(index)}
        gitlinks = git.index_head(repo, extra)
        odd = git_walk.look(repo.worktree, gitlinks)
        bad = _not_ignored(repo, extra, odd)
        for found in bad:
            refuse(found.error())
        _refresh(repo, index, extra)
        names = _changed(repo, extra, bad, refuse)
        if len(names) > limits.max_files:
            refuse(_too_many(names, limits))
        _Stage(repo, limits, folder / "tree", extra, refuse).take(names[: limits.max_files])
        tree = git.run(["write-tree"], repo=repo, extra=extra).decode().strip()
    _refuse_moved_gitlinks(repo, tree)
    return tree


def _refresh(repo: Repo, index: Path, extra: dict[str, str]) -> None:
    """Lets the index know which files are unchanged, and keeps that: the next look need not read them again."""
    git.run(["update-index", "-q", "--refresh"], repo=repo, extra=extra)
    kept = index.with_name("kept")
    shutil.copyfile(index, kept)
    kept.replace(repo.git_dir / "index")


def _not_ignored(repo: Repo, extra: dict[str, str], odd: Sequence[Odd]) -> list[Odd]:
    if not odd:
        return []
    names = b"".join(b"./" + found.name + b"\0" for found in odd)
    try:
        out = git.run(
            ["check-ignore", "-z", "--stdin"], repo=repo, data=names, limit=_LIST_LIMIT,
            extra={**extra, "GIT_LITERAL_PATHSPECS": "0"},  # it knows no other; `./` keeps names from being magic
        )  # fmt: skip
    except GitError as error:
        if error.text:
            raise
        out = b""  # its way to say that nothing is ignored
    ignored = set(out.split(b"\0"))
    return [found for found in odd if b"./" + found.name not in ignored]


def _changed(repo: Repo, extra: dict[str, str], bad: Sequence[Odd], refuse: Refuse) -> list[bytes]:
    """Names that may differ from the index, rules for line ends first. Each is judged by us afterwards."""
    tracked = ["diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=all"]
    others = ["ls-files", "-z", "-o", "--exclude-standard"]
    listed = (git.run(arguments, repo=repo, extra=extra, limit=_LIST_LIMIT) for arguments in (tracked, others))
    names = {name for out in listed for name in out.split(b"\0") if name}
    below = tuple(found.name + b"/" if found.name else b"" for found in bad)
    known = {found.name for found in bad}
    left = (name for name in names if name not in known and not name.startswith(below))
    return sorted(filter(lambda name: _may_be_named(name, refuse), left), key=_rules_first)


def _rules_first(name: bytes) -> tuple[bool, bytes]:
    return git_walk.last_part(name) != b".gitattributes", name


def _may_be_named(name: bytes, refuse: Refuse) -> bool:
    parts = name.split(b"/")
    if name.endswith(b"/") or any(part.lower() == b".git" for part in parts):
        refuse(Odd(name, ErrorCode.NESTED_REPOSITORY, "a repository inside this one").error())
    elif b".." in parts or b"" in parts or b"." in parts:
        refuse(Odd(name, ErrorCode.SPECIAL_FILE, "no name for a file").error())
    else:
        return True
    return False


def _too_many(names: Collection[bytes], limits: Limits) -> WorkspaceError:
    """Says where most of the files are: that is what to remove or to ignore."""
    counts: dict[bytes, int] = {}
    for name in names:
        folder = name.split(b"/")[0] if b"/" in name else b"."
        counts[folder] = counts.get(folder, 0) + 1
    most = max(counts, key=lambda folder: counts[folder])
    text = f"{shown(most)} and others: {len(names)} changed files, {limits.max_files} at most"
    return WorkspaceError(ErrorCode.TOO_MANY_FILES, text)


def _refuse_moved_gitlinks(repo: Repo, tree: str) -> None:
    changed = git.run(["diff-tree", "-r", "-z", "--raw", "HEAD", tree], repo=repo).split(b"\0")
    modes = (mode for line in changed if line.startswith(b":") for mode in line[1:].split(b" ")[:2])
    if _GITLINK in modes:
        raise WorkspaceError(ErrorCode.NESTED_REPOSITORY, "a submodule was changed or replaced")


@dataclass(frozen=True, slots=True)
class _Stage:
    """Copies of changed files on their way into an index, a bounded batch at a time."""

    repo: Repo
    limits: Limits
    folder: Path
    extra: dict[str, str]
    refuse: Refuse

    def take(self, names: Sequence[bytes]) -> None:
        """Brings the index up to the files of these names as they are now."""
        added: list[bytes] = []
        rest = list(names)
        while rest:
            rest, copied, gone = self._fill(rest)
            self._update(gone, "--force-remove")
            added += self._add(copied)
            shutil.rmtree(self.folder)
        self._miss(added)

    def _fill(self, names: Sequence[bytes]) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """Copies a batch; names left over, names copied, names of files that are not there."""
        copied: list[bytes] = []
        gone: list[bytes] = []
        size = done = 0
        self.folder.mkdir()
        while done < min(len(names), _BATCH_FILES) and size < _BATCH_BYTES:
            name = names[done]
            done += 1
            try:
                length = self._copy(name)
            except WorkspaceError as error:
                self.refuse(error)
                continue
            (gone if length is None else copied).append(name)
            size += length or 0
        return list(names[done:]), copied, gone

    def _copy(self, name: bytes) -> int | None:
        """Copies one file or link; its size in bytes, None when it is not there.

        Raises:
            WorkspaceError: it is nothing that can be published.
        """
        try:
            with git_walk.parent(self.repo.worktree, name) as (folder, last):
                facts = os.stat(last, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISDIR(facts.st_mode):
                    return None
                is_link = stat.S_ISLNK(facts.st_mode)
                source = os.readlink(last, dir_fd=folder) if is_link else os.open(last, git_walk.PLAIN, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            # ELOOP: it became a link after we looked; ENXIO: a socket; EACCES: the agent locked it.
            raise Odd(name, ErrorCode.SPECIAL_FILE, f"cannot be read ({error.strerror})").error() from None
        if isinstance(source, bytes):
            return self._link(name, source)
        with os.fdopen(source, "rb", buffering=0):
            return self._file(name, source)

    def _link(self, name: bytes, target: bytes) -> int:
        with self._place(name) as (folder, last):
            os.symlink(target, last, dir_fd=folder)
        return len(target)

    def _file(self, name: bytes, source: int) -> int:
        facts = os.fstat(source)
        if not stat.S_ISREG(facts.st_mode):
            raise Odd(name, ErrorCode.SPECIAL_FILE, "neither a file nor a folder nor a link").error()
        mode = 0o755 if facts.st_mode & stat.S_IXUSR else 0o644
        size, most = 0, self.limits.max_file_bytes
        with self._place(name) as (folder, last):
            target = os.open(last, _FRESH, mode, dir_fd=folder)
        with os.fdopen(target, "wb") as file:
            os.fchmod(target, mode)
            while facts.st_size <= most and size <= most and (chunk := os.read(source, _CHUNK)):
                git.check_time()
                size += file.write(chunk)
        if max(facts.st_size, size) > most:
            raise Odd(name, ErrorCode.FILE_TOO_LARGE, f"more than {most} bytes").error()
        return size

    @contextlib.contextmanager
    def _place(self, name: bytes) -> Iterator[tuple[int, bytes]]:
        """Where the copy of a name belongs.

        Raises:
            WorkspaceError: workspace_unavailable, the agent swaps a file for a folder while we look.
        """
        try:
            with git_walk.parent(self.folder, name, make=True) as place:
                yield place
        except (FileExistsError, NotADirectoryError):
            raise WorkspaceError(ErrorCode.WORKSPACE_UNAVAILABLE, f"{shown(name)} changes all the time") from None

    def _add(self, names: Sequence[bytes]) -> list[bytes]:
        """One git process for all; when it cannot take some file, only that one is left out. Names not refused."""
        try:
            self._update(names, "--add", "--replace")
        except GitError as error:
            if len(names) == 1:
                self.refuse(Odd(names[0], ErrorCode.SPECIAL_FILE, error.text.strip()[-200:]).error())
                return []
            middle = len(names) // 2
            return [*self._add(names[:middle]), *self._add(names[middle:])]
        return list(names)

    def _update(self, names: Sequence[bytes], *how: str) -> None:
        """Git takes the copies of these names, or their absence, into the index."""
        if names:
            copies = Repo(self.repo.git_dir, self.repo.common_dir, self.folder)
            data = b"".join(name + b"\0" for name in names)
            git.run(["update-index", "-z", *how, "--stdin"], repo=copies, extra=self.extra, data=data)

    def _miss(self, names: Sequence[bytes]) -> None:
        """Git leaves out names that it takes for its own (`git~1`) with no more than a word."""
        there = set(git.run(["ls-files", "-z"], repo=self.repo, extra=self.extra).split(b"\0"))
        for name in names:
            if name not in there:
                self.refuse(Odd(name, ErrorCode.SPECIAL_FILE, "git does not take this name").error())
