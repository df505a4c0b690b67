"""The whole state of the simulated Gitea: plain dictionaries, written to disk after each change.

What was answered survives a SIGKILL, as with the real thing. Git repositories are bare folders beside it.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from simulators.gitea import git_repos
from simulators.gitea.subscriptions import kinds_of

Doc = dict[str, Any]
LEVELS = {"read": 1, "write": 2, "admin": 3, "owner": 4}


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
        tables = (
            "users",
            "repositories",
            "comments",
            "reviews",
            "inline_comments",
            "reactions",
            "hooks",
            "deliveries",
            "queue",
        )
        known: Doc = json.loads(self._path.read_text(encoding="utf-8")) if self._path.exists() else {}
        return {"counters": {}, **{name: [] for name in tables}} | known

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

    def repository_by_id(self, wanted: int) -> Doc | None:
        return next((one for one in self.docs["repositories"] if one["id"] == wanted), None)

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

    def writers(self, repository: Doc) -> list[str]:
        """The owner and all collaborators who may write."""
        given = repository["collaborators"].items()
        return sorted({repository["owner"], *(login for login, level in given if LEVELS[level] >= LEVELS["write"])})

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
        git_repos.make(self.git_dir(repository), seed.get("files", {"README.md": "# demo\n"}))
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
            "events": kinds_of(hook.get("events") or []),
            "active": bool(hook.get("active", False)),
        }
        self.docs["hooks"].append(made)
        return made
