"""Which of our codes a failed turn or a refused thread means (Codex's error table). Pure."""

import re
from typing import Any

from domain.errors import ErrorCode

_MCP_CODE = re.compile(r"mcp_(?:command_missing|start_failed|handshake_failed)")
_BY_INFO = {
    "usageLimitExceeded": ErrorCode.MODEL_QUOTA_EXCEEDED,
    "rateLimitExceeded": ErrorCode.MODEL_RATE_LIMITED,
    "responseTooManyFailedAttempts": ErrorCode.MODEL_RATE_LIMITED,
    "internalServerError": ErrorCode.MODEL_UNAVAILABLE,
    "serverOverloaded": ErrorCode.MODEL_UNAVAILABLE,
    "policyCapacityUnavailable": ErrorCode.MODEL_UNAVAILABLE,
    "contextWindowExceeded": ErrorCode.MODEL_CONTEXT_EXCEEDED,
    "modelNotFound": ErrorCode.MODEL_REQUEST_REFUSED,
    "unauthorized": ErrorCode.MODEL_AUTH_FAILED,
    "sandboxError": ErrorCode.SANDBOX_UNAVAILABLE,
}
_TRANSIENT = ("stream disconnected", "error sending request", "timed out", "connection", "reconnecting")


def turn_error(message: str, info: Any) -> ErrorCode:
    """The code of a turn that Codex ended as `failed`; `info` is its codexErrorInfo (a word or a mapping)."""
    word, details = next(iter(info.items())) if isinstance(info, dict) and info else (info, {})
    status = details.get("httpStatusCode") if isinstance(details, dict) else None
    if status in {401, 403}:
        return ErrorCode.MODEL_AUTH_FAILED
    if word in _BY_INFO:
        return _BY_INFO[word]
    if word == "httpConnectionFailed":
        return ErrorCode.MODEL_UNAVAILABLE if status is None or status >= 500 else ErrorCode.MODEL_REQUEST_REFUSED
    if any(sign in message.lower() for sign in _TRANSIENT):
        return ErrorCode.MODEL_UNAVAILABLE
    return ErrorCode.MODEL_REQUEST_REFUSED


def mcp_error(message: str) -> ErrorCode:
    """The code of a thread whose required MCP server failed: the bridge names it, Codex's own limit does not."""
    found = _MCP_CODE.search(message)
    if found:
        return ErrorCode(found[0])
    return ErrorCode.MCP_HANDSHAKE_FAILED if "timed out" in message else ErrorCode.MCP_START_FAILED


def thread_is_gone(message: str) -> bool:
    """Whether a refused `thread/resume` means that the thread never held a turn or its file is lost."""
    return "no rollout found" in message or ("rollout" in message and "empty" in message)
