"""What people wrote while no delivery reached us, as events of the same kind (design section 5, Reconciler). Pure.

The reconciler lists what Gitea shows and decides about each by the same code as ingress. Its deliveries have
ids made from the source, so finding a thing twice is one delivery twice.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from domain import ids, marker
from domain.deliveries import User
from domain.events import RepositoryRef, ResourceKind, SourceKind, TaskEvent
from domain.subjects import Act, Subject
from domain.triggers import DecisionKind, Policy, decide_subject, task_event

OVERLAP = timedelta(minutes=10)
"""Looked at again by each run: clocks differ, and Gitea commits late."""
EVENT_TYPE = "reconcile"
_SAME_MOMENT = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Seen:
    """Something that Gitea shows: a comment, a body, a review, an inline comment, an assignment.

    `at` is when it was written or last changed, `created_at` when it came to be.
    """

    kind: ResourceKind
    number: int
    title: str
    source_kind: SourceKind
    source_id: int
    author: User
    text: str
    created_at: datetime
    at: datetime
    occurrence: str = ""
    """Tells one assignment from the next."""


def is_due(seen: Seen, *, since: datetime, until: datetime, installed_at: datetime) -> bool:
    """Whether this run looks at it: old enough for its delivery to have come, and never from before the start.

    An old text that was edited counts as old: what it said before is not known.
    """
    # Gitea's times are whole seconds.
    since, installed_at = since.replace(microsecond=0), installed_at.replace(microsecond=0)
    return seen.created_at >= installed_at and since <= seen.at <= until


def events_of(
    repository: RepositoryRef, repo_key: str, seen: Iterable[Seen], policy: Policy, now: datetime
) -> Iterator[tuple[Seen, TaskEvent]]:
    """Each that triggers, with its event."""
    for one in seen:
        subject = _subject(repository, one, policy)
        source = ids.source_key(repository.id, one.source_kind, one.source_id)
        delivery = f"{EVENT_TYPE}:{source}" + (f":{one.occurrence}" if one.occurrence else "")
        decision = decide_subject(subject, policy, delivery, EVENT_TYPE)
        if decision.decision is DecisionKind.TRIGGER:
            event = task_event(decision, repo_key=repo_key, received_at=now, payload_hash="", traceparent="")
            yield one, event


def is_taken(seen: Seen, event: TaskEvent, ours: Iterable[tuple[datetime | None, marker.Marker]]) -> bool:
    """Whether one of our comments (when it was written, its marker) is about this source.

    An assignment counts as taken by any comment since that is about one, or about the body it came with.
    """
    if seen.source_kind != "assignment":
        return any(found.source == event.source_key for _, found in ours)
    body = ids.source_key(event.repository.id, "issue", event.number)
    return any(
        (found.source == body or found.source.startswith(f"{event.source_key}."))
        and (at is None or at >= seen.at - _SAME_MOMENT)
        for at, found in ours
    )


def _subject(repository: RepositoryRef, seen: Seen, policy: Policy) -> Subject:
    assigned = seen.source_kind == "assignment"
    return Subject(
        act=Act.ASSIGNED if assigned else Act.WRITTEN,
        repository=repository,
        kind=seen.kind,
        number=seen.number,
        title=seen.title,
        author=seen.author,
        sender=seen.author,
        text=seen.text,
        source_kind=seen.source_kind,
        source_id=seen.source_id,
        assignees=frozenset({policy.bot_name.lower()}) if assigned else frozenset(),
    )
