"""Temporal's history in the JSON form of its API, read into steps that audit and task pages are made from. Pure.

Only what happened to the outside or was said by somebody is a step; workflow tasks and timers are not.
Standard library only.
"""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

_PREFIX = "EVENT_TYPE_"


class StepKind(StrEnum):
    STARTED = "started"
    SIGNALED = "signaled"
    UPDATED = "updated"
    SCHEDULED = "scheduled"
    COMPLETED = "completed"
    FAILED = "failed"
    LOCAL = "local"
    STATE = "state"
    CHILD = "child"
    SENT = "sent"
    CANCEL_REQUESTED = "cancel_requested"
    CLOSED = "closed"
    TERMINATED = "terminated"
    CONTINUED = "continued"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class Step:
    """`number` is the event's in its history; `name` the signal, update, activity or workflow.

    `data` is the decoded argument or result. For the end of an activity `asked` is its argument and `scheduled`
    the number of its start; `error` is an error code or Temporal's own kind of failure.
    """

    number: int
    at: str
    kind: StepKind
    name: str
    data: Any = None
    asked: Any = None
    scheduled: int | None = None
    error: str | None = None
    detail: str = ""
    request_id: str = ""
    sender: str = ""
    """The workflow that sent the signal; empty when it came from outside."""


@dataclass(slots=True)
class History:
    """One run, as far as it went."""

    workflow_id: str
    run_id: str
    workflow_type: str
    steps: list[Step] = field(default_factory=list)


def read(raw: dict[str, Any], run_id: str = "") -> History:
    """Reads the JSON form; raises ValueError when it is no history.

    Without `run_id` the run is taken for the one that was started, which it is unless somebody reset it.
    """
    events = raw.get("events")
    if not events or _type_of(events[0]) != "WORKFLOW_EXECUTION_STARTED":
        raise ValueError("not a history: its first event is no start")
    start = _attributes(events[0])
    history = History(
        start.get("workflowId", ""), run_id or start["originalExecutionRunId"], start["workflowType"]["name"]
    )
    scheduled: dict[int, Step] = {}
    for event in events:
        for step in _steps(event, scheduled):
            if step.kind is StepKind.SCHEDULED:
                scheduled[step.number] = step
            history.steps.append(step)
    return history


def _steps(event: dict[str, Any], scheduled: dict[int, Step]) -> Iterator[Step]:
    kind = _type_of(event)
    if kind.startswith("ACTIVITY_TASK_"):
        step = _of_activity(kind, event, scheduled)
    else:
        reader = _READERS.get(kind)
        step = reader(_attributes(event), _base(event)) if reader else None
    if step is not None:
        yield step


def _of_activity(kind: str, event: dict[str, Any], scheduled: dict[int, Step]) -> Step | None:
    found, base = _attributes(event), _base(event)
    if kind == "ACTIVITY_TASK_SCHEDULED":
        name, data = found["activityType"]["name"], _first(found.get("input"))
        return Step(**base, kind=StepKind.SCHEDULED, name=name, data=data)
    begun = scheduled.get(int(found.get("scheduledEventId", 0)))
    ended = kind.removeprefix("ACTIVITY_TASK_").lower()
    if begun is None or ended not in {"completed", "failed", "timed_out", "canceled"}:
        return None
    more: dict[str, Any] = {"name": begun.name, "asked": begun.data, "scheduled": begun.number}
    if ended == "completed":
        return Step(**base, **more, kind=StepKind.COMPLETED, data=_first(found.get("result")))
    code, detail = _failure(found.get("failure", {}))
    return Step(**base, **more, kind=StepKind.FAILED, error=code or ended, detail=detail)


def _started(found: dict[str, Any], base: dict[str, Any]) -> Step:
    return Step(**base, kind=StepKind.STARTED, name=found["workflowType"]["name"], data=_first(found.get("input")))


def _signaled(found: dict[str, Any], base: dict[str, Any]) -> Step:
    return Step(
        **base,
        kind=StepKind.SIGNALED,
        name=found["signalName"],
        data=_first(found.get("input")),
        request_id=found.get("requestId", ""),
        sender=found.get("externalWorkflowExecution", {}).get("workflowId", ""),
    )


def _updated(found: dict[str, Any], base: dict[str, Any]) -> Step:
    asked = found.get("acceptedRequest", {})
    given = asked.get("input", {})
    request_id = asked.get("meta", {}).get("updateId", "")
    return Step(
        **base,
        kind=StepKind.UPDATED,
        name=given.get("name", ""),
        data=_first(given.get("args")),
        request_id=request_id,
    )


def _local(found: dict[str, Any], base: dict[str, Any]) -> Step | None:
    details = found.get("details", {})
    about = _first(details.get("data"))
    if found.get("markerName") != "core_local_activity" or not isinstance(about, dict):
        return None
    code, detail = _failure(found.get("failure", {}))
    name = about.get("activity_type", "")
    return Step(**base, kind=StepKind.LOCAL, name=name, data=_first(details.get("result")), error=code, detail=detail)


def _state(found: dict[str, Any], base: dict[str, Any]) -> Step | None:
    fields = found.get("searchAttributes", {}).get("indexedFields", {})
    if "CcwebState" not in fields:
        return None
    return Step(**base, kind=StepKind.STATE, name=str(value_of(fields["CcwebState"])))


def _child(found: dict[str, Any], base: dict[str, Any]) -> Step:
    data = _first(found.get("input"))
    return Step(**base, kind=StepKind.CHILD, name=found["workflowId"], data=data)


def _sent(found: dict[str, Any], base: dict[str, Any]) -> Step:
    to = found["workflowExecution"]["workflowId"]
    data = _first(found.get("input"))
    return Step(**base, kind=StepKind.SENT, name=found["signalName"], data=data, detail=to)


def _cancel_requested(found: dict[str, Any], base: dict[str, Any]) -> Step:
    sender = found.get("externalWorkflowExecution", {}).get("workflowId", "")
    cause = found.get("cause", "")
    return Step(**base, kind=StepKind.CANCEL_REQUESTED, name="cancel", detail=cause, sender=sender)


def _completed(found: dict[str, Any], base: dict[str, Any]) -> Step:
    return Step(**base, kind=StepKind.CLOSED, name="completed", data=_first(found.get("result")))


def _failed(found: dict[str, Any], base: dict[str, Any]) -> Step:
    failure = found.get("failure", {})
    code, detail = _failure(failure)
    data = _first(failure.get("applicationFailureInfo", {}).get("details"))
    return Step(**base, kind=StepKind.CLOSED, name="failed", data=data, error=code, detail=detail)


def _reset(found: dict[str, Any], base: dict[str, Any]) -> Step | None:
    """All before this was copied from another run."""
    if not str(found.get("cause", "")).endswith("RESET_WORKFLOW"):
        return None
    return Step(**base, kind=StepKind.RESET, name="reset", detail=found.get("baseRunId", ""))


def _ended(how: str, kind: StepKind) -> Callable[[dict[str, Any], dict[str, Any]], Step]:
    def read_end(found: dict[str, Any], base: dict[str, Any]) -> Step:
        return Step(**base, kind=kind, name=how, detail=found.get("reason", ""))

    return read_end


_READERS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Step | None]] = {
    "WORKFLOW_EXECUTION_STARTED": _started,
    "WORKFLOW_EXECUTION_SIGNALED": _signaled,
    "WORKFLOW_EXECUTION_UPDATE_ACCEPTED": _updated,
    "MARKER_RECORDED": _local,
    "WORKFLOW_TASK_FAILED": _reset,
    "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES": _state,
    "START_CHILD_WORKFLOW_EXECUTION_INITIATED": _child,
    "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED": _sent,
    "WORKFLOW_EXECUTION_CANCEL_REQUESTED": _cancel_requested,
    "WORKFLOW_EXECUTION_COMPLETED": _completed,
    "WORKFLOW_EXECUTION_FAILED": _failed,
    "WORKFLOW_EXECUTION_CANCELED": _ended("canceled", StepKind.CLOSED),
    "WORKFLOW_EXECUTION_TIMED_OUT": _ended("timed_out", StepKind.TERMINATED),
    "WORKFLOW_EXECUTION_TERMINATED": _ended("terminated", StepKind.TERMINATED),
    "WORKFLOW_EXECUTION_CONTINUED_AS_NEW": _ended("continued", StepKind.CONTINUED),
}


def value_of(payload: dict[str, Any]) -> Any:
    """A JSON payload's value; None for any other."""
    try:
        return json.loads(base64.b64decode(payload.get("data", "")))
    except ValueError:
        return None


def _first(payloads: dict[str, Any] | None) -> Any:
    listed = (payloads or {}).get("payloads") or []
    return value_of(listed[0]) if listed else None


def _failure(failure: dict[str, Any]) -> tuple[str | None, str]:
    """The innermost application error: Temporal wraps it."""
    while "applicationFailureInfo" not in failure and failure.get("cause"):
        failure = failure["cause"]
    return failure.get("applicationFailureInfo", {}).get("type"), failure.get("message", "")


def _type_of(event: dict[str, Any]) -> str:
    return str(event["eventType"]).removeprefix(_PREFIX)


def _attributes(event: dict[str, Any]) -> dict[str, Any]:
    return next((value for name, value in event.items() if name.endswith("EventAttributes")), {})


def _base(event: dict[str, Any]) -> dict[str, Any]:
    return {"number": int(event["eventId"]), "at": str(event["eventTime"])}
