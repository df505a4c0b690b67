"""The audit trail, projected from what is durable anyway (design section 10). Pure.

Temporal's history is the audit: an activity's schedule is the intent, written before the side effect, its end is
the result; signals and updates say who asked for what. Here each step becomes one event with the source
document's fields. The bridge's journal and the ingress stream fill in what no history holds.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from domain import ids
from domain.errors import ErrorCode
from domain.histories import History, Step, StepKind
from domain.states import FINAL, TaskState

K = StepKind
SYSTEM = "system"
_MAX_DETAIL = 200


class AuditEvent(BaseModel):
    """One thing that happened. `event_id` is the same each time the same thing is read."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    event_id: str
    task_id: str | None = None
    action: str
    actor: str = SYSTEM
    from_state: str | None = None
    to_state: str | None = None
    delivery_id: str | None = None
    turn_id: str | None = None
    comment_id: int | None = None
    error_code: str | None = None
    timestamp: datetime
    metadata: dict[str, Any] = {}


_ACTIVITIES = {
    "admit": "task.admit",
    "post_receipt": "comment.post",
    "acknowledge": "comment.acknowledge",
    "notify": "people.notify",
    "prepare_workspace": "workspace.prepare",
    "settle_workspace": "workspace.settle",
    "run_turn": "turn.run",
    "steer_turn": "turn.steer",
    "verify_reply": "reply.confirm",
    "post_fallback": "reply.fallback",
    "close_session": "session.close",
    "terminate_stuck": "lease.terminate_stuck",
    "pick_host": "lease.pick_host",
}
"""Any other activity is `activity.<name>`: nothing is left out because it is new."""
_READS = frozenset({"read_control", "probe_task", "recover_session", "recover_repository", "request_lease"})
"""Local activities that only look, or whose effect is a signal that the other side records."""
_SIGNALS = {
    ("AgentTask", "lease_granted"): "task.claim",
    ("Session", "deliver"): "webhook.accept",
    ("Session", "poke"): "webhook.poke",
    ("Session", "resource_closed"): "webhook.close",
    ("Repository", "request"): "lease.request",
    ("Repository", "release"): "lease.release",
}
"""Any other signal or update is `<workflow>.<name>`."""
_OPERATORS = frozenset(
    {"cancel", "abort", "unblock", "retry", "pause", "resume", "disable", "enable", "grant_budget"}
)
"""Signals and updates that come from a person even when nothing in them says from whom."""
_PREFIX = {"AgentTask": "task", "Session": "session", "Repository": "repository", "Control": "control"}
_FACTS = (
    "delivery_key",
    "source_key",
    "session_key",
    "repo_key",
    "event_type",
    "payload_hash",
    "traceparent",
    "lease_id",
    "host",
    "thread_id",
    "turn_key",
    "purpose",
    "round",
    "found",
    "kind",
    "comment_key",
    "branch",
    "head",
    "tree",
    "wip_commit",
    "published",
    "status",
    "mode",
    "commit",
    "fenced",
    "resume",
    "closed",
    "waiting",
    "budgets",
    "repo",
    "targets",
    "created",
    "usage",
    "spent",
    "requestId",
    "reason",
)
"""What may be copied from a payload into metadata: ids, keys and hashes, never a person's text or a path."""


def project(history: History) -> list[AuditEvent]:
    """The events of one run, oldest first. Of a run that somebody reset, only what was not copied."""
    teller = _Teller(history)
    copied = max((step.number for step in history.steps if step.kind is K.RESET), default=0)
    told = [(step.number, list(teller.tell(step))) for step in history.steps]
    return [event for number, events in told if number >= copied for event in events]


class _Teller:
    """Turns steps into events, one after another; knows the state, and whose word caused the next move."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._is_task = history.workflow_type == "AgentTask"
        self._task_id = history.workflow_id if self._is_task else None
        self._state: str | None = None
        self._mover = SYSTEM
        self._error: str | None = None
        self._turn: str | None = None
        self._comment: int | None = None
        self._tell: dict[StepKind, Callable[[Step], Iterator[AuditEvent]]] = {
            K.STARTED: self._started,
            K.SIGNALED: self._said,
            K.UPDATED: self._said,
            K.SCHEDULED: self._intent,
            K.COMPLETED: self._result,
            K.FAILED: self._failure,
            K.LOCAL: self._local,
            K.STATE: self._move,
            K.CANCEL_REQUESTED: self._cancel_requested,
            K.CLOSED: self._closed,
            K.TERMINATED: self._terminated,
            K.RESET: self._reset,
        }

    def tell(self, step: Step) -> Iterator[AuditEvent]:
        teller = self._tell.get(step.kind)
        return teller(step) if teller else iter(())

    def _event(self, step: Step, action: str, part: int = 0, **fields: Any) -> AuditEvent:
        place = f"{self._history.workflow_id}/{self._history.run_id}/{step.number}"
        metadata = fields.pop("metadata", {})
        return AuditEvent(
            event_id=f"{place}.{part}" if part else place,
            task_id=fields.pop("task_id", self._task_id),
            action=action,
            timestamp=_moment(step.at),
            metadata={name: value for name, value in metadata.items() if value not in (None, "", [])},
            **fields,
        )

    def _started(self, step: Step) -> Iterator[AuditEvent]:
        action = f"{_PREFIX.get(step.name, step.name)}.start"
        event = _part(step.data, "event")
        if not self._is_task:
            yield self._event(step, action, metadata=_facts(step.data))
            return
        self._state = str(TaskState.RECEIVED)
        yield self._event(
            step,
            action,
            actor=_person(event),
            to_state=self._state,
            delivery_id=_text(event, "delivery_id"),
            metadata={**_facts(event), **_facts(step.data)},
        )

    def _said(self, step: Step) -> Iterator[AuditEvent]:
        kind = self._history.workflow_type
        action = _SIGNALS.get((kind, step.name), f"{_PREFIX.get(kind, kind)}.{step.name}")
        data = step.data if isinstance(step.data, dict) else {}
        actor = self._actor(step, data)
        if self._is_task and step.name in {"cancel", "abort", "unblock", "answer", "fold"}:
            self._mover = actor
        task = self._task_id or _text(data, "task_id")
        metadata = {**_facts(data), **_how(step), **self._alias(data)}
        delivery = _text(data, "delivery_id") or _delivery_of(step)
        yield self._event(step, action, actor=actor, task_id=task, delivery_id=delivery, metadata=metadata)

    def _actor(self, step: Step, data: dict[str, Any]) -> str:
        if "author" in data:
            return _person(data)
        unnamed = "operator" if step.name in _OPERATORS and not step.sender else SYSTEM
        return _named(_text(data, "actor") or unnamed)

    def _alias(self, data: dict[str, Any]) -> dict[str, Any]:
        """The taskId that ingress answered for a delivery which then went to this task."""
        own = _text(data, "task_id")
        return {"aliasTaskId": own} if self._is_task and own and own != self._task_id else {}

    def _intent(self, step: Step) -> Iterator[AuditEvent]:
        yield self._effect(step, "intent", _facts(step.data))

    def _result(self, step: Step) -> Iterator[AuditEvent]:
        data = step.data if isinstance(step.data, dict) else {}
        code = _text(data, "error_code")
        self._error = code or self._error
        self._turn = _text(data, "turn_id") or self._turn
        if step.name in {"verify_reply", "post_fallback"}:
            self._comment = data.get("comment_id") or self._comment
        found = {**_facts(step.asked), **_facts(data)}
        found |= {"newThread": True} if data.get("new_thread") else {}
        yield self._effect(step, "result", found, code, _text(data, "turn_id"), data.get("comment_id"))
        for part, call in enumerate(data.get("tools") or [], 1):
            yield self._tool(step, part, call, found)

    def _tool(self, step: Step, part: int, call: dict[str, Any], about: dict[str, Any]) -> AuditEvent:
        """One line of the digest that the bridge's journal gave to the turn."""
        told = {"tool": call.get("tool"), "accepted": call.get("accepted"), "commit": call.get("commit")}
        kept = {name: about[name] for name in ("round", "sourceKey", "threadId", "leaseId") if name in about}
        return self._event(
            step,
            "mcp.call",
            part,
            turn_id=self._turn,
            comment_id=call.get("comment_id"),
            error_code=call.get("error_code"),
            metadata={**kept, **told},
        )

    def _failure(self, step: Step) -> Iterator[AuditEvent]:
        self._error = step.error
        yield self._effect(step, "failed", {**_facts(step.asked), "detail": step.detail[:_MAX_DETAIL]}, step.error)

    def _effect(
        self,
        step: Step,
        phase: str,
        facts: dict[str, Any],
        code: str | None = None,
        turn: str | None = None,
        comment: int | None = None,
    ) -> AuditEvent:
        """An activity's intent, result or failure; a result names the event of its intent."""
        action = _ACTIVITIES.get(step.name, f"activity.{step.name}")
        asked = step.data if phase == "intent" else step.asked
        intent = f"{self._history.workflow_id}/{self._history.run_id}/{step.scheduled}" if step.scheduled else None
        return self._event(
            step,
            action,
            task_id=self._task_id or _text(asked, "task_id") or _task_of(asked),
            turn_id=turn,
            comment_id=comment,
            error_code=code,
            metadata={"phase": phase, "intentId": intent, **facts},
        )

    def _local(self, step: Step) -> Iterator[AuditEvent]:
        if step.name not in _READS:
            yield self._event(step, _ACTIVITIES.get(step.name, f"activity.{step.name}"), error_code=step.error)

    def _move(self, step: Step) -> Iterator[AuditEvent]:
        if not self._is_task:
            return
        failing = step.name in {"failed", "failed_reply", "retry_wait", "blocked_workspace"}
        yield self._event(
            step,
            "task.move",
            actor=self._mover,
            from_state=self._state,
            to_state=step.name,
            turn_id=self._turn,
            comment_id=self._comment,
            error_code=self._error if failing else None,
        )
        self._state = step.name
        self._mover = self._mover if step.name == TaskState.ABORTING else SYSTEM
        self._error = None

    def _cancel_requested(self, step: Step) -> Iterator[AuditEvent]:
        actor = SYSTEM if step.sender else _named("operator")
        self._mover = actor
        prefix = _PREFIX.get(self._history.workflow_type, self._history.workflow_type)
        yield self._event(
            step, f"{prefix}.cancel_workflow", actor=actor, metadata={"cause": step.detail[:_MAX_DETAIL]}
        )

    def _closed(self, step: Step) -> Iterator[AuditEvent]:
        prefix = _PREFIX.get(self._history.workflow_type, self._history.workflow_type)
        data = step.data if isinstance(step.data, dict) else {}
        yield self._event(
            step,
            f"{prefix}.end",
            to_state=_text(data, "state"),
            turn_id=_text(data, "turn_id"),
            comment_id=data.get("comment_id"),
            error_code=_text(data, "error_code") or step.error,
            metadata={**_facts(data), "how": step.name},
        )

    def _terminated(self, step: Step) -> Iterator[AuditEvent]:
        prefix = _PREFIX.get(self._history.workflow_type, self._history.workflow_type)
        killed_task = self._is_task and self._state not in FINAL
        yield self._event(
            step,
            f"{prefix}.{'terminate' if step.name == 'terminated' else 'time_out'}",
            actor=_named("operator"),
            from_state=self._state,
            to_state=str(TaskState.FAILED) if killed_task else None,
            error_code=str(ErrorCode.TERMINATED) if killed_task else None,
            metadata={"reason": step.detail[:_MAX_DETAIL]},
        )

    def _reset(self, step: Step) -> Iterator[AuditEvent]:
        prefix = _PREFIX.get(self._history.workflow_type, self._history.workflow_type)
        yield self._event(step, f"{prefix}.reset", actor=_named("operator"), metadata={"baseRunId": step.detail})


def ordered(events: Iterable[AuditEvent]) -> list[AuditEvent]:
    """By time; what has the same time stays in the order of its history."""
    return sorted(events, key=lambda event: event.timestamp)


def _moment(at: str) -> datetime:
    """Temporal counts nanoseconds; Python does not."""
    return datetime.fromisoformat(at.removesuffix("Z")[:26]).replace(tzinfo=UTC)


def _named(actor: str) -> str:
    """`admin:<name>` for operators; what already says its kind stays."""
    return actor if ":" in actor or actor == SYSTEM else f"admin:{actor}"


def _person(data: dict[str, Any]) -> str:
    author = _text(data, "author")
    return f"gitea:user:{author}" if author else SYSTEM


def _part(data: Any, name: str) -> dict[str, Any]:
    found = data.get(name) if isinstance(data, dict) else None
    return found if isinstance(found, dict) else {}


def _text(data: Any, name: str) -> str | None:
    found = data.get(name) if isinstance(data, dict) else None
    return found if isinstance(found, str) and found else None


def _facts(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        return {}
    return {to_camel(name): data[name] for name in _FACTS if data.get(name) not in (None, "", [])}


def _how(step: Step) -> dict[str, Any]:
    """Operators' words: by which way, and the requestId that makes a call one."""
    told = {"via": "update"} if step.kind is K.UPDATED else {}
    plain = {"reason": step.data[:_MAX_DETAIL]} if isinstance(step.data, str) and step.data else {}
    return {**told, **plain}


def _delivery_of(step: Step) -> str | None:
    """`add_delivery` says the deliveryKey alone."""
    if step.name != "add_delivery" or not isinstance(step.data, str):
        return None
    return step.data.removeprefix(f"{ids.INSTANCE_ID}:")


def _task_of(asked: Any) -> str | None:
    """The task that a comment of a session belongs to, from its commentKey."""
    key = _text(asked, "comment_key")
    task = key.split(":", 1)[0] if key else ""
    return task if ids.is_task_id(task) else None


def of_journal(line: dict[str, Any]) -> AuditEvent:
    """One line of the bridge's journal: the intent or the result of a call that writes."""
    fields = line.get("fields") or {}
    told = {"commit": fields.get("commit"), "accepted": fields.get("accepted"), "digest": fields.get("sha256")}
    about = {"phase": line["phase"], "tool": line["tool"], "round": line["round"], "leaseId": line["lease_id"]}
    return AuditEvent(
        event_id=f"journal/{line['call_id']}/{line['phase']}",
        task_id=line["task_id"],
        action="mcp.call",
        turn_id=line["turn_id"] or None,
        comment_id=fields.get("commentId"),
        error_code=fields.get("errorCode"),
        timestamp=datetime.fromtimestamp(float(line["at"]), UTC),
        metadata={**about, **{name: value for name, value in told.items() if value is not None}},
    )


def of_ingress(line: dict[str, Any]) -> AuditEvent:
    """One line of the ingress stream; raises ValueError when it is none."""
    comment = line.get("commentId")
    number = int(comment) if isinstance(comment, (int, str)) and str(comment).isdecimal() else None
    author = line.get("actor")
    actor = f"gitea:user:{author}" if author else SYSTEM
    return AuditEvent.model_validate({**line, "commentId": number, "actor": actor})
