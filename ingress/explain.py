"""What ingress would do with a captured delivery, and why (`ccweb explain`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from domain.errors import CcwebError, ErrorCode
from domain.triggers import Decision, DecisionKind, Policy
from ingress.gitea import RawDelivery, judge


class _Captured(BaseModel):
    """The file format: one request, its body as the exact text that was sent."""

    model_config = ConfigDict(strict=True)

    method: str
    headers: dict[str, str]
    body: str


def load(path: Path) -> RawDelivery:
    """Reads a captured delivery.

    Raises:
        CcwebError: `invalid_payload`, the file is not there or not a captured delivery; says which part.
    """
    try:
        captured = _Captured.model_validate_json(path.read_bytes())
    except OSError as error:
        raise CcwebError(ErrorCode.INVALID_PAYLOAD, f"{path}: {error.strerror}") from None
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        text = f"{place}: {fault['msg']}" if place else fault["msg"]
        raise CcwebError(ErrorCode.INVALID_PAYLOAD, f"{path} is no captured delivery: {text}") from None
    headers = {name.lower(): value for name, value in captured.headers.items()}
    return RawDelivery(captured.method, headers, captured.body.encode())


def explain(path: Path, policy: Policy, secrets: Sequence[str]) -> dict[str, Any]:
    """The decision about the delivery in `path`, in the words of the API.

    Raises:
        CcwebError: see `load`.
    """
    return describe(judge(load(path), secrets, policy))


def describe(decision: Decision) -> dict[str, Any]:
    """A decision with the field names of the source document; None where it has no such thing."""
    subject = decision.subject
    return {
        "decision": decision.decision.value,
        "code": decision.code.value,
        "reason": decision.reason,
        "httpStatus": decision.http_status,
        "deliveryKey": decision.delivery_key,
        "sourceKey": decision.source_key,
        "resourceKey": decision.resource_key,
        "taskId": decision.task_id,
        "kind": subject.kind if subject else None,
        "author": subject.author.login if subject else None,
        "instruction": decision.instruction if decision.decision is DecisionKind.TRIGGER else None,
    }
