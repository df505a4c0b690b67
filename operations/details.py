"""One task in full, from its history: what was asked, each move, turn and comment (design section 13). Pure."""

from collections.abc import Iterable
from typing import Any

from domain import audit
from domain.audit import AuditEvent
from domain.histories import History, StepKind
from domain.states import TaskState
from operations.records import CommentView, MoveView, TaskDetail, TaskSummary, TurnView

_ANSWERS = {"final": "mcp_final", "question": "question", "rest_fallback": "rest_fallback"}


def detail(summary: TaskSummary, history: History, problem: str | None) -> TaskDetail:
    """`problem` says why the workflow itself makes no progress, if so."""
    events = audit.project(history)
    asked = _asked(history)
    moves = [event for event in events if event.action == "task.move"]
    end = next((event for event in reversed(events) if event.action in {"task.end", "task.terminate"}), None)
    turns, comments = list(_turns(events)), list(_comments(summary.task_id, events))
    claims = [event.metadata for event in events if event.action == "task.claim"]
    code = next((event.error_code for event in reversed([*moves, *([end] if end else [])]) if event.error_code), None)
    return TaskDetail(
        **{**summary.model_dump(), "error_code": summary.error_code or (code if _failed(summary.state) else None)},
        title=asked.get("title", ""),
        instruction=asked.get("instruction", ""),
        kind=asked.get("kind", ""),
        number=asked.get("number", 0),
        alias_task_ids=sorted({str(event.metadata["aliasTaskId"]) for event in _with(events, "aliasTaskId")}),
        state_version=len(moves),
        attempt=sum(event.to_state == TaskState.RETRY_WAIT for event in moves),
        reply_attempt=sum(turn.kind == "reply_retry" for turn in turns),
        round=max((turn.round for turn in turns), default=1),
        thread_id=next((turn.thread_id for turn in reversed(turns) if turn.thread_id), None),
        turn_id=next((turn.turn_id for turn in reversed(turns) if turn.turn_id), None),
        comment_id=next((one.comment_id for one in reversed(comments) if one.status == "confirmed"), None),
        commit=next((str(event.metadata["commit"]) for event in reversed(_with(events, "commit"))), None),
        lease_id=claims[-1].get("leaseId") if claims else None,
        host=claims[-1].get("host") if claims else None,
        reason=str(end.metadata.get("reason", "")) if end else "",
        problem=problem,
        moves=[_move(number, event) for number, event in enumerate(moves, 1)],
        turns=turns,
        comments=comments,
    )


def _asked(history: History) -> dict[str, Any]:
    start = next((step.data for step in history.steps if step.kind is StepKind.STARTED), None)
    event = start.get("event") if isinstance(start, dict) else None
    return event if isinstance(event, dict) else {}


def _failed(state: TaskState) -> bool:
    return state not in {TaskState.SUCCEEDED, TaskState.CANCELLED, TaskState.ABORTED}


def _with(events: Iterable[AuditEvent], fact: str) -> list[AuditEvent]:
    return [event for event in events if event.metadata.get(fact)]


def _move(version: int, event: AuditEvent) -> MoveView:
    return MoveView(
        state_version=version,
        from_state=event.from_state,
        to_state=event.to_state,
        actor=event.actor,
        error_code=event.error_code,
        at=event.timestamp,
    )


def _turns(events: list[AuditEvent]) -> Iterable[TurnView]:
    """One per call of the host; how it ended stands in the event that names the call's intent."""
    ends = {event.metadata.get("intentId"): event for event in events if event.action == "turn.run"}
    for event in events:
        if event.action == "turn.run" and event.metadata.get("phase") == "intent":
            yield _turn(event, ends.get(event.event_id))


def _turn(begun: AuditEvent, ended: AuditEvent | None) -> TurnView:
    about = ended.metadata if ended else {}
    status = about.get("status") or ("cancelled" if ended and ended.error_code == "canceled" else "failed")
    return TurnView(
        turn_key=str(begun.metadata.get("turnKey", "")),
        turn_id=ended.turn_id if ended else None,
        thread_id=about.get("threadId") or begun.metadata.get("threadId"),
        kind=begun.metadata.get("purpose", "normal"),
        round=begun.metadata.get("round", 1),
        status=status if ended else "started",
        error_code=ended.error_code if ended else None,
        usage=about.get("usage"),
        spent=about.get("spent"),
        started_at=begun.timestamp,
        completed_at=ended.timestamp if ended else None,
    )


def _comments(task_id: str, events: list[AuditEvent]) -> Iterable[CommentView]:
    """Receipts and answers, each by its commentKey; the last word on it counts."""
    found: dict[str, CommentView] = {}
    for event in events:
        view = _receipt(event) or _answer(task_id, event)
        if view is not None:
            before = found.get(view.comment_key)
            comment_id = view.comment_id or (before.comment_id if before else None)
            found[view.comment_key] = view.model_copy(update={"comment_id": comment_id})
    return found.values()


def _receipt(event: AuditEvent) -> CommentView | None:
    key = event.metadata.get("commentKey")
    if event.action != "comment.post" or not key:
        return None
    status = {"intent": "pending", "result": "sent"}.get(str(event.metadata.get("phase")), "failed")
    return CommentView(comment_key=str(key), kind="status", comment_id=event.comment_id, status=status)


def _answer(task_id: str, event: AuditEvent) -> CommentView | None:
    kind = str(event.metadata.get("found"))
    if event.action not in {"reply.confirm", "reply.fallback"} or kind not in _ANSWERS:
        return None
    return CommentView(
        comment_key=f"{task_id}:{kind}:{event.metadata.get('round', 1)}",
        kind=_ANSWERS[kind],
        comment_id=event.comment_id,
        turn_id=event.turn_id,
        status="confirmed",
    )
