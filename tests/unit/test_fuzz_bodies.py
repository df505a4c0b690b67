"""Hostile bodies and headers: a documented decision, in little memory, whatever is sent."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.triggers import Decision, DecisionCode, Policy
from ingress.gitea import RawDelivery, judge
from tests.e2e.ingress_harness import captured
from tests.signing import signed_headers

SECRET = "s"
ALL = Policy(bot_name="ccweb-bot")
COMMENT = {"x-gitea-event-type": "issue_comment", "x-gitea-delivery": "d"}


def _judge(text: bytes, more: dict[str, str]) -> Decision:
    return judge(RawDelivery("POST", signed_headers(text, SECRET, more), text), (SECRET,), ALL)


def _comment(**issue: Any) -> bytes:
    body = json.loads(captured("comment_mention")[0])
    body["issue"] |= issue
    return json.dumps(body).encode()


@pytest.mark.parametrize("member", [b"0", b"[]", b"{}", b'{"id": 1, "login": "a/b"}'])
def test_a_million_wrong_members_are_one_fault(member: bytes) -> None:
    many = b"[" + b",".join([member] * (1_000_000 // len(member))) + b"]"
    text = _comment(assignees="@").replace(b'"@"', many)
    tracemalloc.start()
    try:
        decision = _judge(text, COMMENT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert decision.code is DecisionCode.INVALID_PAYLOAD
    assert decision.detail.startswith("issue.assignees.0") and len(decision.detail) < 300
    assert peak < 4 * len(text)


@pytest.mark.parametrize("place", [b'"new"', b'"pull_request"'])
def test_what_is_ignored_never_becomes_objects(place: bytes) -> None:
    text = b"{" + place + b':{"a":[' + b",".join([b"[]"] * 100_000) + b"]}," + _comment()[1:]
    tracemalloc.start()
    try:
        assert _judge(text, COMMENT).code is DecisionCode.ACCEPTED
        assert tracemalloc.get_traced_memory()[1] < 4 * len(text)
    finally:
        tracemalloc.stop()


def test_a_branch_name_longer_than_gitea_stores_is_refused() -> None:
    body = json.loads(captured("comment_mention")[0])
    body["repository"]["default_branch"] = "b" * 256
    decision = _judge(json.dumps(body).encode(), COMMENT)
    assert decision.code is DecisionCode.INVALID_PAYLOAD and "default_branch" in decision.detail


NAMES = st.sampled_from(
    ["content-type", "x-gitea-event-type", "x-gitea-delivery", "x-gitea-signature", "x-hub-signature-256"]
)
VALUES = st.text(st.characters(max_codepoint=255), max_size=60) | st.sampled_from(
    ["application/json", "application/x-www-form-urlencoded; charset=x", "sha256=", "=", "issue_comment", "0" * 64]
)


@given(st.dictionaries(NAMES, VALUES), st.binary(max_size=60) | st.just(_comment()))
def test_any_headers_get_a_documented_decision(headers: dict[str, str], body: bytes) -> None:
    decision = judge(RawDelivery("POST", headers, body), (SECRET,), ALL)
    assert decision.code in {DecisionCode.INVALID_SIGNATURE, DecisionCode.UNSUPPORTED_MEDIA_TYPE}


@given(st.dictionaries(NAMES.filter(lambda name: "signature" not in name), VALUES))
def test_any_headers_of_a_signed_comment_get_a_documented_decision(more: dict[str, str]) -> None:
    code = _judge(_comment(), {**COMMENT, **more}).code
    assert code in {
        DecisionCode.ACCEPTED,
        DecisionCode.EVENT_NOT_USED,
        DecisionCode.INVALID_PAYLOAD,
        DecisionCode.INVALID_SIGNATURE,
        DecisionCode.UNSUPPORTED_MEDIA_TYPE,
    }


@given(st.binary(max_size=100))
def test_any_form_is_read_or_refused(body: bytes) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded", **COMMENT}
    assert judge(RawDelivery("POST", headers, body), (SECRET,), ALL).code is DecisionCode.INVALID_SIGNATURE
