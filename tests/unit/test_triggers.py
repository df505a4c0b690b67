"""Every captured delivery and mention against the hand-written expectations, and what they leave open."""

import json
from pathlib import Path
from typing import Any

import pytest

from domain.events import MAX_TEXT
from domain.mentions import is_mentioned
from domain.triggers import MEANING, DecisionCode, Policy, Trigger
from ingress.explain import describe, explain
from ingress.gitea import RawDelivery, judge
from tests.signing import signed_headers

DATA = Path(__file__).parent.parent / "data"
EXPECTED = json.loads((DATA / "expectations.json").read_text(encoding="utf-8"))
SECRETS = ("lab-webhook-secret",)
POLICY = Policy(bot_name="ccweb-bot", triggers=frozenset({Trigger.COMMENT}))
ALL = Policy(bot_name="ccweb-bot")
ANSWER = ("decision", "code", "httpStatus")


def _explain(name: str, policy: Policy = POLICY) -> dict[str, Any]:
    return explain(DATA / "webhooks" / f"{name}.json", policy, SECRETS)


@pytest.mark.parametrize("row", EXPECTED["deliveries"], ids=lambda row: row["file"])
def test_a_captured_delivery_is_decided_as_expected(row: dict[str, Any]) -> None:
    found = _explain(row["file"])
    assert {key: found[key] for key in (*ANSWER, "kind", "author")} == {
        key: row[key] for key in (*ANSWER, "kind", "author")
    }


@pytest.mark.parametrize("row", EXPECTED["deliveries"], ids=lambda row: row["file"])
def test_a_captured_delivery_is_decided_as_expected_with_every_trigger(row: dict[str, Any]) -> None:
    found = _explain(row["file"], ALL)
    assert {key: found[key] for key in ANSWER} == {key: row.get("allTriggers", row)[key] for key in ANSWER}


@pytest.mark.parametrize("row", EXPECTED["mentions"], ids=lambda row: str(row["row"]))
def test_a_text_of_the_mention_table_counts_as_expected(row: dict[str, Any]) -> None:
    place = row.get("place", "text")
    if place == "text":
        assert is_mentioned(row["text"], "ccweb-bot") is row["counts"]
    elif place == "title":
        found = _decide(_issue_opened(title="@ccweb-bot in the title", body="no"), ALL)
        assert (found["code"] != "no_mention") is row["counts"]
    else:
        edited = _comment("@ccweb-bot now", action="edited", changes={"body": {"from": "now"}})
        assert (_decide(edited)["decision"] == "trigger") is row["counts"]
        assert (_decide(edited, ALL)["decision"] == "trigger") is row["allTriggers"]


def test_a_decision_has_exactly_the_documented_fields() -> None:
    keys = "decision code reason httpStatus deliveryKey sourceKey resourceKey taskId kind author instruction"
    assert set(_explain("comment_mention")) == set(keys.split())


def test_identifiers_of_a_comment_follow_the_design() -> None:
    found = _explain("comment_mention")
    assert found["deliveryKey"] == "default:a5cd0f1d-bcf7-49ca-abcf-30c7b53b5f82"
    assert found["sourceKey"] == "2:comment:11"
    assert found["resourceKey"] == "default:alice/demo:issue:1"
    assert found["taskId"].startswith("gitea-task-")
    assert found["instruction"] == "please fix the failing test"


def test_a_redelivery_has_the_same_source_and_another_task() -> None:
    original, replayed = _explain("redelivery_original"), _explain("redelivery_replayed")
    assert original["sourceKey"] == replayed["sourceKey"]
    assert original["taskId"] != replayed["taskId"]


def test_issue_and_pull_request_bodies_have_sources_that_never_meet() -> None:
    opened = [_explain(name, ALL)["sourceKey"] for name in ("issue_opened", "pr_opened")]
    assert opened == ["2:issue:1", "2:issue:2"]


def test_a_renamed_repository_keeps_its_identity() -> None:
    assert _explain("comment_after_repo_rename")["sourceKey"] == "24:comment:369"


def test_a_long_text_is_cut_with_a_note() -> None:
    instruction = _explain("comment_long_60k")["instruction"]
    assert len(instruction) == MAX_TEXT
    assert instruction.endswith("characters in all; read the rest by tool]")


def test_the_text_of_the_person_stays_whole_but_for_the_leading_mention() -> None:
    assert _explain("comment_crlf")["instruction"] == ('first line\nsecond line\n\n\tthird & <b>line</b> "q" \\ back')
    assert _explain("comment_mention_mid")["instruction"] == "Could you have a look, @ccweb-bot?"


def test_an_allowed_author_needs_no_permission() -> None:
    policy = Policy(bot_name="ccweb-bot", allowed_authors=frozenset({"carol"}))
    assert _explain("comment_by_outsider", policy)["code"] == "accepted"
    assert _explain("issue_opened_by_outsider_mention", policy)["code"] == "accepted"


@pytest.mark.parametrize(("least", "code"), [("read", "accepted"), ("admin", "insufficient_permission")])
def test_the_minimum_permission_is_a_setting(least: Any, code: str) -> None:
    name = "comment_by_outsider" if least == "read" else "comment_by_bob_mention"
    assert _explain(name, Policy(bot_name="ccweb-bot", minimum_permission=least))["code"] == code


def test_the_bot_name_does_not_depend_on_case() -> None:
    assert _explain("comment_by_bot_mentions_bot", Policy(bot_name="CCWeb-Bot"))["code"] == "own_event"
    assert _explain("comment_mention", Policy(bot_name="CCWeb-Bot"))["code"] == "accepted"


def test_an_edit_by_the_bot_of_another_ones_comment_is_its_own_event() -> None:
    edited = _comment("@ccweb-bot now", action="edited", sender="ccweb-bot", changes={"body": {"from": "now"}})
    assert _decide(edited, ALL)["code"] == "own_event"


@pytest.mark.parametrize("author", [("renovate-bot", 7), ("gitea-actions", -2), ("app[bot]", 8)])
def test_another_bot_is_heard_only_when_allowed(author: tuple[str, int]) -> None:
    comment = _comment("@ccweb-bot please", author=author[0], user_id=author[1])
    assert _decide(comment)["code"] == "other_bot"
    allowed = Policy(bot_name="ccweb-bot", allowed_bots=frozenset({author[0]}))
    assert _decide(comment, allowed)["code"] == "accepted"


def test_a_text_with_our_marker_is_ignored() -> None:
    text = "@ccweb-bot hi\n\n<!-- ccweb commentKey=gitea-task-0:status:queued source=2:comment:1 -->"
    assert _decide(_comment(text))["code"] == "own_marker"


def test_a_comment_edited_while_the_mention_stays_asks_for_nothing_new() -> None:
    edited = _comment("@ccweb-bot now", action="edited", changes={"body": {"from": "@ccweb-bot"}})
    assert _decide(edited, ALL)["code"] == "mention_not_added"


def test_an_assignment_of_somebody_else_is_ignored() -> None:
    assigned = _issue_opened(action="assigned", assignees=[{"id": 5, "login": "bob"}])
    assert _decide(assigned, ALL)["code"] == "other_assignee"


def test_a_delivery_without_its_id_is_known_by_its_payload() -> None:
    found = _decide(_comment("@ccweb-bot please"), delivery_id=None)
    assert found["deliveryKey"] == "default:payload:2:comment:11:created:2026-11-30T20:51:37Z"


def test_a_review_without_a_delivery_id_cannot_be_identified() -> None:
    review = {**_issue_opened(action="reviewed"), "review": {"content": "x"}}
    review["pull_request"] = review.pop("issue")
    assert _decide(review, delivery_id=None)["code"] == "invalid_payload"


def test_a_header_that_contradicts_the_body_is_refused() -> None:
    found = _decide(_issue_opened(), headers={"x-gitea-event-type": "issue_comment"})
    assert (found["code"], found["httpStatus"]) == ("invalid_payload", 400)


def test_an_older_sender_without_the_type_header_is_understood() -> None:
    assert _decide(_comment("@ccweb-bot please"), headers={"x-gitea-event-type": ""})["code"] == "accepted"


def test_each_code_says_what_it_means() -> None:
    assert set(MEANING) == set(DecisionCode)


def _decide(
    body: dict[str, Any],
    policy: Policy = POLICY,
    *,
    delivery_id: str | None = "d-1",
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    kind = "issue_comment" if "comment" in body else "issues"
    kind = "pull_request_review_comment" if "review" in body else kind
    all_headers = {"x-gitea-event-type": kind, **(headers or {})}
    if delivery_id:
        all_headers["x-gitea-delivery"] = delivery_id
    raw = json.dumps(body).encode()
    return describe(judge(RawDelivery("POST", signed_headers(raw, SECRETS[0], all_headers), raw), SECRETS, policy))


def _comment(
    text: str, *, author: str = "alice", user_id: int = 1, sender: str | None = None, **more: Any
) -> dict[str, Any]:
    return {
        **_issue_opened(),
        "action": "created",
        "comment": {
            "id": 11,
            "user": {"id": user_id, "login": author},
            "body": text,
            "updated_at": "2026-11-30T20:51:37Z",
        },
        "sender": {"id": user_id, "login": sender or author},
        **more,
    }


def _issue_opened(
    *, title: str = "t", body: str | None = None, action: str = "opened", assignees: Any = None
) -> dict[str, Any]:
    user = {"id": 1, "login": "alice"}
    return {
        "action": action,
        "issue": {"number": 1, "title": title, "body": body, "user": user, "assignees": assignees},
        "repository": {
            "id": 2,
            "name": "demo",
            "owner": user,
            "permissions": {"admin": True, "push": True, "pull": True},
        },
        "sender": user,
    }
