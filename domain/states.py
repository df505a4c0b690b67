"""The states of a task and their legal moves (design section 6). Standard library only."""

from enum import StrEnum


class TaskState(StrEnum):
    RECEIVED = "received"
    QUEUED = "queued"
    PREPARING = "preparing"
    RUNNING = "running"
    WAITING_USER = "waiting_user"
    VERIFYING_REPLY = "verifying_reply"
    RETRY_WAIT = "retry_wait"
    BLOCKED_WORKSPACE = "blocked_workspace"
    ABORTING = "aborting"
    SUCCEEDED = "succeeded"
    SUCCEEDED_WITH_REST_FALLBACK = "succeeded_with_rest_fallback"
    FAILED = "failed"
    FAILED_REPLY = "failed_reply"
    CANCELLED = "cancelled"
    ABORTED = "aborted"
    IGNORED = "ignored"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"


S = TaskState
MOVES: dict[TaskState, frozenset[TaskState]] = {
    S.RECEIVED: frozenset({S.QUEUED, S.IGNORED, S.DUPLICATE, S.REJECTED, S.CANCELLED, S.FAILED}),
    S.QUEUED: frozenset({S.PREPARING, S.CANCELLED, S.FAILED}),
    S.PREPARING: frozenset({S.RUNNING, S.BLOCKED_WORKSPACE, S.RETRY_WAIT, S.ABORTING, S.FAILED}),
    S.RUNNING: frozenset({S.WAITING_USER, S.VERIFYING_REPLY, S.RETRY_WAIT, S.ABORTING, S.FAILED}),
    S.WAITING_USER: frozenset({S.QUEUED, S.CANCELLED, S.FAILED}),
    S.VERIFYING_REPLY: frozenset(
        {
            S.SUCCEEDED,
            S.SUCCEEDED_WITH_REST_FALLBACK,
            S.WAITING_USER,
            S.RETRY_WAIT,
            S.ABORTING,
            S.FAILED_REPLY,
        }
    ),
    S.RETRY_WAIT: frozenset({S.PREPARING, S.RUNNING, S.VERIFYING_REPLY, S.CANCELLED, S.FAILED}),
    S.BLOCKED_WORKSPACE: frozenset({S.QUEUED, S.CANCELLED}),
    S.ABORTING: frozenset({S.ABORTED, S.SUCCEEDED, S.FAILED}),
}
FINAL: frozenset[TaskState] = frozenset(TaskState) - frozenset(MOVES)
NEEDS_LEASE: frozenset[TaskState] = frozenset({S.PREPARING, S.RUNNING, S.VERIFYING_REPLY, S.ABORTING})
ABORTABLE: frozenset[TaskState] = frozenset({S.PREPARING, S.RUNNING, S.VERIFYING_REPLY})
CANCELLABLE: frozenset[TaskState] = frozenset(
    {S.RECEIVED, S.QUEUED, S.WAITING_USER, S.BLOCKED_WORKSPACE, S.RETRY_WAIT}
)


class IllegalMoveError(Exception):
    """The state table does not allow this move: a fault in ccweb, never in the request."""


def check_move(current: TaskState, to: TaskState) -> None:
    """Raises IllegalMoveError unless the table has the move."""
    if to not in MOVES.get(current, frozenset()):
        raise IllegalMoveError(f"{current} -> {to}")
