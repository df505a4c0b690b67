"""Which state comes next, as a table of cases."""

import pytest

from domain.errors import ErrorCode
from domain.outcomes import (
    Failure,
    Found,
    Mend,
    Next,
    after_abort,
    after_admission,
    after_lost_turn,
    after_preparing,
    after_read_back,
    may_retry,
)
from domain.states import TaskState, check_move

S = TaskState
C = ErrorCode
RETRYABLE = Failure(C.APP_SERVER_TIMEOUT)
PERMANENT = Failure(C.MCP_START_FAILED)
AWAY = Failure(C.WORKSPACE_UNAVAILABLE, host_away=True)


def test_a_retryable_error_is_retried_once() -> None:
    assert may_retry(RETRYABLE, {})
    assert not may_retry(RETRYABLE, {RETRYABLE.code: 1})


def test_a_permanent_error_is_never_retried() -> None:
    assert not may_retry(PERMANENT, {})


def test_different_errors_do_not_add_up_to_endless_retries() -> None:
    assert may_retry(RETRYABLE, {C.INTERRUPTED_BY_RESTART: 1, C.DISK_FULL: 1})
    assert not may_retry(RETRYABLE, {C.INTERRUPTED_BY_RESTART: 1, C.DISK_FULL: 1, C.TOOL_TIMEOUT: 1})


def test_a_host_that_is_away_is_waited_for() -> None:
    assert may_retry(AWAY, {AWAY.code: 7})


def test_a_gitea_that_is_away_is_waited_for_and_counts_for_no_other_error() -> None:
    gone = Failure(C.GITEA_UNAVAILABLE)
    assert may_retry(gone, {C.GITEA_UNAVAILABLE: 50})
    assert not may_retry(gone, {C.GITEA_UNAVAILABLE: 80})
    assert may_retry(RETRYABLE, {C.GITEA_UNAVAILABLE: 50})


@pytest.mark.parametrize("state", ["queued", "rejected", "duplicate", "failed"])
def test_admission_names_the_next_state(state: str) -> None:
    move = after_admission(state, None, "")
    check_move(S.RECEIVED, move.state)
    assert move.state == state


@pytest.mark.parametrize(
    ("failure", "used", "expected"),
    [
        (Failure(C.WORKSPACE_DIRTY), {}, S.BLOCKED_WORKSPACE),
        (Failure(C.WORKSPACE_AUTH_FAILED), {}, S.RETRY_WAIT),
        (Failure(C.WORKSPACE_AUTH_FAILED), {C.WORKSPACE_AUTH_FAILED: 1}, S.FAILED),
        (Failure(C.REPOSITORY_UNAVAILABLE), {}, S.FAILED),
        (AWAY, {}, S.RETRY_WAIT),
    ],
)
def test_after_preparing(failure: Failure, used: dict[ErrorCode, int], expected: TaskState) -> None:
    move = after_preparing(failure, used)
    check_move(S.PREPARING, move.state)
    assert (move.state, move.code) == (expected, failure.code)


USED = {RETRYABLE.code: 1}


@pytest.mark.parametrize(
    ("failure", "found", "used", "expected"),
    [
        (RETRYABLE, "final", {}, S.VERIFYING_REPLY),
        (PERMANENT, "final", {}, S.VERIFYING_REPLY),
        (RETRYABLE, "question", {}, S.VERIFYING_REPLY),
        (RETRYABLE, "missing", {}, S.RETRY_WAIT),
        (RETRYABLE, "missing", USED, S.FAILED),
        (RETRYABLE, "unknown", {}, S.RETRY_WAIT),
        (RETRYABLE, "unknown", USED, S.VERIFYING_REPLY),
        (PERMANENT, "missing", {}, S.FAILED),
        (PERMANENT, "unknown", {}, S.FAILED),
    ],
)
def test_after_a_lost_turn(failure: Failure, found: Found, used: dict[ErrorCode, int], expected: TaskState) -> None:
    move = after_lost_turn(failure, found, used)
    check_move(S.RUNNING, move.state)
    assert (move.state, move.code) == (expected, failure.code)


@pytest.mark.parametrize(
    ("found", "tried", "expected"),
    [
        ("final", [], S.SUCCEEDED),
        ("question", [], S.WAITING_USER),
        ("rest_fallback", ["reply_retry", "fallback"], S.SUCCEEDED_WITH_REST_FALLBACK),
        ("unknown", [], S.FAILED_REPLY),
        ("unknown", ["reply_retry", "fallback"], S.FAILED_REPLY),
        ("missing", [], "reply_retry"),
        ("missing", ["reply_retry"], "fallback"),
        ("missing", ["reply_retry", "fallback"], S.FAILED_REPLY),
    ],
)
def test_after_the_read_back(found: Found, tried: list[Mend], expected: TaskState | str) -> None:
    step = after_read_back(found, tried)
    if isinstance(step, Next):
        check_move(S.VERIFYING_REPLY, step.state)
        assert step.state is expected
    else:
        assert step == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [("final", S.SUCCEEDED), ("rest_fallback", S.SUCCEEDED), ("missing", S.ABORTED), ("unknown", S.ABORTED)],
)
def test_after_an_abort(found: Found, expected: TaskState) -> None:
    move = after_abort(found, "wrong branch", "olga")
    check_move(S.ABORTING, move.state)
    assert (move.state, move.actor) == (expected, "olga")
