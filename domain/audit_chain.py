"""From a delivery to the comment that answered it, out of the audit trail alone (design section 10). Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from domain import ids
from domain.audit import AuditEvent

_TAKEN = ("task.answer", "task.steer", "task.add_delivery", "task.start")
"""How a task came to a delivery; the first of these that there is counts (a folded comment starts a task, too)."""
_COMMENTS = frozenset({"reply.confirm", "reply.fallback"})


@dataclass(frozen=True, slots=True)
class Chain:
    """deliveryKey to commentId, as far as the task got; `events` are the proof, oldest first."""

    delivery_key: str
    task_id: str | None = None
    session_key: str | None = None
    thread_id: str | None = None
    turn_id: str | None = None
    comment_id: int | None = None
    events: tuple[str, ...] = ()


def chain(events: Iterable[AuditEvent], delivery_id: str) -> Chain:
    """The chain of a delivery. What has not happened (yet) stays None."""
    trail = list(events)
    key = ids.delivery_key(delivery_id)
    mine = [event for event in trail if event.delivery_id == delivery_id]
    taken = next((event for action in _TAKEN for event in mine if event.action == action), None)
    if taken is None:
        accepted = mine[0] if mine else None
        session = _fact([accepted], "sessionKey") if accepted else None
        return Chain(key, session_key=session, events=tuple(event.event_id for event in mine))
    told = [event for event in trail if event.task_id == taken.task_id]
    rounds = _rounds(told, str(_fact(mine, "sourceKey")))
    ours = [event for event in told if event.metadata.get("round") in rounds]
    turn = next((event.turn_id for event in reversed(ours) if event.turn_id and event.action == "turn.run"), None)
    comments = [event for event in ours if event.comment_id and event.action in _COMMENTS]
    return Chain(
        delivery_key=key,
        task_id=taken.task_id,
        session_key=_fact([*mine, *told], "sessionKey"),
        thread_id=_fact(reversed(ours), "threadId"),
        turn_id=turn or next((event.turn_id for event in reversed(ours) if event.turn_id), None),
        comment_id=comments[-1].comment_id if comments else None,
        events=tuple(event.event_id for event in _proof(mine, taken, ours)),
    )


def _rounds(told: Sequence[AuditEvent], source: str) -> set[object]:
    """The rounds of a task that answer this source; a source that came beside is answered with all of them."""
    known = [event for event in told if event.action == "turn.run"]
    own = {event.metadata.get("round") for event in known if event.metadata.get("sourceKey") == source}
    return own or {event.metadata.get("round") for event in known}


def _proof(mine: Sequence[AuditEvent], taken: AuditEvent, ours: Sequence[AuditEvent]) -> list[AuditEvent]:
    found = {event.event_id: event for event in [*mine, taken, *ours]}
    return sorted(found.values(), key=lambda event: event.timestamp)


def _fact(events: Iterable[AuditEvent], name: str) -> str | None:
    return next((str(event.metadata[name]) for event in events if event.metadata.get(name)), None)
