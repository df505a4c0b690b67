"""Errors as RFC 9457 problem details with our stable `code`."""

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from domain.errors import TEXTS, ErrorCode

_STATUS: dict[ErrorCode, HTTPStatus] = {
    ErrorCode.INVALID_PAYLOAD: HTTPStatus.BAD_REQUEST,
    ErrorCode.INVALID_SIGNATURE: HTTPStatus.UNAUTHORIZED,
    ErrorCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.METHOD_NOT_ALLOWED: HTTPStatus.METHOD_NOT_ALLOWED,
    ErrorCode.REPOSITORY_DISABLED: HTTPStatus.CONFLICT,
    ErrorCode.PAYLOAD_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ErrorCode.INTERNAL_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
    ErrorCode.SETTINGS_INVALID: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.TEMPORAL_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}


def problem(code: ErrorCode, detail: str = "", headers: dict[str, str] | None = None) -> JSONResponse:
    """The answer for an error; `detail` is for the sender and holds nothing secret."""
    body = {"type": f"urn:ccweb:problem:{code}", "title": TEXTS[code].en, "status": int(_STATUS[code]), "code": code}
    if detail:
        body["detail"] = detail
    return JSONResponse(body, _STATUS[code], headers, media_type="application/problem+json")


async def on_http_exception(_: Request, error: Exception) -> Response:
    """What the router refuses: another method, another path."""
    if not isinstance(error, HTTPException):
        return problem(ErrorCode.INTERNAL_ERROR)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return problem(ErrorCode.METHOD_NOT_ALLOWED, headers=dict(error.headers or {}))
    return problem(ErrorCode.NOT_FOUND if error.status_code == HTTPStatus.NOT_FOUND else ErrorCode.INVALID_PAYLOAD)


async def on_fault(_: Request, __: Exception) -> Response:
    """A fault of ours; the server logs it."""
    return problem(ErrorCode.INTERNAL_ERROR)
