"""Signatures of deliveries, as Gitea really sends them."""

import json
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from ingress.explain import load
from ingress.gitea import form_payload, is_signed, media_type_of
from tests.signing import signed_headers

WEBHOOKS = Path(__file__).parent.parent / "data" / "webhooks"
SECRET = "lab-webhook-secret"
BODY = b'{"action": "created"}'


@pytest.mark.parametrize("name", ["comment_mention", "comment_crlf", "comment_unicode", "comment_long_60k"])
def test_a_real_delivery_verifies_over_its_raw_bytes(name: str) -> None:
    raw = load(WEBHOOKS / f"{name}.json")
    assert is_signed(raw.headers, raw.body, (SECRET,))
    assert not is_signed(raw.headers, json.dumps(json.loads(raw.body)).encode(), (SECRET,))


def test_a_form_delivery_is_signed_over_its_json_text() -> None:
    raw = load(WEBHOOKS / "option_content_type_form.json")
    assert not is_signed(raw.headers, raw.body, (SECRET,))
    assert is_signed(raw.headers, form_payload(raw.body), (SECRET,))


def test_an_empty_signature_is_refused_even_with_an_empty_secret() -> None:
    raw = load(WEBHOOKS / "option_no_secret.json")
    assert not is_signed(raw.headers, raw.body, (SECRET,))
    assert not is_signed(raw.headers, raw.body, ("",))
    assert not is_signed(raw.headers, raw.body, ())


def test_either_secret_signs_while_rotating() -> None:
    headers = signed_headers(BODY, "old")
    assert is_signed(headers, BODY, ("new", "old"))
    assert not is_signed(headers, BODY, ("new",))


def test_the_prefixed_header_alone_is_enough() -> None:
    headers = signed_headers(BODY, SECRET)
    del headers["x-gitea-signature"]
    assert is_signed(headers, BODY, (SECRET,))
    assert not is_signed({"x-hub-signature-256": headers["x-hub-signature-256"][7:]}, BODY, (SECRET,))


def test_an_empty_bare_header_is_not_rescued_by_the_other() -> None:
    assert not is_signed(signed_headers(BODY, SECRET, {"x-gitea-signature": ""}), BODY, (SECRET,))


@pytest.mark.parametrize("value", ["", "0" * 64, "é" * 64, "sha256=", "x", "\udcff"])
def test_a_wrong_signature_is_refused(value: str) -> None:
    assert not is_signed({"x-gitea-signature": value}, BODY, (SECRET,))
    assert not is_signed({"x-hub-signature-256": value}, BODY, (SECRET,))


def test_a_form_may_hold_other_fields_and_blanks() -> None:
    assert form_payload(b"a=1&payload=" + quote_plus('{"a": "b c+d"}').encode()) == b'{"a": "b c+d"}'
    assert form_payload(b"nothing") == b""


@pytest.mark.parametrize(
    ("header", "known"),
    [
        ("application/json; charset=utf-8", True),
        ("Application/JSON", True),
        ("application/x-www-form-urlencoded", True),
        ("text/plain", False),
        ("", False),
    ],
)
def test_only_the_content_types_of_gitea_are_taken(header: str, known: bool) -> None:
    assert (media_type_of({"content-type": header}) is not None) is known
