"""Errors as RFC 9457 problem details with our stable `code`."""

from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from domain.errors import TEXTS, CcwebError, ErrorCode

_STATUS: dict[ErrorCode, HTTPStatus] = {
    ErrorCode.INVALID_PAYLOAD: HTTPStatus.BAD_REQUEST,
    ErrorCode.INVALID_REQUEST: HTTPStatus.BAD_REQUEST,
    ErrorCode.INVALID_SIGNATURE: HTTPStatus.UNAUTHORIZED,
    ErrorCode.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    ErrorCode.FORBIDDEN: HTTPStatus.FORBIDDEN,
    ErrorCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.METHOD_NOT_ALLOWED: HTTPStatus.METHOD_NOT_ALLOWED,
    ErrorCode.REPOSITORY_DISABLED: HTTPStatus.CONFLICT,
    ErrorCode.ILLEGAL_STATE: HTTPStatus.CONFLICT,
    ErrorCode.REQUEST_ID_REUSED: HTTPStatus.CONFLICT,
    ErrorCode.PAYLOAD_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ErrorCode.INTERNAL_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
    ErrorCode.SETTINGS_INVALID: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.INGRESS_BUSY: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.TEMPORAL_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}


def problem(code: ErrorCode, detail: str = "", headers: dict[str, str] | None = None) -> JSONResponse:
    """The answer for an error; `detail` is for the sender and holds nothing secret."""
    return JSONResponse(body_of(code, detail), _STATUS[code], headers, media_type="application/problem+json")


def body_of(code: ErrorCode, detail: str = "") -> dict[str, Any]:
    """The problem details themselves."""
    title, status = TEXTS[code].en, status_of(code)
    body = {"type": f"urn:ccweb:problem:{code}", "title": title, "status": status, "code": str(code)}
    return body | ({"detail": detail} if detail else {})


def status_of(code: ErrorCode) -> int:
    return int(_STATUS[code])


async def on_http_exception(_: Request, error: Exception) -> Response:
    """What the router refuses: another method, another path."""
    if not isinstance(error, HTTPException):
        return problem(ErrorCode.INTERNAL_ERROR)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return problem(ErrorCode.METHOD_NOT_ALLOWED, headers=dict(error.headers or {}))
    return problem(ErrorCode.NOT_FOUND if error.status_code == HTTPStatus.NOT_FOUND else ErrorCode.INVALID_PAYLOAD)


async def on_ccweb_error(_: Request, error: Exception) -> Response:
    """An expected failure of an operator's call; the code decides the status."""
    if not isinstance(error, CcwebError) or error.code not in _STATUS:
        return problem(ErrorCode.INTERNAL_ERROR)
    headers = {"WWW-Authenticate": "Bearer"} if error.code is ErrorCode.UNAUTHENTICATED else None
    return problem(error.code, error.detail, headers)


async def on_invalid_request(_: Request, error: Exception) -> Response:
    """A parameter or field that does not fit; the detail names the first one."""
    if not isinstance(error, RequestValidationError):
        return problem(ErrorCode.INTERNAL_ERROR)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return problem(ErrorCode.INVALID_REQUEST, f"{place}: {first['msg']}"[:300])


async def on_fault(_: Request, __: Exception) -> Response:
    """A fault of ours; the server logs it."""
    return problem(ErrorCode.INTERNAL_ERROR)
