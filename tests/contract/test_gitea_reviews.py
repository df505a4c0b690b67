"""Reviews of pull requests: routes and deliveries as a real Gitea has them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.conftest import scratch_dir
from tests.contract import shapes
from tests.contract.forge import Forge, forge
from tests.contract.place import until

HOOK = {
    "type": "gitea",
    "active": True,
    "config": {"url": "http://127.0.0.1:9/", "content_type": "json", "secret": "s"},
    "events": ["pull_request_comment", "pull_request_review"],
}
REMARK = {"path": "README.md", "body": "why?", "new_position": 1, "old_position": 0}


@pytest.fixture(scope="module")
def gitea() -> Iterator[Forge]:
    with scratch_dir() as directory, forge(directory) as found:
        found.on_repo("POST", "/hooks", HOOK).raise_for_status()
        yield found


@dataclass(frozen=True)
class Pull:
    gitea: Forge
    number: int

    def ask(self, method: str, path: str, body: Any = None, *, bot: bool = True) -> httpx.Response:
        token = self.gitea.bot_token if bot else self.gitea.owner_token
        return self.gitea.on_repo(method, f"/pulls/{self.number}{path}", body, token=token)

    def review(self, **body: Any) -> Any:
        return self.ask("POST", "/reviews", body).raise_for_status().json()


@pytest.fixture
def pull(gitea: Forge, request: pytest.FixtureRequest) -> Pull:
    """A pull request of the owner that changes the README."""
    branch = f"b{abs(hash(request.node.name)) % 10**8}"
    file = gitea.on_repo("GET", "/contents/README.md?ref=main").raise_for_status().json()
    change = {"content": "bmV3Cg==", "message": "m", "sha": file["sha"], "branch": "main", "new_branch": branch}
    gitea.on_repo("PUT", "/contents/README.md", change).raise_for_status()
    wanted = {"title": branch, "head": branch, "base": "main"}
    return Pull(gitea, gitea.on_repo("POST", "/pulls", wanted).raise_for_status().json()["number"])


def test_a_review_with_remarks_is_listed_with_its_comments(pull: Pull) -> None:
    made = pull.review(event="COMMENT", body="two words", comments=[REMARK])
    assert not shapes.differences(made, shapes.api("post_pull_review_comment")["response"]["body"])
    listed = pull.ask("GET", "/reviews")
    assert listed.headers["X-Total-Count"] == "1" and [one["id"] for one in listed.json()] == [made["id"]]
    assert not shapes.differences(listed.json(), shapes.api("get_pull_reviews")["response"]["body"])
    comments = pull.ask("GET", f"/reviews/{made['id']}/comments").raise_for_status().json()
    assert not shapes.differences(comments, shapes.api("get_pull_review_comments")["response"]["body"])
    (remark,) = comments
    assert (remark["body"], remark["path"], remark["position"]) == ("why?", "README.md", 1)
    assert remark["diff_hunk"].startswith("@@ -1") and remark["diff_hunk"].endswith("+new")


def test_remarks_of_a_review_are_no_comments_of_the_conversation(pull: Pull) -> None:
    pull.review(event="COMMENT", body="x", comments=[REMARK])
    assert pull.gitea.on_repo("GET", f"/issues/{pull.number}/comments").json() == []
    shown = pull.ask("GET", "").json()
    assert (shown["comments"], shown["review_comments"]) == (0, 1)


@pytest.mark.parametrize(
    ("body", "bot", "words"),
    [
        ({"event": "COMMENT", "body": ""}, True, "requires a body or a comment"),
        ({"event": "REQUEST_CHANGES", "body": " "}, True, "requires a body"),
        ({"event": "APPROVED", "body": "self"}, False, "approve your own pull is not allowed"),
    ],
)
def test_reviews_that_gitea_refuses(pull: Pull, body: Any, bot: bool, words: str) -> None:
    answer = pull.ask("POST", "/reviews", body, bot=bot)
    assert answer.status_code == 422 and words in answer.json()["message"]


def test_a_pending_review_is_seen_by_its_author_alone_until_it_is_submitted(pull: Pull) -> None:
    made = pull.review(event="PENDING", body="later", comments=[REMARK])
    path = f"/reviews/{made['id']}"
    assert made["state"] == "PENDING" and pull.ask("GET", path).status_code == 200
    assert pull.ask("GET", path, bot=False).status_code == 404
    assert pull.ask("GET", "/reviews", bot=False).json() == []
    submitted = pull.ask("POST", path, {"event": "COMMENT", "body": "now"}).raise_for_status().json()
    assert (submitted["id"], submitted["state"]) == (made["id"], "COMMENT")
    assert pull.ask("POST", path, {"event": "COMMENT", "body": "again"}).status_code == 422


def test_a_later_verdict_dismisses_the_earlier_one_and_an_admin_may_dismiss_too(pull: Pull) -> None:
    first = pull.review(event="REQUEST_CHANGES", body="no")
    second = pull.review(event="APPROVED", body="yes")
    states = {one["id"]: (one["dismissed"], one["official"]) for one in pull.ask("GET", "/reviews").json()}
    assert states == {first["id"]: (True, False), second["id"]: (False, True)}
    path = f"/reviews/{second['id']}/dismissals"
    assert pull.ask("POST", path, {"message": "m"}).status_code == 403
    assert pull.ask("POST", path, {"message": "m"}, bot=False).json()["dismissed"] is True


@pytest.mark.parametrize(
    ("event", "text", "capture", "kind"),
    [
        ("COMMENT", "words", "pr_review_comment", ("pull_request_comment", "pull_request_review_comment")),
        ("COMMENT", "", "pr_review_inline_only", ("pull_request_comment", "pull_request_review_comment")),
        ("APPROVED", "good", "pr_review_approved", ("pull_request_approved", "pull_request_review_approved")),
        ("REQUEST_CHANGES", "bad", "pr_review_rejected", ("pull_request_rejected", "pull_request_review_rejected")),
    ],
)
def test_the_delivery_of_a_review_lacks_its_id_and_its_remarks(
    pull: Pull, event: str, text: str, capture: str, kind: tuple[str, str]
) -> None:
    if not pull.gitea.simulated:
        pytest.skip("only the simulator lists its deliveries")
    pull.review(event=event, body=text, comments=[REMARK])
    listed = f"{pull.gitea.url}/_sim/deliveries"

    def seen() -> list[Any]:
        found = [one for one in httpx.get(listed).json() if one["type"].startswith("pull_request_review")]
        return [one for one in found if json.loads(one["body"])["number"] == pull.number]

    until(seen)
    (delivery,) = seen()
    body = json.loads(delivery["body"])
    assert (delivery["event"], delivery["type"]) == kind
    assert not shapes.differences(body, shapes.delivery(capture))
    assert body["review"] == {"type": kind[1], "content": text} and "why?" not in delivery["body"]
    assert body["repository"]["permissions"] == {"admin": False, "push": False, "pull": True}
