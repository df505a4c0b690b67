"""Repositories that move, close or shut the bot out: the same against the simulator and a real Gitea."""

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import scratch_dir
from tests.contract.forge import Forge, forge


@pytest.fixture(scope="module")
def gitea() -> Iterator[Forge]:
    with scratch_dir() as directory, forge(directory) as found:
        yield found


@pytest.fixture
def repo(gitea: Forge) -> Iterator[str]:
    """The path of a private repository with issue 1, in which the bot may write."""
    name = f"ccweb-contract-{secrets.token_hex(4)}"
    path = f"/repos/{gitea.owner}/{name}"
    gitea.ask("POST", "/user/repos", {"name": name, "auto_init": True, "private": True}).raise_for_status()
    gitea.ask("PUT", f"{path}/collaborators/{gitea.bot}", {"permission": "write"}).raise_for_status()
    gitea.ask("POST", f"{path}/issues", {"title": "t"}).raise_for_status()
    yield path
    gitea.ask("DELETE", path).raise_for_status()


def say(gitea: Forge, repo: str) -> int:
    return gitea.ask("POST", f"{repo}/issues/1/comments", {"body": "x"}, token=gitea.bot_token).status_code


def push(gitea: Forge, repo: str, directory: Path, branch: str) -> subprocess.CompletedProcess[str]:
    """Clones as the owner and pushes a commit as the bot."""

    def run(token: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.test")
        header = f"http.extraHeader=Authorization: token {token}"
        command = ["git", "-c", header, *who, *arguments]
        environment = {"GIT_TERMINAL_PROMPT": "0", "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(directory)}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    clone = str(directory / "clone")
    url = f"{gitea.url}/{repo.removeprefix('/repos/')}.git"
    cloned = run(gitea.owner_token, "clone", url, clone)
    assert cloned.returncode == 0, cloned.stderr
    run(gitea.owner_token, "-C", clone, "commit", "--allow-empty", "-m", "one").check_returncode()
    return run(gitea.bot_token, "-C", clone, "push", "origin", f"HEAD:{branch}")


def test_a_bot_that_is_no_longer_a_collaborator_sees_nothing(gitea: Forge, repo: str, state_dir: Path) -> None:
    assert say(gitea, repo) == 201
    gitea.ask("DELETE", f"{repo}/collaborators/{gitea.bot}").raise_for_status()
    assert gitea.ask("GET", repo, token=gitea.bot_token).status_code == 404 and say(gitea, repo) == 404
    done = push(gitea, repo, state_dir, "late")
    assert done.returncode == 128 and "not found" in done.stderr


def test_a_bot_that_may_only_read_comments_but_does_not_push(gitea: Forge, repo: str, state_dir: Path) -> None:
    gitea.ask("PUT", f"{repo}/collaborators/{gitea.bot}", {"permission": "read"}).raise_for_status()
    assert say(gitea, repo) == 201
    done = push(gitea, repo, state_dir, "late")
    assert done.returncode == 1 and "User permission denied for writing" in done.stderr


def test_an_archived_repository_takes_no_comment_and_no_push(gitea: Forge, repo: str, state_dir: Path) -> None:
    gitea.ask("PATCH", repo, {"archived": True}).raise_for_status()
    shown = gitea.ask("GET", repo, token=gitea.bot_token).raise_for_status().json()
    assert shown["archived"] is True and say(gitea, repo) == 423
    done = push(gitea, repo, state_dir, "late")
    assert done.returncode == 128 and "403" in done.stderr


def test_a_protected_branch_refuses_the_push_and_says_why(gitea: Forge, repo: str, state_dir: Path) -> None:
    rule = {"rule_name": "main", "enable_push": False}
    gitea.ask("POST", f"{repo}/branch_protections", rule).raise_for_status()
    done = push(gitea, repo, state_dir, "main")
    assert done.returncode == 1 and "Not allowed to push to protected branch main" in done.stderr


@pytest.fixture
def organisation(gitea: Forge) -> Iterator[str]:
    name = f"ccweb-contract-{secrets.token_hex(4)}"
    gitea.ask("POST", "/orgs", {"username": name}).raise_for_status()
    yield name
    gitea.ask("DELETE", f"/orgs/{name}").raise_for_status()


def test_a_repository_moved_to_an_organisation_is_found_by_its_old_name(gitea: Forge, organisation: str) -> None:
    name = f"ccweb-contract-{secrets.token_hex(4)}"
    path = f"/repos/{gitea.owner}/{name}"
    made = gitea.ask("POST", "/user/repos", {"name": name, "auto_init": True}).raise_for_status().json()
    moved = gitea.ask("POST", f"{path}/transfer", {"new_owner": organisation})
    assert moved.status_code == 202
    old = gitea.ask("GET", path)
    assert old.status_code in {301, 307} and old.headers["Location"] == f"/api/v1/repos/{organisation}/{name}"
    new = gitea.ask("GET", f"/repos/{organisation}/{name}").raise_for_status().json()
    assert (new["id"], new["full_name"]) == (made["id"], f"{organisation}/{name}")
    gitea.ask("DELETE", f"/repos/{organisation}/{name}").raise_for_status()
