"""The whole state of the simulated Gitea: plain dictionaries, written to disk after each change.

What was answered survives a SIGKILL, as with the real thing. Git repositories are bare folders beside it.
"""

import json
import os
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Doc = dict[str, Any]
LEVELS = {"read": 1, "write": 2, "admin": 3, "owner": 4}
_IDENTITY = {
    "GIT_AUTHOR_NAME": "alice",
    "GIT_AUTHOR_EMAIL": "alice@example.test",
    "GIT_COMMITTER_NAME": "alice",
    "GIT_COMMITTER_EMAIL": "alice@example.test",
}


def now() -> str:
    """Gitea's times have whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class State:
    """`docs` holds users, repositories, issues, comments, reactions, hooks, deliveries and counters."""

    def __init__(self, root: Path, url: str) -> None:
        self.root = root
        self.url = url
        self._path = root / "state.json"
        root.mkdir(parents=True, exist_ok=True)
        self.docs: Doc = self._load()

    def _load(self) -> Doc:
        if self._path.exists():
            found: Doc = json.loads(self._path.read_text(encoding="utf-8"))
            return found
        tables = ("users", "repositories", "comments", "reactions", "hooks", "deliveries", "queue")
        return {"counters": {}, **{name: [] for name in tables}}

    def save(self) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self.docs), encoding="utf-8")
        fresh.replace(self._path)

    def next_id(self, counter: str) -> int:
        self.docs["counters"][counter] = self.docs["counters"].get(counter, 0) + 1
        return int(self.docs["counters"][counter])

    def user(self, login: str) -> Doc | None:
        return next((one for one in self.docs["users"] if one["login"].lower() == login.lower()), None)

    def user_of_token(self, token: str) -> tuple[Doc, list[str]] | None:
        for user in self.docs["users"]:
            for known in user["tokens"]:
                if known["token"] == token:
                    return user, known["scopes"]
        return None

    def repository(self, owner: str, name: str) -> Doc | None:
        full_name = f"{owner}/{name}".lower()
        return next((one for one in self.docs["repositories"] if one["full_name"].lower() == full_name), None)

    def renamed(self, owner: str, name: str) -> Doc | None:
        full_name = f"{owner}/{name}".lower()
        return next((one for one in self.docs["repositories"] if full_name in one["old_names"]), None)

    def git_dir(self, repository: Doc) -> Path:
        return self.root / "git" / f"{repository['id']}.git"

    def level(self, repository: Doc, user: Doc | None) -> int:
        """0 none, then read, write, admin, owner."""
        if user is not None and user["login"] == repository["owner"]:
            return LEVELS["owner"]
        given = LEVELS[repository["collaborators"].get(user["login"], "read")] if user else 1
        if user is not None and user["login"] in repository["collaborators"]:
            return given
        return 0 if repository["private"] else LEVELS["read"]

    def issue(self, repository: Doc, number: int) -> Doc | None:
        return next((one for one in repository["issues"] if one["number"] == number), None)

    def add_issue(self, repository: Doc, author: str, title: str, body: str, pull: Doc | None = None) -> Doc:
        issue = {
            "id": self.next_id("issue"),
            "number": len(repository["issues"]) + 1,
            "author": author,
            "title": title,
            "body": body,
            "state": "open",
            "is_locked": False,
            "assignees": [],
            "created_at": now(),
            "updated_at": now(),
            "closed_at": None,
            "pull": pull,
        }
        repository["issues"].append(issue)
        return issue

    def comments(self, repository: Doc, number: int | None = None) -> list[Doc]:
        return [
            one
            for one in self.docs["comments"]
            if one["repository"] == repository["id"] and number in {None, one["number"]}
        ]

    def seed_user(self, user: Doc) -> None:
        known = self.user(user["login"])
        if known is None:
            known = {
                "id": self.next_id("user"),
                "login": user["login"],
                "admin": bool(user.get("admin")),
                "tokens": [],
            }
            self.docs["users"].append(known)
        if user.get("token"):
            known["tokens"].append({"token": user["token"], "scopes": user.get("scopes", ["all"])})

    def seed_repository(self, seed: Doc) -> None:
        if self.repository(seed["owner"], seed["name"]) is not None:
            return
        repository = {
            "id": self.next_id("repository"),
            "owner": seed["owner"],
            "name": seed["name"],
            "full_name": f"{seed['owner']}/{seed['name']}",
            "old_names": [],
            "private": bool(seed.get("private")),
            "archived": False,
            "default_branch": "main",
            "collaborators": dict(seed.get("collaborators", {})),
            "protected": [],
            "issues": [],
            "created_at": now(),
        }
        self.docs["repositories"].append(repository)
        _make_git(self.git_dir(repository), seed.get("files", {"README.md": "# demo\n"}))
        for issue in seed.get("issues", []):
            self.add_issue(repository, issue["author"], issue["title"], issue.get("body", ""))
        for hook in seed.get("hooks", []):
            self.add_hook(repository, hook)

    def add_hook(self, repository: Doc, hook: Doc) -> Doc:
        made = {
            "id": self.next_id("hook"),
            "repository": repository["id"],
            "url": hook["url"],
            "secret": hook.get("secret", ""),
            "events": hook.get("events") or ["push"],
            "active": bool(hook.get("active", False)),
        }
        self.docs["hooks"].append(made)
        return made


def _make_git(git_dir: Path, files: dict[str, str]) -> None:
    """A bare repository whose main holds `files`; what the server must allow is in its own configuration."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **_IDENTITY}

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], check=True, env=environment, capture_output=True)

    git("init", "--quiet", "--bare", "--initial-branch=main", str(git_dir))
    for setting in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant", "http.receivepack"):
        git("-C", str(git_dir), "config", setting, "true")
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        tree = ("--git-dir", str(git_dir), "--work-tree", folder)
        git(*tree, "add", "--all")
        git(*tree, "commit", "--quiet", "--message", "First commit")
    shutil.rmtree(git_dir / "hooks", ignore_errors=True)
    (git_dir / "index").unlink(missing_ok=True)
