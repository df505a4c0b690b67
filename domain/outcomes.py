"""Which state comes next: pure decisions of AgentTask (design sections 6 and 7). Standard library only."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from domain.errors import TEXTS, ErrorCode
from domain.states import ABORTABLE, MOVES, TaskState

S = TaskState
C = ErrorCode
Found = Literal["final", "question", "rest_fallback", "missing", "unknown"]
Mend = Literal["reply_retry", "fallback"]

_TIMES_PER_CODE = 1
_TIMES_PER_ROUND = 3
_TIMES_GITEA_AWAY = 80
"""About three days with the usual waits: Gitea is waited for as long as everywhere else."""
NO_FINAL_TEXT = "代理已结束，但没有留下最终回复。\nThe agent ended without leaving a final answer."


@dataclass(frozen=True, slots=True)
class Next:
    """The move to make and why."""

    state: TaskState
    reason: str
    code: ErrorCode | None = None
    actor: str = "system"


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in an activity. `host_away`: nobody took it from the host's queue, so it never ran."""

    code: ErrorCode
    detail: str = ""
    host_away: bool = False

    @property
    def text(self) -> str:
        return f"{self.code}: {self.detail}" if self.detail else str(self.code)


def may_retry(failure: Failure, used: Mapping[ErrorCode, int]) -> bool:
    """Once per code and a few times per round; a host or a Gitea that is away is waited for."""
    if failure.host_away:
        return True
    if failure.code is C.GITEA_UNAVAILABLE:
        return used.get(failure.code, 0) < _TIMES_GITEA_AWAY
    others = sum(times for code, times in used.items() if code is not C.GITEA_UNAVAILABLE)
    fresh = used.get(failure.code, 0) < _TIMES_PER_CODE and others < _TIMES_PER_ROUND
    return fresh and TEXTS[failure.code].retryable


def after_admission(state: str, code: ErrorCode | None, reason: str) -> Next:
    return Next(TaskState(state), reason or state, code)


def after_second_admission(state: str, code: ErrorCode | None, reason: str) -> Next | None:
    """What changed while a task waited in the queue; None when it may go on."""
    if state == "queued":
        return None
    return Next(S.FAILED if state == "failed" else S.CANCELLED, reason or state, code)


def after_preparing(failure: Failure, used: Mapping[ErrorCode, int]) -> Next:
    """A workspace that holds unknown work is an operator's decision, never reset."""
    if failure.code is C.WORKSPACE_DIRTY:
        return Next(S.BLOCKED_WORKSPACE, failure.text, failure.code)
    state = S.RETRY_WAIT if may_retry(failure, used) else S.FAILED
    return Next(state, failure.text, failure.code)


def after_lost_turn(failure: Failure, found: Found, used: Mapping[ErrorCode, int]) -> Next:
    """A turn that did not complete: what stands in Gitea counts first, then the class of the error."""
    if found in {"final", "question", "rest_fallback"}:
        return Next(S.VERIFYING_REPLY, f"{failure.text}; {found} is in Gitea", failure.code)
    if may_retry(failure, used):
        return Next(S.RETRY_WAIT, failure.text, failure.code)
    if found == "unknown" and TEXTS[failure.code].retryable:
        return Next(S.VERIFYING_REPLY, f"{failure.text}; Gitea could not be asked", failure.code)
    return Next(S.FAILED, failure.text, failure.code)


def after_read_back(found: Found, tried: Collection[Mend]) -> Next | Mend:
    """The next move, or what to mend first: one reply retry, then the REST fallback, then give up."""
    match found:
        case "final":
            return Next(S.SUCCEEDED, "the answer was read back from Gitea")
        case "question":
            return Next(S.WAITING_USER, "the question was read back from Gitea")
        case "rest_fallback":
            reason = "the agent did not answer through its tool; posted by REST"
            return Next(S.SUCCEEDED_WITH_REST_FALLBACK, reason, C.MCP_REPLY_MISSING)
        case "unknown":
            return Next(S.FAILED_REPLY, "Gitea could not be asked for the answer", C.REPLY_UNKNOWN)
        case "missing":
            return _mend(tried)


def _mend(tried: Collection[Mend]) -> Next | Mend:
    if "reply_retry" not in tried:
        return "reply_retry"
    if "fallback" not in tried:
        return "fallback"
    return Next(S.FAILED_REPLY, "the answer is not in Gitea, even by REST", C.MCP_REPLY_MISSING)


def after_budget_question(found: Found) -> Next:
    """A budget ran out: with the question in Gitea the task waits for more, else it ends and says so."""
    if found == "question":
        return Next(S.WAITING_USER, "the budget is used up", C.BUDGET_EXCEEDED)
    return Next(S.FAILED, "the budget is used up, and the question for more is not in Gitea", C.BUDGET_EXCEEDED)


def after_abort(found: Found, reason: str, actor: str) -> Next:
    """An answer that is already there counts; otherwise the abort does."""
    if found in {"final", "rest_fallback"}:
        return Next(S.SUCCEEDED, "the answer was there before the abort", actor=actor)
    return Next(S.ABORTED, reason, actor=actor)


def when_stopped(state: TaskState, reason: str, actor: str) -> Next:
    """Where a stop leads from `state` (which is not final)."""
    return Next(S.ABORTING if state in ABORTABLE else S.CANCELLED, reason, actor=actor)


def when_broken(state: TaskState, detail: str) -> Next:
    """Where a fault of ccweb itself leads: the first of these that the table allows."""
    allowed = MOVES.get(state, frozenset())
    to = next(end for end in (S.FAILED, S.FAILED_REPLY, S.CANCELLED) if end in allowed)
    return Next(to, detail, C.INTERNAL_ERROR)
