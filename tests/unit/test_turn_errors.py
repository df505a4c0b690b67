"""Codex's error table as ours."""

from typing import Any

import pytest

from domain.errors import ErrorCode
from domain.turn_errors import mcp_error, thread_is_gone, turn_error

C = ErrorCode


@pytest.mark.parametrize(
    ("message", "info", "code"),
    [
        ("unexpected status 401", {"httpConnectionFailed": {"httpStatusCode": 401}}, C.MODEL_AUTH_FAILED),
        ("unexpected status 403", {"httpConnectionFailed": {"httpStatusCode": 403}}, C.MODEL_AUTH_FAILED),
        ("unexpected status 404", {"httpConnectionFailed": {"httpStatusCode": 404}}, C.MODEL_REQUEST_REFUSED),
        ("no connection", {"httpConnectionFailed": {"httpStatusCode": None}}, C.MODEL_UNAVAILABLE),
        ("bad request", "other", C.MODEL_REQUEST_REFUSED),
        ("rate", {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, C.MODEL_RATE_LIMITED),
        ("quota", "usageLimitExceeded", C.MODEL_QUOTA_EXCEEDED),
        ("rate", "rateLimitExceeded", C.MODEL_RATE_LIMITED),
        ("boom", "internalServerError", C.MODEL_UNAVAILABLE),
        ("busy", "serverOverloaded", C.MODEL_UNAVAILABLE),
        ("stream disconnected before completion: eof", "other", C.MODEL_UNAVAILABLE),
        ("too long", "contextWindowExceeded", C.MODEL_CONTEXT_EXCEEDED),
        ("something new", "neverHeardOfIt", C.MODEL_REQUEST_REFUSED),
        ("nothing", None, C.MODEL_REQUEST_REFUSED),
    ],
)
def test_a_failed_turn_has_one_code(message: str, info: Any, code: ErrorCode) -> None:
    assert turn_error(message, info) == code


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (
            "required MCP servers failed to initialize: gitea: JSON-RPC error: -32001: mcp_command_missing: x",
            C.MCP_COMMAND_MISSING,
        ),
        ("required MCP servers failed to initialize: gitea: request timed out", C.MCP_HANDSHAKE_FAILED),
        ("required MCP servers failed to initialize: gitea: connection closed", C.MCP_START_FAILED),
    ],
)
def test_a_thread_without_its_mcp_server_says_why(message: str, code: ErrorCode) -> None:
    assert mcp_error(message) == code


def test_a_thread_that_never_held_a_turn_is_gone() -> None:
    assert thread_is_gone("no rollout found for thread id 1")
    assert thread_is_gone("rollout at /x is empty")
    assert not thread_is_gone("thread already has an active writer")
