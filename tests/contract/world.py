"""A Gitea in which the captured requests can be made again: the same people, repositories and numbers."""

import base64
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.contract.place import running_gitea

PASSWORD = "lab-password"
PEOPLE = ("alice", "ccweb-bot", "root1", "bob", "carol")
SCOPES = {
    "all": ["all"],
    "none": [],
    "write:issue": ["write:issue"],
    "read:issue": ["read:issue"],
    "read:repository": ["read:repository"],
    "write:repository": ["write:repository"],
    "read:user": ["read:user"],
    "least": ["write:issue", "read:repository", "read:user"],
    "usual": ["write:issue", "write:repository", "read:user"],
}
HOOK = {
    "type": "gitea",
    "active": True,
    "config": {"url": "http://127.0.0.1:9/h", "content_type": "json", "secret": "lab-webhook-secret"},
    "events": [
        "create", "delete", "fork", "push", "issues", "pull_request", "pull_request_review", "repository",
    ],
}  # fmt: skip
CALC = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"


def token(login: str, scopes: str = "all") -> str:
    return f"token-of-{login}-{scopes}"


@dataclass
class World:
    url: str
    http: httpx.Client
    ids: dict[str, Any] = field(default_factory=dict)

    def ask(
        self, method: str, path: str, body: Any = None, *, by: str = "alice", headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """One call below /api/v1."""
        given = headers if headers is not None else {"Authorization": f"token {token(by)}"}
        return self.http.request(method, f"{self.url}/api/v1{path}", json=body, headers=given)

    def make(self, method: str, path: str, body: Any = None, *, by: str = "alice") -> Any:
        """The same, and it has to work."""
        answer = self.ask(method, path, body, by=by)
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def commit(self, repo: str, path: str, text: str, branch: str, start: str = "main", by: str = "alice") -> str:
        """A file's new content in a commit on `branch`; its sha."""
        known = self.ask("GET", f"/repos/{repo}/contents/{path}?ref={start}", by=by)
        body = {
            "content": base64.b64encode(text.encode()).decode(),
            "message": f"Change {path}",
            "branch": start,
            **({} if start == branch else {"new_branch": branch}),
            **({"sha": known.json()["sha"]} if known.is_success else {}),
        }
        made = self.make("PUT" if known.is_success else "POST", f"/repos/{repo}/contents/{path}", body, by=by)
        return str(made["commit"]["id"])

    def deliveries(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.http.get(f"{self.url}/_sim/deliveries").json()
        return found

    def sim(self, path: str, body: Any) -> None:
        self.http.post(f"{self.url}/_sim/{path}", json=body).raise_for_status()


@contextlib.contextmanager
def running(directory: Path) -> Iterator[World]:
    with running_gitea(directory, seed=_seed()) as gitea, httpx.Client(timeout=30) as http:
        world = World(gitea.url, http)
        _organisation(world)
        _demo(world)
        _issues(world)
        _pulls(world)
        _others(world)
        _mergelab(world)
        yield world


def _seed() -> dict[str, Any]:
    users = [
        {
            "login": login,
            "password": PASSWORD,
            "admin": login == "root1",
            "may_own_orgs": login != "bob",
            "token": token(login, name),
            "scopes": scopes,
        }
        for login in PEOPLE
        for name, scopes in SCOPES.items()
        if name == "all" or login == "ccweb-bot"
    ]
    return {"users": users, "repositories": []}


def _repository(world: World, name: str, **more: Any) -> None:
    wanted = {"name": name, "auto_init": True, "default_branch": "main", "private": False}
    world.make("POST", "/user/repos", wanted | more)


def _organisation(world: World) -> None:
    """Before anything else, so that its webhooks and those of the server hear of the rest."""
    world.make("POST", "/admin/users/alice/orgs", {"username": "acme"}, by="root1")
    world.make("POST", "/orgs/acme/hooks", HOOK)
    system = {**HOOK, "config": {**HOOK["config"], "is_system_webhook": "true"}}  # type: ignore[dict-item]
    world.make("POST", "/admin/hooks", system, by="root1")
    world.make("POST", "/orgs/acme/repos", {"name": "widgets", "auto_init": True})
    world.make("POST", "/repos/acme/widgets/issues", {"title": "Widget is square", "body": "@ccweb-bot"})


def _demo(world: World) -> None:
    """Repository alice/demo with its people, labels and webhook."""
    _repository(world, "demo", description="small calculator")
    for login in ("ccweb-bot", "bob"):
        world.make("PUT", f"/repos/alice/demo/collaborators/{login}", {"permission": "write"})
    world.make("POST", "/repos/alice/demo/labels", {"name": "bug", "color": "#ee0701", "description": "Broken"})
    world.make("POST", "/repos/alice/demo/labels", {"name": "codex", "color": "#0075ca"})
    world.ids["hook"] = world.make("POST", "/repos/alice/demo/hooks", HOOK)["id"]
    world.ids["main"] = world.commit("alice/demo", "calc/__init__.py", CALC, "main")
    world.make("POST", "/repos/alice/demo/issues", {"title": "add() returns the wrong result", "body": "-1"})


def _issues(world: World) -> None:
    """Issues 4 to 10 need 2 and 3, so the pull requests come between."""
    world.commit("alice/demo", "calc/__init__.py", CALC.replace("a - b", "a + b"), "fix/add")
    head = {"title": "Fix add", "body": "Fixes #1.", "head": "fix/add", "base": "main"}
    world.make("POST", "/repos/alice/demo/pulls", head)
    world.make("POST", "/repos/alice/demo/forks", {}, by="carol")
    world.commit("carol/demo", "NOTES.md", "hi\n", "patch-1", by="carol")
    fork = {"title": "From a fork", "body": "Hello @ccweb-bot", "head": "carol:patch-1", "base": "main"}
    world.make("POST", "/repos/alice/demo/pulls", fork, by="carol")
    for number in range(4, 11):
        assert world.make("POST", "/repos/alice/demo/issues", {"title": f"Issue {number}"})["number"] == number
    world.make("POST", "/repos/alice/demo/issues/4/labels", {"labels": [2]})
    for key, number, by in (("166", 4, "alice"), ("167", 4, "ccweb-bot"), ("168", 4, "alice"), ("25", 1, "alice")):
        world.ids[key] = comment(world, "alice/demo", number, f"comment {key}", by)
    for key, by in (("12", "alice"), ("13", "alice")):
        world.ids[key] = comment(world, "alice/demo", 1, f"comment {key}", by)
    for _ in range(60):
        comment(world, "alice/demo", 5, "one of many", "alice")
    world.sim("lock", {"repo": "alice/demo", "number": 6})
    world.make("PATCH", "/repos/alice/demo/issues/7", {"state": "closed"})


def comment(world: World, repo: str, number: int, text: str, by: str) -> int:
    return int(world.make("POST", f"/repos/{repo}/issues/{number}/comments", {"body": text}, by=by)["id"])


def _pulls(world: World) -> None:
    """Pull request 2 with labels, people, comments, reviews; its head is the commit that captures name."""
    path = "/repos/alice/demo/pulls/2"
    world.make("PATCH", path, {"title": "Fix add()"})
    world.make("PATCH", path, {"body": "Fixes #1. @ccweb-bot please review this."})
    world.make("POST", "/repos/alice/demo/issues/2/labels", {"labels": [1]})
    world.make("PATCH", "/repos/alice/demo/issues/2", {"assignees": ["ccweb-bot"]})
    world.ids["head"] = world.commit(
        "alice/demo", "tests/test_neg.py", "from calc import add\n", "fix/add", "fix/add"
    )
    comment(world, "alice/demo", 2, "@ccweb-bot please", "alice")


def _others(world: World) -> None:
    _repository(world, "secret", private=True)
    world.make("POST", "/repos/alice/secret/issues", {"title": "hidden"})
    _repository(world, "readable", private=True)
    world.make("PUT", "/repos/alice/readable/collaborators/ccweb-bot", {"permission": "read"})
    world.make("POST", "/repos/alice/readable/issues", {"title": "to be read"})
    _repository(world, "fail")
    world.make("POST", "/repos/alice/fail/issues", {"title": "kept"})
    world.make("PATCH", "/repos/alice/fail", {"archived": True})
    _repository(world, "oldname")
    world.make("POST", "/repos/alice/oldname/issues", {"title": "moves along"})
    world.make("PATCH", "/repos/alice/oldname", {"name": "newname"})
    _repository(world, "noissues")
    world.make("PUT", "/repos/alice/noissues/collaborators/ccweb-bot", {"permission": "write"})
    world.make("POST", "/repos/alice/noissues/issues", {"title": "before"})
    world.make("PATCH", "/repos/alice/noissues", {"has_issues": False})


def _mergelab(world: World) -> None:
    """1 can be merged, 2 conflicts, 3 is a draft."""
    _repository(world, "mergelab")
    world.make("PUT", "/repos/alice/mergelab/collaborators/ccweb-bot", {"permission": "write"})
    world.make("PUT", "/repos/alice/mergelab/collaborators/bob", {"permission": "read"})
    world.commit("alice/mergelab", "x.txt", "x\n", "x")
    world.commit("alice/mergelab", "README.md", "y\n", "y")
    world.commit("alice/mergelab", "z.txt", "z\n", "z")
    world.commit("alice/mergelab", "README.md", "main\n", "main")
    for head, title in (("x", "x"), ("y", "y"), ("z", "WIP: z")):
        world.make("POST", "/repos/alice/mergelab/pulls", {"title": title, "head": head, "base": "main"})
