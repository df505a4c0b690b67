"""How deliveries go out: headers and signatures, one after another, 5 s each, never again."""

import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.conftest import scratch_dir
from tests.contract import shapes
from tests.contract.place import ALICE, BOT, HTTP, TOKEN, Gitea, running_gitea, until
from tests.contract.receiver import Arrived, Receiver, receiving

LIMIT = 5.0
SECRET = "lab-webhook-secret"
SEED: Any = {
    "users": [
        {"login": "alice", "token": ALICE, "admin": True},
        {"login": BOT, "token": TOKEN},
        {"login": "acme", "owners": ["alice"]},
    ],
    "repositories": [],
}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture(scope="module")
def gitea() -> Iterator[Gitea]:
    with scratch_dir() as directory, running_gitea(directory, SEED) as found:
        yield found


@pytest.fixture
def repo(gitea: Gitea, request: pytest.FixtureRequest) -> str:
    """A repository of its own, with issue 1."""
    name = "r" + "".join(one for one in request.node.name if one.isalnum())[-60:]
    return new_repo(gitea, name)


def new_repo(gitea: Gitea, name: str, owner: str = "alice") -> str:
    path = "/api/v1/user/repos" if owner == "alice" else f"/api/v1/orgs/{owner}/repos"
    gitea.ask("POST", path, {"name": name, "auto_init": True})
    gitea.ask("POST", f"/api/v1/repos/{owner}/{name}/issues", {"title": "t"})
    return f"/api/v1/repos/{owner}/{name}"


def add_hook(gitea: Gitea, path: str, url: str, events: list[str] | None = None, **more: Any) -> Any:
    config = {"url": url, "content_type": "json", "secret": SECRET} | more.pop("config", {})
    wanted = {"type": "gitea", "active": True, "events": events or ["issue_comment"], **more}
    return gitea.ask("POST", f"{path}/hooks", {**wanted, "config": config})


def say(gitea: Gitea, repo: str, text: str = "words") -> int:
    return int(gitea.ask("POST", f"{repo}/issues/1/comments", {"body": text})["id"])


def texts(arrived: list[Arrived]) -> list[str]:
    return [json.loads(one.body)["comment"]["body"] for one in arrived]


def test_headers_body_and_signature_are_as_captured(gitea: Gitea, receiver: Receiver, repo: str) -> None:
    add_hook(gitea, repo, f"{receiver.url}/ok-headers")
    say(gitea, repo, "<b> & „ü“ \r\n")
    until(lambda: receiver.at("/ok-headers"))
    (arrived,) = receiver.at("/ok-headers")
    captured = shapes.capture("comment_mention")["headers"]
    added = {"Host", "Content-Length", "Accept-Encoding", "Accept", "Connection"}  # of any client
    given = {name.title() for name in arrived.headers} - {name.title() for name in added}
    assert given == {name.title() for name in captured}
    digest = hmac.new(SECRET.encode(), arrived.body, "sha256").hexdigest()
    assert arrived.headers["X-Gitea-Signature"] == arrived.headers["X-Gogs-Signature"] == digest
    assert arrived.headers["X-Hub-Signature-256"] == f"sha256={digest}"
    assert arrived.headers["User-Agent"] == captured["User-Agent"]
    text = arrived.body.decode()
    assert text.startswith('{\n  "action": "created"') and "\\u003cb\\u003e \\u0026 „ü“ \\r\\n" in text


def test_options_of_a_webhook_show_on_the_wire(gitea: Gitea, receiver: Receiver, repo: str) -> None:
    add_hook(gitea, repo, f"{receiver.url}/ok-form", config={"content_type": "form"})
    add_hook(gitea, repo, f"{receiver.url}/ok-open", config={"secret": ""})
    add_hook(gitea, repo, f"{receiver.url}/ok-auth", authorization_header="Bearer static")
    say(gitea, repo)
    until(lambda: receiver.at("/ok-auth"))
    (form,), (plain,), (known,) = (receiver.at(f"/ok-{name}") for name in ("form", "open", "auth"))
    payload = parse_qs(form.body.decode())["payload"][0].encode()
    assert form.headers["X-Gitea-Signature"] == hmac.new(SECRET.encode(), payload, "sha256").hexdigest()
    assert form.headers["Content-Type"] == "application/x-www-form-urlencoded" and payload == plain.body
    names = ("X-Gitea-Signature", "X-Hub-Signature", "X-Hub-Signature-256")
    assert [plain.headers[name] for name in names] == ["", "sha1=", "sha256="]
    assert known.headers["Authorization"] == "Bearer static"


def test_repository_organisation_and_server_hear_of_one_event_each(gitea: Gitea, receiver: Receiver) -> None:
    repo = new_repo(gitea, "three", "acme")
    add_hook(gitea, repo, f"{receiver.url}/ok-three")
    add_hook(gitea, "/api/v1/orgs/acme", f"{receiver.url}/ok-three")
    add_hook(gitea, "/api/v1/admin", f"{receiver.url}/ok-three", config={"is_system_webhook": "true"})
    say(gitea, repo)
    until(lambda: len(receiver.at("/ok-three")) == 3)
    arrived = receiver.at("/ok-three")
    assert len({one.body for one in arrived}) == 1
    assert len({one.headers["X-Gitea-Delivery"] for one in arrived}) == 3


def test_a_manual_redelivery_has_the_same_bytes_and_a_new_id(gitea: Gitea, receiver: Receiver, repo: str) -> None:
    add_hook(gitea, repo, f"{receiver.url}/ok-again")
    say(gitea, repo)
    until(lambda: receiver.at("/ok-again"))
    first = receiver.at("/ok-again")[0]
    gitea.post("/_sim/redeliver", {"id": first.headers["X-Gitea-Delivery"]})
    until(lambda: len(receiver.at("/ok-again")) == 2)
    second = receiver.at("/ok-again")[1]
    assert second.body == first.body
    assert second.headers["X-Gitea-Signature"] == first.headers["X-Gitea-Signature"]
    assert second.headers["X-Gitea-Delivery"] != first.headers["X-Gitea-Delivery"]


def test_a_failed_delivery_is_not_sent_again_and_a_redirect_loses_the_body(
    gitea: Gitea, receiver: Receiver, repo: str
) -> None:
    for path in ("500", "302", "ok-last"):
        add_hook(gitea, repo, f"{receiver.url}/{path}")
    say(gitea, repo, "first")
    say(gitea, repo, "second")
    until(lambda: len(receiver.at("/ok-last")) == 2)
    assert texts(receiver.at("/500")) == ["first", "second"]
    followed = receiver.at("/ok-302")
    assert [(one.method, one.body) for one in followed] == [("GET", b"")] * 2


def test_a_slow_receiver_delays_all_others_by_5_s(gitea: Gitea, receiver: Receiver, repo: str) -> None:
    add_hook(gitea, repo, f"{receiver.url}/hang")
    add_hook(gitea, repo, f"{receiver.url}/ok-late")
    started = time.monotonic()
    say(gitea, repo)
    assert time.monotonic() - started < LIMIT / 2  # the call itself does not wait
    until(lambda: receiver.at("/ok-late"))
    assert LIMIT - 0.2 < time.monotonic() - started < LIMIT + 3
    receiver.let_go.set()


def test_an_inactive_webhook_gets_nothing_and_nothing_is_kept_for_it(
    gitea: Gitea, receiver: Receiver, repo: str
) -> None:
    made = add_hook(gitea, repo, f"{receiver.url}/ok-off", active=False)
    add_hook(gitea, repo, f"{receiver.url}/ok-on")
    say(gitea, repo, "unheard")
    gitea.ask("PATCH", f"{repo}/hooks/{made['id']}", {"active": True})
    say(gitea, repo, "heard")
    until(lambda: len(receiver.at("/ok-on")) == 2 and receiver.at("/ok-off"))
    assert texts(receiver.at("/ok-off")) == ["heard"]


def test_the_server_dies_with_one_on_its_way_which_is_lost_while_the_queued_are_sent(
    receiver: Receiver, state_dir: Path
) -> None:
    receiver.let_go.clear()
    with running_gitea(state_dir, SEED) as gitea:
        repo = new_repo(gitea, "restart")
        for path in ("hang", "ok-queued"):
            add_hook(gitea, repo, f"{receiver.url}/{path}")
        before = len(receiver.at("/hang"))
        say(gitea, repo)
        until(lambda: len(receiver.at("/hang")) > before)
    assert not receiver.at("/ok-queued")
    with running_gitea(state_dir, SEED):
        until(lambda: receiver.at("/ok-queued"))
    assert len(receiver.at("/hang")) == before + 1
    receiver.let_go.set()


ALL_PULLS = {"pull_request", "pull_request_comment", "pull_request_review_comment", "pull_request_review_approved"}
LISTENED = {
    "issue_comment": {"issue_comment"},
    "pull_request_comment": {"pull_request_comment", "pull_request_review_comment"},
    "issues": {"issues", "issue_assign", "issue_label", "issue_comment"},
    "issues_only": {"issues"},
    "pull_request": ALL_PULLS,
    "pull_request_only": {"pull_request"},
    "pull_request_review": {"pull_request_review_approved"},
    "pull_request_review_approved": set(),
}


@pytest.mark.parametrize("word", LISTENED)
def test_a_word_subscribes_what_was_measured(gitea: Gitea, receiver: Receiver, repo: str, word: str) -> None:
    gitea.ask("PUT", f"{repo}/collaborators/{BOT}", {"permission": "write"})
    gitea.ask("POST", f"{repo}/labels", {"name": "l", "color": "#fff"})
    change = {"content": "", "message": "m", "branch": "main", "new_branch": "b"}
    gitea.ask("POST", f"{repo}/contents/new.txt", change)
    add_hook(gitea, repo, f"{receiver.url}/ok-{word}", [word])
    add_hook(gitea, repo, f"{receiver.url}/ok-end-{word}", ["create"])
    _everything(gitea, repo)
    gitea.ask("POST", f"{repo}/branches", {"new_branch_name": "end"})
    until(lambda: receiver.at(f"/ok-end-{word}"))
    assert {one.headers["X-Gitea-Event-Type"] for one in receiver.at(f"/ok-{word}")} == LISTENED[word]


def _everything(gitea: Gitea, repo: str) -> None:
    issue, pull = f"{repo}/issues/1", f"{repo}/pulls/2"
    say(gitea, repo)
    gitea.ask("PATCH", issue, {"state": "closed", "assignees": [BOT]})
    gitea.ask("POST", f"{issue}/labels", {"labels": ["l"]})
    gitea.ask("POST", f"{repo}/pulls", {"title": "p", "head": "b", "base": "main"})
    gitea.ask("POST", f"{repo}/issues/2/comments", {"body": "x"})
    for event in ("COMMENT", "APPROVED"):
        gitea.ask("POST", f"{pull}/reviews", {"event": event, "body": "x"}, TOKEN)


def test_these_changes_are_told_to_nobody(gitea: Gitea, receiver: Receiver, repo: str) -> None:
    add_hook(gitea, repo, f"{receiver.url}/ok-quiet", ["issues", "pull_request", "push", "repository", "create"])
    comment = say(gitea, repo)
    sha = gitea.ask("GET", f"{repo}/branches/main")["commit"]["id"]
    until(lambda: receiver.at("/ok-quiet"))
    gitea.ask("POST", f"{repo}/statuses/{sha}", {"state": "success", "context": "c"})
    gitea.ask("POST", f"{repo}/issues/comments/{comment}/reactions", {"content": "eyes"})
    gitea.ask("POST", f"{repo}/labels", {"name": "l", "color": "#fff"})
    gitea.ask("PATCH", repo, {"name": "renamed-quietly"})
    owner = repo.rpartition("/")[0]
    gitea.ask("DELETE", f"{owner}/renamed-quietly/issues/1")
    gitea.ask("POST", f"{owner}/renamed-quietly/branches", {"new_branch_name": "end"})
    until(lambda: len(receiver.at("/ok-quiet")) > 1)
    kinds = [one.headers["X-Gitea-Event-Type"] for one in receiver.at("/ok-quiet")]
    assert kinds[:2] == ["issue_comment", "create"]


def test_the_test_button_sends_a_push_in_which_nothing_changed(gitea: Gitea, receiver: Receiver, repo: str) -> None:
    made = add_hook(gitea, repo, f"{receiver.url}/ok-button")
    headers = {"Authorization": f"token {ALICE}"}
    assert HTTP.post(f"{gitea.url}{repo}/hooks/{made['id']}/tests", headers=headers).status_code == 204
    until(lambda: receiver.at("/ok-button"))
    (arrived,) = receiver.at("/ok-button")
    body = json.loads(arrived.body)
    assert arrived.headers["X-Gitea-Event"] == "push" and body["before"] == body["after"]
