"""What the API tells of a git repository: branches, commits, differences, places of inline comments."""

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from simulators.gitea.state import Doc

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_STATUS = {"A": "added", "D": "deleted", "M": "changed"}
_COMMIT_FIELDS = "%H%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B"
_SHOWN_LINES = 4


def environment(git_dir: Path, protocol: str = "") -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_DIR": str(git_dir),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_PROTOCOL": protocol,
    }


def git(git_dir: Path, *arguments: str) -> str:
    return git_bytes(git_dir, *arguments).decode(errors="replace")


def git_bytes(git_dir: Path, *arguments: str, given: bytes = b"", more: dict[str, str] | None = None) -> bytes:
    env = environment(git_dir) | (more or {})
    return subprocess.run(["git", *arguments], env=env, input=given, capture_output=True, check=True).stdout


def person(login: str) -> dict[str, str]:
    """The environment in which this user commits."""
    name, mail = ("NAME", login), ("EMAIL", f"{login}@example.test")
    return {f"GIT_{who}_{key}": value for who in ("AUTHOR", "COMMITTER") for key, value in (name, mail)}


def refs(git_dir: Path) -> dict[str, str]:
    """Branches and tags by their full names."""
    out = git(git_dir, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags")
    return dict(line.split(" ", 1) for line in out.splitlines())


def branches(git_dir: Path) -> dict[str, str]:
    prefix = "refs/heads/"
    return {name.removeprefix(prefix): sha for name, sha in refs(git_dir).items() if name.startswith(prefix)}


def try_git(git_dir: Path, *arguments: str) -> str | None:
    """The output, or nothing when git refuses."""
    try:
        return git(git_dir, *arguments)
    except subprocess.CalledProcessError:
        return None


def sha_of(git_dir: Path, name: str) -> str:
    """The commit a branch, tag or sha names, or nothing."""
    return (try_git(git_dir, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") or "").strip()


def merge_base(git_dir: Path, one: str, other: str) -> str:
    return (try_git(git_dir, "merge-base", one, other) or "").strip()


def file_changes(git_dir: Path, base: str, head: str) -> list[Doc]:
    """Name, status and numbers of lines of each file between two commits."""
    names = (try_git(git_dir, "diff", "--name-status", "--no-renames", base, head) or "").splitlines()
    numbers = (try_git(git_dir, "diff", "--numstat", "--no-renames", base, head) or "").splitlines()
    found = []
    for name, number in zip(names, numbers, strict=True):
        added, removed, path = number.split("\t", 2)
        counts = {"additions": _count(added), "deletions": _count(removed)}
        found.append({"path": path, "status": _STATUS.get(name[0], "changed"), **counts})
    return found


def _count(text: str) -> int:
    return int(text) if text.isdecimal() else 0  # "-" for binary files


def commit(git_dir: Path, name: str) -> dict[str, Any]:
    """Sha, parents, author, committer and message of one commit."""
    out = git(git_dir, "show", "--no-patch", f"--format={_COMMIT_FIELDS}", name)
    sha, parents, author, author_mail, authored, committer, committer_mail, committed, text = out.split("\0", 8)
    return {
        "sha": sha,
        "parents": parents.split(),
        "author": {"name": author, "email": author_mail, "date": authored},
        "committer": {"name": committer, "email": committer_mail, "date": committed},
        "message": text.rstrip("\n") + "\n",
    }


def commits_between(git_dir: Path, base: str, head: str) -> list[str]:
    """Newest first."""
    return (try_git(git_dir, "rev-list", f"{base}..{head}") or "").split()


def commit_files(git_dir: Path, sha: str) -> list[tuple[str, str]]:
    """Letter (A, M, D) and path of what a commit changed against its first parent."""
    arguments = ("diff-tree", "--root", "-m", "--first-parent", "-r", "--no-commit-id", "--name-status", sha)
    lines = (try_git(git_dir, *arguments) or "").splitlines()
    return [(line[0], line.split("\t", 1)[1]) for line in lines]


def commit_lines(git_dir: Path, sha: str) -> tuple[int, int]:
    """How many lines a commit added and removed."""
    out = try_git(git_dir, "diff-tree", "--root", "-m", "--first-parent", "-r", "--no-commit-id", "--numstat", sha)
    rows = [line.split("\t", 2) for line in (out or "").splitlines()]
    return sum(_count(row[0]) for row in rows), sum(_count(row[1]) for row in rows)


def can_merge(git_dir: Path, base: str, head: str) -> bool:
    return try_git(git_dir, "merge-tree", "--write-tree", base, head) is not None


def blamed(git_dir: Path, head: str, path: str, line: int) -> str:
    """The commit that last changed a line, as inline comments name it."""
    out = try_git(git_dir, "blame", "--porcelain", f"-L{line},{line}", head, "--", path)
    return out.split(" ", 1)[0] if out else head


def hunk_around(git_dir: Path, base: str, head: str, path: str, line: int) -> str:
    """The part of the difference that ends in a line; a negative one counts in the old file."""
    text = try_git(git_dir, "diff", "--no-renames", base, head, "--", path) or ""
    kept: list[str] = []
    header, old, new = "", 0, 0
    for row in text.splitlines():
        if found := _HUNK.match(row):
            header, kept, old, new = found[0], [], int(found[1]), int(found[2])
        elif header and row[:1] in {" ", "+", "-"}:
            kept.append(row)
            if (line > 0 and row[0] != "-" and new == line) or (line < 0 and row[0] != "+" and old == -line):
                return "\n".join([header, *kept[-_SHOWN_LINES:]])
            old += row[0] != "+"
            new += row[0] != "-"
    return ""


def commit_blob(git_dir: Path, start: str, branch: str, path: str, content: bytes, text: str, login: str) -> None:
    """A commit on `branch`, from `start`, in which one file has new content."""
    with tempfile.TemporaryDirectory() as folder:
        more = {"GIT_INDEX_FILE": f"{folder}/index"} | person(login)
        blob = git_bytes(git_dir, "hash-object", "-w", "--stdin", given=content).decode().strip()
        git_bytes(git_dir, "read-tree", start, more=more)
        git_bytes(git_dir, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", more=more)
        tree = git_bytes(git_dir, "write-tree", more=more).decode().strip()
    made = git_bytes(git_dir, "commit-tree", tree, "-p", start, given=text.encode(), more=more).decode().strip()
    git(git_dir, "update-ref", f"refs/heads/{branch}", made)


def merge(git_dir: Path, base: str, head: str, text: str, login: str) -> str:
    """Merges a head that fits into the branch `base`; the new commit."""
    tree = git(git_dir, "merge-tree", "--write-tree", base, head).split("\n", 1)[0]
    parents = ("-p", sha_of(git_dir, base), "-p", head)
    made = git_bytes(git_dir, "commit-tree", tree, *parents, given=text.encode(), more=person(login)).decode().strip()
    git(git_dir, "update-ref", f"refs/heads/{base}", made)
    return made
