"""Each captured kind of delivery is caused again; the simulator's body has to have the captured shape."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import scratch_dir
from tests.contract import shapes
from tests.contract.world import World, comment, running, token

UNPLAYED = {
    "issue_milestoned": "ccweb uses no milestones",
    "release_published--release": "ccweb uses no releases; their push and create are played by a tag",
    "wiki_created": "ccweb uses no wiki",
    "option_http_method_get": "GET can be chosen in the web form only; the API always makes POST",
    "option_content_type_form": "no JSON; test_gitea_deliveries.py looks at it on the wire",
}
CAPTURES = sorted(path.stem for path in (shapes.DATA / "webhooks").glob("*.json"))


@pytest.fixture(scope="module")
def made() -> Iterator[list[dict[str, Any]]]:
    """Every delivery of a world in which everything happened."""
    with scratch_dir() as directory, running(directory / "gitea") as world:
        _talk(world)
        _issue(world)
        _pull(world)
        _git(world, directory / "clone")
        world.make("POST", f"/repos/alice/demo/hooks/{world.ids['hook']}/tests")
        yield [{**one, "json": json.loads(one["body"])} for one in world.deliveries()]


def _talk(world: World) -> None:
    for number in (1, 2):
        made = comment(world, "alice/demo", number, "words", "alice")
        world.make("PATCH", f"/repos/alice/demo/issues/comments/{made}", {"body": "other words"})
        world.make("DELETE", f"/repos/alice/demo/issues/comments/{made}")


def _issue(world: World) -> None:
    path = "/repos/alice/demo/issues/1"
    changes: list[dict[str, Any]] = [{"title": "t"}, {"body": "b"}, {"assignees": ["bob"]}, {"assignees": []}]
    for change in changes:
        world.make("PATCH", path, change)
    world.make("POST", f"{path}/labels", {"labels": [1]})
    world.make("DELETE", f"{path}/labels")
    for state in ("closed", "open"):
        world.make("PATCH", path, {"state": state})


def _pull(world: World) -> None:
    path = "/repos/alice/demo/pulls/2"
    world.make("POST", f"{path}/requested_reviewers", {"reviewers": ["ccweb-bot"]})
    for event in ("COMMENT", "REQUEST_CHANGES", "APPROVED"):
        world.make("POST", f"{path}/reviews", {"event": event, "body": event}, by="bob")
    for state in ("closed", "open"):
        world.make("PATCH", path, {"state": state})
    world.commit("carol/demo", "MORE.md", "more\n", "patch-1", "patch-1", by="carol")
    comment(world, "alice/demo", 3, "from outside", "carol")
    world.make("POST", f"{path}/merge", {"Do": "merge"}, by="ccweb-bot")
    world.make("POST", "/repos/alice/demo/branches", {"new_branch_name": "gone", "old_branch_name": "main"})
    world.make("DELETE", "/repos/alice/demo/branches/gone")


def _git(world: World, clone: Path) -> None:
    def git(*arguments: str) -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(clone.parent), "GIT_TERMINAL_PROMPT": "0"}
        header = f"http.extraHeader=Authorization: token {token('alice')}"
        who = ("-c", "user.name=alice", "-c", "user.email=alice@example.com")
        subprocess.run(["git", "-c", header, *who, *arguments], check=True, env=environment, capture_output=True)

    git("clone", f"{world.url}/alice/demo.git", str(clone))
    git("-C", str(clone), "commit", "--allow-empty", "-m", "one")
    git("-C", str(clone), "push", "origin", "HEAD:refs/heads/pushed", "HEAD:refs/tags/v0.1", "HEAD:main")
    world.make("POST", "/user/repos", {"name": "empty"})
    git("-C", str(clone), "push", f"{world.url}/alice/empty.git", "HEAD:main")


def _kind(event: str, event_type: str, body: Any) -> tuple[Any, ...]:
    """What makes two deliveries comparable; those with a fork in them have fewer keys."""
    pull = body.get("pull_request") or {}
    fork = body["repository"]["fork"] or bool(pull and pull["head"]["repo"]["fork"])
    tried = "before" in body and body["before"] == body["after"]  # by the test button
    return (event, event_type, body.get("action"), tuple(body.get("changes") or ()), fork, tried)


def _people(body: Any) -> tuple[str, ...]:
    """Who acted, whose issue it is, whose repository: they decide which permissions are told."""
    about = body.get("issue") or body.get("pull_request") or {"user": {"login": ""}}
    return (body["sender"]["login"], about["user"]["login"], body["repository"]["owner"]["login"])


@pytest.mark.parametrize("name", [name for name in CAPTURES if name not in UNPLAYED])
def test_a_delivery_has_the_captured_shape(made: list[dict[str, Any]], name: str) -> None:
    captured = shapes.capture(name)
    headers, body = captured["headers"], shapes.delivery(name)
    wanted = _kind(headers["X-Gitea-Event"], headers["X-Gitea-Event-Type"], body)
    same = [one for one in made if _kind(one["event"], one["type"], one["json"]) == wanted]
    assert same, f"nothing like {wanted}"
    for one in same:
        assert not shapes.differences(one["json"], body)
        if _people(one["json"]) == _people(body):
            assert one["json"]["repository"]["permissions"] == body["repository"]["permissions"]


def test_what_is_not_played_is_captured() -> None:
    assert UNPLAYED.keys() <= set(CAPTURES)
