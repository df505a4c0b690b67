"""From a raw request to a decision, without Temporal: signature, parsing, filter (design sections 4 and 8).

Pure: `ccweb explain` and the webhook route run exactly this.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from domain.deliveries import DeliveryError, read
from domain.triggers import Decision, DecisionCode, Policy, decide

_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class RawDelivery:
    """A request as it came; header names are lower-case."""

    method: str
    headers: Mapping[str, str]
    body: bytes


def judge(raw: RawDelivery, secrets: Sequence[str], policy: Policy) -> Decision:
    """The decision about a request, whatever it holds. Never raises."""
    if raw.method != "POST":
        return Decision(DecisionCode.METHOD_NOT_ALLOWED)
    media_type = media_type_of(raw.headers)
    if media_type is None:
        return Decision(DecisionCode.UNSUPPORTED_MEDIA_TYPE)
    text = form_payload(raw.body) if media_type == _FORM else raw.body
    if not is_signed(raw.headers, text, secrets):
        return Decision(DecisionCode.INVALID_SIGNATURE, detail="" if secrets else "CCWEB_WEBHOOK_SECRETS is empty")
    return _read_and_decide(raw.headers, text, policy)


def _read_and_decide(headers: Mapping[str, str], text: bytes, policy: Policy) -> Decision:
    try:
        return decide(read(headers, text), policy)
    except DeliveryError as error:
        return Decision(DecisionCode.INVALID_PAYLOAD, detail=error.detail)


def media_type_of(headers: Mapping[str, str]) -> str | None:
    """JSON or form, the two that Gitea sends; None for anything else."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type if media_type in {_JSON, _FORM} else None


def form_payload(body: bytes) -> bytes:
    """The JSON text of a form delivery, which is what Gitea signed; empty when there is none."""
    for field in body.split(b"&"):
        name, _, value = field.partition(b"=")
        if name == b"payload":
            return unquote_to_bytes(value.replace(b"+", b" "))
    return b""


def is_signed(headers: Mapping[str, str], text: bytes, secrets: Sequence[str]) -> bool:
    """Whether one of `secrets` signed `text`. Takes the same time whichever it was, or none."""
    given = _given_signature(headers)
    matches = [
        hmac.compare_digest(hmac.new(secret.encode(), text, hashlib.sha256).hexdigest().encode(), given)
        for secret in secrets
        if secret
    ]
    return any(matches)


def _given_signature(headers: Mapping[str, str]) -> bytes:
    """Gitea's bare digest, else the prefixed one of the same name as GitHub's; empty when there is none."""
    signature = headers.get("x-gitea-signature")
    if signature is None:
        scheme, _, signature = headers.get("x-hub-signature-256", "").partition("=")
        signature = signature if scheme == "sha256" else ""
    return signature.encode("utf-8", "replace")


def payload_hash(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()
