"""Every captured request is made again to the simulator; the answer has to be what a real Gitea 1.22 gave.

Compared are status, content type, the headers that clients read, the shape of JSON, and the words of errors.
"""

import base64
import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.conftest import scratch_dir
from tests.contract import shapes
from tests.contract.world import PASSWORD, World, running, token

HEADERS = ("link", "x-total-count", "x-hasmore", "location")
TABLES = {"token_scopes_table", "git_http_auth"}  # not pairs; test_gitea_access.py works through them


@dataclass(frozen=True)
class Row:
    """How to make a captured request again; what is not given is as captured."""

    name: str
    swap: dict[str, str] = field(default_factory=dict)
    """What to put in the place of parts of the path."""
    body: Any = None
    by: str = ""
    before: Callable[[World], object] = lambda _: None
    after: Callable[[World], object] = lambda _: None


def bot_is(level: str) -> Callable[[World], object]:
    path = "/repos/alice/demo/collaborators/ccweb-bot"
    return lambda world: world.make("PUT", path, {"permission": level})


def pull_2_is(state: str) -> Callable[[World], object]:
    return lambda world: world.make("PATCH", "/repos/alice/demo/pulls/2", {"state": state})


def a_branch(name: str, repo: str = "alice/demo", by: str = "alice") -> Callable[[World], object]:
    return lambda world: world.commit(repo, f"{name}.txt", "x\n", name, by=by)


READ_ONLY = {"alice/secret": "alice/readable"}
ADMIN = [
    Row(f"get_permission_{who}_asked_by_bot_with_admin", before=bot_is("admin"), after=bot_is("write"))
    for who in ("bob", "carol", "missing_user")
]
# In this order; names alone are enough where nothing has to be prepared.
FIRST: list[Row | str] = [
    "post_requested_reviewers",
    "post_pull_review_comment",
    "post_pull_review_inline_only",
    "post_pull_review_reject",
    "post_pull_review_approve",
    "post_status_pending",
    "post_status_success",
    "post_status_failure",
    "post_status_bad_state",
    "post_reaction",
    "post_reaction_again",
    "get_reactions",
    "get_issue_labels",
    "post_token",
    "post_branch",
    *ADMIN,
]
LAST: list[Row | str] = [
    "get_merge_state_open",
    "get_pull_conflict",
    "post_merge_conflict",
    "post_merge_conflict_right_after",
    "post_merge_wip",
    "post_merge_read_only_user",
    "post_merge_wrong_head_commit_id",
    "post_merge_squash_delete_branch",
    "post_branch_protection",
    Row(
        "post_merge_protected_branch",
        before=lambda world: world.make("PATCH", "/repos/alice/mergelab/pulls/3", {"title": "z"}),
    ),
    "put_contents_protected_branch",
    Row("patch_pull_close", after=pull_2_is("open")),
    "post_merge",
    "post_merge_already_merged",
    "get_merge_state_merged",
    "patch_comment_own",
    "delete_reaction",
    "delete_comment",
    "delete_comment_own",
    "get_comment_deleted",
    "delete_branch",
    "delete_issue",
]
SPECIAL = [
    Row("get_issues_page1", {"alice/demo": "alice/mergelab"}),  # a repository with no issues, as then
    Row("get_pulls_open", {"alice/demo": "alice/mergelab", "limit=1": "limit=50"}),  # all on one page, as then
    Row("get_repo_private_read_only_bot", READ_ONLY),
    Row("post_comment_read_only_bot", READ_ONLY),
    Row("post_branch_read_only_bot", READ_ONLY),
    Row("post_issue_labels_read_only_bot", READ_ONLY),
    Row("post_pull", body={"title": "b", "body": "b", "head": "again", "base": "main"}, before=a_branch("again")),
    Row(
        "post_pull_from_fork",
        body={"title": "b", "body": "b", "head": "carol:patch-2", "base": "main"},
        before=a_branch("patch-2", "carol/demo", "carol"),
    ),
    Row("post_fork", by="bob"),
    Row("post_user_repos", body={"name": "demo2", "description": "d", "default_branch": "main"}),
    Row("post_admin_user_org", body={"username": "other-org", "visibility": "public"}),
    Row("post_admin_user_org_not_allowed", {"/alice/": "/bob/"}, body={"username": "bobs"}),
    Row("post_org_forbidden", by="bob", body={"username": "bobs"}),
    # An archive cannot be archived again without being made; any other repository does.
    Row("patch_repo_archive", {"alice/fail": "alice/newname"}, after=lambda world: world.make(
        "PATCH", "/repos/alice/newname", {"archived": False})),
]  # fmt: skip


def rows() -> list[Row]:
    """All captures, each once."""
    special = {row.name: row for row in SPECIAL}
    ordered = [one if isinstance(one, Row) else Row(one) for one in [*FIRST, *LAST]]
    named = {row.name for row in ordered}
    captured = sorted(path.stem for path in (shapes.DATA / "gitea_api").glob("*.json"))
    between = [special.get(name, Row(name)) for name in captured if name not in named | TABLES]
    return [*ordered[: len(FIRST)], *between, *ordered[len(FIRST) :]]


def headers_of(row: Row, request: dict[str, Any], note: str) -> dict[str, str]:
    """The Authorization that the capture names in words."""
    who = row.by or request["as"].removeprefix("token of ")
    scope = re.search(r"scope (\S+) only", note)
    if request["as"].startswith("token of ") or row.by:
        return {"Authorization": f"token {token(who)}"}
    if request["as"] == "basic auth":
        secret = token("ccweb-bot") if "token as the password" in note else PASSWORD
        return {"Authorization": "Basic " + base64.b64encode(f"ccweb-bot:{secret}".encode()).decode()}
    if "Bearer" in note:
        return {"Authorization": f"Bearer {token('ccweb-bot')}"}
    if scope:
        return {"Authorization": f"token {token('ccweb-bot', scope[1])}"}
    return {"Authorization": "token 0000000000"} if "unknown token" in note else {}


def path_of(row: Row, world: World, path: str) -> str:
    path = re.sub(r"/comments/(\d+)", lambda found: f"/comments/{world.ids.get(found[1], found[1])}", path)
    path = path.replace("/hooks/1/", f"/hooks/{world.ids['hook']}/")
    path = re.sub(r"(since|before)=20[^&]+", lambda found: f"{found[1]}={world.ids['time']}", path)
    for old, new in row.swap.items():
        assert old in path, f"{row.name} does not name {old}"
        path = path.replace(old, new)
    return re.sub(r"19f00e[0-9a-f]{34}", world.ids["head"], path)


def replay(row: Row, world: World) -> list[str]:
    """Makes the request; what differs from the capture."""
    pair = shapes.api(row.name)
    request, expected = pair["request"], pair["response"]
    row.before(world)
    body = row.body if row.body is not None else request.get("body")
    content = json.dumps(body).replace("19f00e596e79ebfc93269579d8f4c96d6e882988", world.ids["head"])
    answer = world.http.request(
        request["method"],
        world.url + path_of(row, world, request["path"]),
        content=content if body is not None else b"not json" if request["method"] == "POST" else None,
        headers=headers_of(row, request, pair.get("note", "")),
    )
    row.after(world)
    return different(answer, expected)


def different(answer: httpx.Response, expected: dict[str, Any]) -> list[str]:
    wanted = {name.lower(): value for name, value in expected.get("headers", {}).items()}
    found = []
    if answer.status_code != expected["status"]:
        found.append(f"status {answer.status_code}, not {expected['status']}: {answer.text[:200]}")
    if answer.headers.get("content-type") != wanted.get("content-type"):
        found.append(f"content type {answer.headers.get('content-type')}, not {wanted.get('content-type')}")
    found += [f"header {name}" for name in HEADERS if (name in answer.headers) != (name in wanted)]
    if wanted.get("content-type", "").startswith("application/json"):
        found += _of_bodies(answer.json(), expected["body"], expected["status"])
    return found


def _of_bodies(seen: Any, captured: Any, status: int) -> list[str]:
    if status < 400:
        return shapes.differences(seen, captured)
    told, wanted = ({key: value for key, value in one.items() if key != "url"} for one in (seen, captured))
    return [] if _words(told) == _words(wanted) else [f"words {told}, not {wanted}"]


def _words(value: Any) -> str:
    """Without numbers and names of repositories, which differ from server to server."""
    return re.sub(r"\d+|[a-z]+/(fail|readable)", "#", json.dumps(value, sort_keys=True))


@contextlib.contextmanager
def _world() -> Iterator[World]:
    with scratch_dir() as directory, running(directory) as world:
        shown = world.make("GET", f"/repos/alice/demo/issues/comments/{world.ids['167']}")
        world.ids["time"] = shown["created_at"].replace(":", "%3A")
        yield world


def test_every_captured_request_gets_the_captured_answer() -> None:
    with _world() as world:
        found = {row.name: differences for row in rows() if (differences := replay(row, world))}
    assert not found, json.dumps(found, indent=1)


def test_every_capture_is_replayed() -> None:
    captured = {path.stem for path in (shapes.DATA / "gitea_api").glob("*.json")}
    assert {row.name for row in rows()} | TABLES == captured
