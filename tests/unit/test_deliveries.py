"""Whatever arrives, the answer is a documented decision."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.triggers import DecisionCode, Policy
from ingress.gitea import RawDelivery, judge
from tests.signing import signed_headers

WEBHOOKS = Path(__file__).parent.parent / "data" / "webhooks"
SECRET = "s"
ALL = Policy(bot_name="ccweb-bot")
READ = set(DecisionCode) - {
    DecisionCode.INVALID_SIGNATURE,
    DecisionCode.METHOD_NOT_ALLOWED,
    DecisionCode.PAYLOAD_TOO_LARGE,
    DecisionCode.UNSUPPORTED_MEDIA_TYPE,
}
TYPES = ("issue_comment", "pull_request_comment", "pull_request_review_comment", "issues", "pull_request", "push", "")
SAMPLES = ("comment_mention", "comment_edited_adds_mention", "pr_review_comment", "issue_assigned_bot", "pr_opened")


def _judge(text: bytes, event_type: str = "", delivery: str | None = "d") -> DecisionCode:
    more = {"x-gitea-event-type": event_type, **({"x-gitea-delivery": delivery} if delivery is not None else {})}
    return judge(RawDelivery("POST", signed_headers(text, SECRET, more), text), (SECRET,), ALL).code


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b"\xff\xfe",
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"a": ' + b"9" * 10_000 + b"}",
        b'{"a": NaN}',
        b'{"issue": 1, "comment": 2}',
        b'{"issue": {"number": 1e400}, "comment": {}}',
    ],
    ids=range(14),
)
def test_an_unreadable_comment_is_an_invalid_payload(text: bytes) -> None:
    assert _judge(text, "issue_comment") is DecisionCode.INVALID_PAYLOAD


def test_a_huge_number_in_a_field_we_need_is_refused() -> None:
    body = _sample("comment_mention")
    body["comment"]["id"] = 2**63
    assert _judge(json.dumps(body).encode(), "issue_comment") is DecisionCode.INVALID_PAYLOAD


@pytest.mark.parametrize("field", ["action", "issue", "comment", "repository", "sender"])
def test_a_missing_field_is_named(field: str) -> None:
    body = _sample("comment_mention")
    del body[field]
    text = json.dumps(body).encode()
    more = {"x-gitea-event-type": "issue_comment", "x-gitea-delivery": "d"}
    decision = judge(RawDelivery("POST", signed_headers(text, SECRET, more), text), (SECRET,), ALL)
    assert decision.code is DecisionCode.INVALID_PAYLOAD
    assert field in decision.reason or "issue_comment" in decision.reason


@pytest.mark.parametrize("name", ["../x", "a/b", "a:b", "", "x" * 101, "..", "a\n"])
def test_a_repository_name_that_gitea_cannot_have_is_refused(name: str) -> None:
    body = _sample("comment_mention")
    body["repository"]["name"] = name
    assert _judge(json.dumps(body).encode(), "issue_comment") is DecisionCode.INVALID_PAYLOAD


@pytest.mark.parametrize("delivery", [None, "", "a b", "x" * 201, "é"])
def test_an_event_without_a_usable_id_is_refused(delivery: str | None) -> None:
    assert _judge(b"{}", "push", delivery) is DecisionCode.INVALID_PAYLOAD


def test_unknown_fields_and_events_are_tolerated() -> None:
    body = {**_sample("comment_mention"), "new": {"field": [1]}}
    assert _judge(json.dumps(body).encode(), "issue_comment") is DecisionCode.ACCEPTED
    assert _judge(json.dumps(body).encode(), "new_event") is DecisionCode.EVENT_NOT_USED


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@given(JSON, st.sampled_from(TYPES))
def test_any_json_gets_a_documented_decision(value: Any, event_type: str) -> None:
    assert _judge(json.dumps(value).encode(), event_type) in READ


@given(st.binary(max_size=200), st.sampled_from(TYPES))
def test_any_bytes_get_a_documented_decision(text: bytes, event_type: str) -> None:
    assert _judge(text, event_type) in READ


@settings(max_examples=200)
@given(st.sampled_from(SAMPLES), st.data())
def test_any_damage_to_a_real_delivery_gets_a_documented_decision(name: str, data: st.DataObject) -> None:
    body = _sample(name)
    for _ in range(data.draw(st.integers(1, 3))):
        _damage(body, data)
    assert _judge(json.dumps(body).encode(), data.draw(st.sampled_from(TYPES))) in READ


def _damage(body: dict[str, Any], data: st.DataObject) -> None:
    """Replaces or removes one value at a depth of up to three."""
    at: Any = body
    for _ in range(data.draw(st.integers(0, 2))):
        inner = [key for key, value in sorted(at.items()) if isinstance(value, dict) and value]
        if inner:
            at = at[data.draw(st.sampled_from(inner))]
    key = data.draw(st.sampled_from(sorted(at)))
    if data.draw(st.booleans()):
        del at[key]
        at.setdefault("left", None)
    else:
        at[key] = data.draw(JSON)


def _sample(name: str) -> dict[str, Any]:
    captured = json.loads((WEBHOOKS / f"{name}.json").read_text(encoding="utf-8"))
    body: dict[str, Any] = json.loads(captured["body"])
    return body


def test_what_gitea_1_27_adds_to_deliveries_changes_no_decision() -> None:
    """Seen there: a comment of a pull request carries the pull request too, `changes` has more keys."""
    body = _sample("pr_comment_mention")
    before = _judge(json.dumps(body).encode(), "pull_request_comment")
    more = {**body, "pull_request": _sample("pr_opened")["pull_request"]}
    assert _judge(json.dumps(more).encode(), "pull_request_comment") is before
    edited = _sample("comment_edited_adds_mention")
    before = _judge(json.dumps(edited).encode(), "issue_comment")
    edited["changes"] |= {"added_labels": None, "removed_labels": None}
    assert _judge(json.dumps(edited).encode(), "issue_comment") is before
