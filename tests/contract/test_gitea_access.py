"""Who may do what, by the measured tables: scopes of tokens, and the ways to authenticate git over HTTP."""

import base64
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import scratch_dir
from tests.contract import shapes
from tests.contract.world import World, running, token

SCOPES = shapes.api("token_scopes_table")
GIT = shapes.api("git_http_auth")
NAMES = {"write:issue,read:repository,read:user": "least", "write:issue,write:repository,read:user": "usual"}
DEMO = "/repos/alice/demo"
CALLS: dict[str, tuple[str, str, Any]] = {
    "GET /user": ("GET", "/user", None),
    "GET repo": ("GET", DEMO, None),
    "GET issue": ("GET", f"{DEMO}/issues/1", None),
    "GET issue comments": ("GET", f"{DEMO}/issues/1/comments", None),
    "POST comment": ("POST", f"{DEMO}/issues/1/comments", {"body": "x"}),
    "POST comment reaction": ("POST", f"{DEMO}/issues/comments/{{12}}/reactions", {"content": "eyes"}),
    "POST issue label": ("POST", f"{DEMO}/issues/1/labels", {"labels": [1]}),
    "GET labels of repo": ("GET", f"{DEMO}/labels", None),
    "GET pull": ("GET", f"{DEMO}/pulls/2", None),
    "GET pull files": ("GET", f"{DEMO}/pulls/2/files", None),
    "POST pull review": ("POST", f"{DEMO}/pulls/2/reviews", {"event": "COMMENT", "body": "x"}),
    "POST pull (missing head)": ("POST", f"{DEMO}/pulls", {"head": "none", "base": "main", "title": "x"}),
    "POST status": ("POST", f"{DEMO}/statuses/{{head}}", {"state": "success", "context": "x"}),
    "GET combined status": ("GET", f"{DEMO}/commits/{{head}}/status", None),
    "POST branch": ("POST", f"{DEMO}/branches", {"new_branch_name": "fix/add", "old_branch_name": "main"}),
    "GET collaborator permission (self)": ("GET", f"{DEMO}/collaborators/ccweb-bot/permission", None),
    "GET users/{name}": ("GET", "/users/alice", None),
    "GET hooks (not admin)": ("GET", f"{DEMO}/hooks", None),
}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with scratch_dir() as directory, running(directory) as found:
        yield found


@pytest.mark.parametrize("scopes", SCOPES)
def test_a_token_may_do_what_its_scopes_say(world: World, scopes: str) -> None:
    headers = {"Authorization": f"token {token('ccweb-bot', NAMES.get(scopes, scopes))}"}
    assert SCOPES[scopes].keys() == CALLS.keys()
    found = {}
    for name, (method, path, body) in CALLS.items():
        filled = path.replace("{12}", str(world.ids["12"])).replace("{head}", world.ids["head"])
        answer = world.ask(method, filled, body, headers=headers)
        told = answer.json().get("message") if answer.is_error else None
        found[name] = {"status": answer.status_code, "message": told}
    # The first reaction is new, the same one again is not.
    measured = SCOPES[scopes]["POST comment reaction"]
    if measured["status"] in {200, 201} and found["POST comment reaction"]["status"] in {200, 201}:
        found["POST comment reaction"] = measured
    assert found == SCOPES[scopes]


def test_a_token_without_scopes_may_do_nothing(world: World) -> None:
    headers = {"Authorization": f"token {token('ccweb-bot', 'none')}"}
    for name, (method, path, body) in CALLS.items():
        assert world.ask(method, path, body, headers=headers).status_code == 403, name


def test_a_token_in_the_url_works_too(world: World) -> None:
    assert world.ask("GET", f"/user?token={token('bob')}", headers={}).json()["login"] == "bob"


@dataclass(frozen=True)
class Git:
    """One way to call git, as the table names it."""

    repo: str
    scheme: str = ""
    secret: str = ""
    user: str = ""
    url: str = ""
    askpass: bool = False
    push: str = ""


def basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


ALICE, BOT, CAROL = token("alice"), token("ccweb-bot"), token("carol")
WRONG = "0" * 40
SECRET, PUBLIC, READABLE = "alice/secret", "alice/demo", "alice/readable"
WAYS = {
    "private, no credentials": Git(SECRET),
    'private, extraHeader "Authorization: token <token>"': Git(SECRET, "token", ALICE),
    'private, extraHeader "Authorization: Bearer <token>"': Git(SECRET, "Bearer", ALICE),
    'private, extraHeader "Authorization: Basic base64(user:token)"': Git(SECRET, "Basic", basic("alice", ALICE)),
    'private, extraHeader "Authorization: Basic base64(token:x-oauth-basic)"': Git(
        SECRET, "Basic", basic(ALICE, "x-oauth-basic")
    ),
    'private, extraHeader "Authorization: Basic base64(anyname:token)"': Git(SECRET, "Basic", basic("any", ALICE)),
    "private, http://user:token@host URL": Git(SECRET, url=f"alice:{ALICE}@"),
    "private, http://token@host URL": Git(SECRET, url=f"{ALICE}@"),
    "private, http://oauth2:token@host URL": Git(SECRET, url=f"oauth2:{ALICE}@"),
    "private, GIT_ASKPASS program that prints user and token": Git(SECRET, secret=ALICE, askpass=True),
    "private, GIT_ASKPASS with a wrong token": Git(SECRET, secret=WRONG, askpass=True),
    "private, wrong token in extraHeader token": Git(SECRET, "token", WRONG),
    "private, wrong token in extraHeader Basic": Git(SECRET, "Basic", basic("alice", WRONG)),
    "private, wrong token in the URL": Git(SECRET, url=f"alice:{WRONG}@"),
    "private, valid token of a user without access (extraHeader Basic)": Git(SECRET, "Basic", basic("b", BOT)),
    "private, valid token of a user without access (extraHeader token)": Git(SECRET, "token", BOT),
    "missing repository, valid token": Git("alice/nope", "token", ALICE),
    "public, no credentials": Git(PUBLIC),
    "public, wrong token in extraHeader token": Git(PUBLIC, "token", WRONG),
    "push to a public repository without write permission": Git(PUBLIC, "token", CAROL, push="carol-x"),
    **{
        f"fetch from a public repository, token scope {scope}": Git(PUBLIC, "token", token("ccweb-bot", scope))
        for scope in ("write:issue", "read:repository", "write:repository")
    },
    **{
        f"push by a collaborator with write permission, token scope {scope}": Git(
            PUBLIC, "token", token("ccweb-bot", scope), push=f"scope-{scope.replace(':', '-')}"
        )
        for scope in ("write:issue", "read:repository", "write:repository")
    },
    **{
        f"fetch from a private repository (collaborator), token scope {scope}": Git(
            READABLE, "token", token("ccweb-bot", scope)
        )
        for scope in ("write:issue", "read:repository", "write:repository")
    },
}


def run(world: World, way: Git, directory: Path) -> subprocess.CompletedProcess[str]:
    askpass = directory / "askpass"
    askpass.write_text(f'#!/bin/sh\ncase "$1" in Username*) echo alice;; *) echo {way.secret};; esac\n')
    askpass.chmod(0o700)
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "GIT_TERMINAL_PROMPT": "0"}
    if way.askpass:
        environment["GIT_ASKPASS"] = str(askpass)
    header = ["-c", f"http.extraHeader=Authorization: {way.scheme} {way.secret}"] if way.scheme else []
    where = world.url.replace("http://", f"http://{way.url}") + f"/{way.repo}.git"
    verb = ["push", where, f"HEAD:{way.push}"] if way.push else ["ls-remote", where]
    return subprocess.run(
        ["git", *header, *verb],
        cwd=directory / "clone" if way.push else directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def plain(world: World, text: str) -> list[str]:
    """The lines of an error without addresses, names and the blanks that git pads with."""
    text = re.sub(rf"http://127\.0\.0\.1:\d+/({SECRET}|{PUBLIC}|{READABLE}|alice/nope)", "REPOSITORY", text)
    text = re.sub(r"http://127\.0\.0\.1:\d+", "GITEA", text)
    return [line.strip() for line in text.splitlines() if line.strip() not in {"", "remote:"}]


@pytest.mark.parametrize("name", WAYS)
def test_git_ends_as_measured(world: World, state_dir: Path, name: str) -> None:
    way, measured = WAYS[name], GIT[name]
    if way.push:
        clone = ["git", "clone", "--quiet", f"{world.url}/{way.repo}.git", str(state_dir / "clone")]
        subprocess.run(clone, check=True)
    done = run(world, way, state_dir)
    assert done.returncode == measured["exit_code"], done.stderr
    if done.returncode:
        assert plain(world, done.stderr) == plain(world, measured["stderr"])


def test_every_measured_way_is_tried() -> None:
    assert GIT.keys() - WAYS.keys() == {"server down (closed port)"}
