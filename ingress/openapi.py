"""The description of the operator API: every answer with an example, every error with its code."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from domain.errors import TEXTS, ErrorCode
from ingress.problems import body_of, status_of

_ABOUT = """\
Call it with `Authorization: Bearer TOKEN`; `ccweb operator add NAME --role viewer|operator|admin` makes one.

Reads need no worker. A control call is answered 200 once a worker took it; when none answers, it is stored in
Temporal, answered 202 and takes effect as soon as one runs. Repeated with the same `requestId` it gets its first
answer and does nothing again. No call takes a model name, a tool argument or a git command.

Errors are RFC 9457 problem details with a stable `code`.
"""
_PROBLEM = {
    "type": "object",
    "description": "RFC 9457 problem details",
    "required": ["type", "title", "status", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string", "description": "What exactly, in one line"},
    },
}


def problems(*codes: ErrorCode) -> dict[int | str, dict[str, Any]]:
    """The error answers of a route."""
    every = [ErrorCode.INVALID_REQUEST, ErrorCode.UNAUTHENTICATED, *codes, ErrorCode.TEMPORAL_UNAVAILABLE]
    statuses = sorted({status_of(code) for code in every})
    return {status: _answer([code for code in every if status_of(code) == status]) for status in statuses}


def example(value: dict[str, Any], status: int = 200, description: str = "Done") -> dict[int | str, dict[str, Any]]:
    """A good answer with an example."""
    return {status: {"description": description, "content": {"application/json": {"example": value}}}}


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document; FastAPI's own 422 is none of ours."""
    document = get_openapi(
        title="ccweb operator API",
        version="1",
        description=_ABOUT,
        routes=app.routes,
    )
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Problem"] = _PROBLEM
    return document


def _answer(codes: Sequence[ErrorCode]) -> dict[str, Any]:
    examples = {code.value: {"summary": TEXTS[code].action_en, "value": body_of(code)} for code in codes}
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": " ".join(TEXTS[code].en for code in codes),
        "content": {"application/problem+json": {"schema": schema, "examples": examples}},
    }
