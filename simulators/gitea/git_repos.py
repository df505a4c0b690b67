"""Bare repositories of the simulated Gitea, and the hook by which it refuses pushes."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_IDENTITY = {
    "GIT_AUTHOR_NAME": "alice",
    "GIT_AUTHOR_EMAIL": "alice@example.test",
    "GIT_COMMITTER_NAME": "alice",
    "GIT_COMMITTER_EMAIL": "alice@example.test",
}
# Gitea refuses in the hook, so git shows its words and ends with 1.
_HOOK = """#!/bin/sh
if [ -n "$GITEA_READER" ]; then
    printf '\\nGitea: User permission denied for writing.\\n' >&2
    exit 1
fi
while read -r _ _ ref; do
    case "$ref" in {refs})
        printf '\\nGitea: Not allowed to push to protected branch %s\\n' "${{ref#refs/heads/}}" >&2
        exit 1 ;;
    esac
done
"""


def write_hook(git_dir: Path, protected: list[str]) -> None:
    hook = git_dir / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    refused = "|".join(f"refs/heads/{name}" for name in protected) or "none"
    hook.write_text(_HOOK.format(refs=refused), encoding="utf-8")
    hook.chmod(0o755)


def make(git_dir: Path, files: dict[str, str], branch: str = "main") -> None:
    """A bare repository whose branch holds `files`; its own configuration says what the server must allow."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **_IDENTITY}

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], check=True, env=environment, capture_output=True)

    git("init", "--quiet", "--bare", f"--initial-branch={branch}", str(git_dir))
    for setting in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant", "http.receivepack"):
        git("-C", str(git_dir), "config", setting, "true")
    git("-C", str(git_dir), "config", "receive.hideRefs", "refs/pull")
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        tree = ("--git-dir", str(git_dir), "--work-tree", folder)
        git(*tree, "add", "--all")
        if files:
            git(*tree, "commit", "--quiet", "--message", "First commit")
    shutil.rmtree(git_dir / "hooks", ignore_errors=True)
    write_hook(git_dir, [])
    (git_dir / "index").unlink(missing_ok=True)


def fork(source: Path, git_dir: Path) -> None:
    shutil.copytree(source, git_dir)
    write_hook(git_dir, [])
