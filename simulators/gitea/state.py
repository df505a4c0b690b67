"""The whole state of the simulated Gitea: plain dictionaries, written to disk after each change.

What was answered survives a SIGKILL, as with the real thing. Git repositories are bare folders beside it.
"""

import json
import shutil
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
            "timeline",
            "statuses",
            "reactions",
            "hooks",
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

    def owners(self, repository: Doc) -> list[str]:
        """The owner, or the people who own the organisation."""
        owner = self.user(repository["owner"]) or {}
        return list(owner.get("owners") or [repository["owner"]])

    def level(self, repository: Doc, user: Doc | None) -> int:
        """0 none, then read, write, admin, owner."""
        if user is not None and user["login"] in self.owners(repository):
            return LEVELS["owner"]
        given = LEVELS[repository["collaborators"].get(user["login"], "read")] if user else 1
        if user is not None and user["login"] in repository["collaborators"]:
            return given
        return 0 if repository["private"] else LEVELS["read"]

    def writers(self, repository: Doc) -> list[str]:
        """The owner and all collaborators who may write."""
        given = repository["collaborators"].items()
        return sorted(
            {*self.owners(repository), *(login for login, level in given if LEVELS[level] >= LEVELS["write"])}
        )

    def issue(self, repository: Doc, number: int) -> Doc | None:
        return next((one for one in repository["issues"] if one["number"] == number), None)

    def add_issue(self, repository: Doc, author: str, title: str, body: str, pull: Doc | None = None) -> Doc:
        issue = {
            "id": self.next_id("issue"),
            "number": self._next_number(repository),
            "author": author,
            "title": title,
            "body": body,
            "state": "open",
            "is_locked": False,
            "assignees": [],
            "labels": [],
            "created_at": now(),
            "updated_at": now(),
            "closed_at": None,
            "pull": pull,
        }
        repository["issues"].append(issue)
        return issue

    def _next_number(self, repository: Doc) -> int:
        """Numbers of deleted issues are not given again."""
        repository["last_number"] += 1
        return int(repository["last_number"])

    def comments(self, repository: Doc, number: int | None = None) -> list[Doc]:
        return [
            one
            for one in self.docs["comments"]
            if one["repository"] == repository["id"] and number in {None, one["number"]}
        ]

    def seed_user(self, user: Doc) -> Doc:
        """A person, or an organisation if it has `owners`; again adds a token."""
        known = self.user(user["login"])
        if known is None:
            known = {
                "id": self.next_id("user"),
                "login": user["login"],
                "admin": bool(user.get("admin")),
                "password": user.get("password", ""),
                "owners": user.get("owners", []),
                "may_own_orgs": bool(user.get("may_own_orgs", True)),
                "tokens": [],
            }
            self.docs["users"].append(known)
        if user.get("token"):
            made = {"id": self.next_id("token"), "name": f"seed-{user['token'][:4]}", "token": user["token"]}
            known["tokens"].append({**made, "scopes": user.get("scopes", ["all"])})
        return known

    def seed_repository(self, seed: Doc) -> None:
        if self.repository(seed["owner"], seed["name"]) is not None:
            return
        repository = self.add_repository(seed)
        git_repos.make(self.git_dir(repository), seed.get("files", {"README.md": "# demo\n"}))
        for issue in seed.get("issues", []):
            self.add_issue(repository, issue["author"], issue["title"], issue.get("body", ""))
        for hook in seed.get("hooks", []):
            self.add_hook({"repository": repository["id"]}, hook)

    def add_repository(self, wanted: Doc) -> Doc:
        """Without its git folder."""
        repository = {
            "id": self.next_id("repository"),
            "owner": wanted["owner"],
            "name": wanted["name"],
            "full_name": f"{wanted['owner']}/{wanted['name']}",
            "old_names": [],
            "description": wanted.get("description", ""),
            "private": bool(wanted.get("private")),
            "archived": False,
            "fork_of": wanted.get("fork_of", 0),
            "has_issues": wanted.get("has_issues", True),
            "transfer_to": "",
            "default_branch": wanted.get("default_branch") or "main",
            "collaborators": dict(wanted.get("collaborators", {})),
            "protected": [],
            "rules": [],
            "labels": [],
            "issues": [],
            "last_number": 0,
            "created_at": now(),
        }
        self.docs["repositories"].append(repository)
        return repository

    def rename(self, repository: Doc, owner: str, name: str) -> None:
        """The old name leads to the new one from now on."""
        repository["old_names"].append(repository["full_name"].lower())
        repository |= {"owner": owner, "name": name, "full_name": f"{owner}/{name}"}

    def forget(self, repository: Doc) -> None:
        """Deletes a repository with all that hangs on it but its webhooks' history."""
        self.docs["repositories"].remove(repository)
        for table in ("comments", "reviews", "inline_comments", "timeline", "statuses"):
            self.docs[table] = [one for one in self.docs[table] if one["repository"] != repository["id"]]
        shutil.rmtree(self.git_dir(repository), ignore_errors=True)

    def add_hook(self, scope: Doc, hook: Doc) -> Doc:
        """`scope` is one of repository: id, org: login, system: true, default: true. No events means pushes."""
        made = {
            "id": self.next_id("hook"),
            **scope,
            "url": hook["url"],
            "secret": hook.get("secret", ""),
            "content_type": hook.get("content_type", "json"),
            "authorization_header": hook.get("authorization_header", ""),
            "events": kinds_of(hook.get("events") or []),
            "active": bool(hook.get("active", False)),
            "created_at": now(),
        }
        self.docs["hooks"].append(made)
        return made
