"""What the reviews of a PR ask for (design section 8): Gitea's delivery of one is only a poke. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from domain.deliveries import User
from domain.events import Poke, SourceKind, TaskEvent
from domain.subjects import Act, Subject
from domain.triggers import DecisionKind, Policy, decide_subject, task_event

_MAX_HUNK = 4_000


@dataclass(frozen=True, slots=True)
class Written:
    """A review's text, or an inline comment with the place it is about."""

    source_kind: SourceKind
    source_id: int
    author: User
    text: str
    path: str = ""
    hunk: str = ""


def events_of(poke: Poke, written: Iterable[Written], policy: Policy) -> list[TaskEvent]:
    """One event per text that triggers, in order; the session drops those that it has seen."""
    return list(_events(poke, written, policy))


def _events(poke: Poke, written: Iterable[Written], policy: Policy) -> Iterator[TaskEvent]:
    for one in written:
        # One delivery stands for several texts, and each must have a delivery and a task of its own.
        delivery_id = f"{poke.delivery_id}:{one.source_kind}:{one.source_id}"
        decision = decide_subject(_subject(poke, one), policy, delivery_id, poke.event_type)
        if decision.decision is not DecisionKind.TRIGGER:
            continue
        event = task_event(
            decision,
            repo_key=poke.repo_key,
            received_at=poke.received_at,
            payload_hash=poke.payload_hash,
            traceparent=poke.traceparent,
        )
        yield event.model_copy(update={"instruction": event.instruction + _place(one)})


def _subject(poke: Poke, written: Written) -> Subject:
    return Subject(
        act=Act.WRITTEN,
        repository=poke.repository,
        kind="pull_request",
        number=poke.number,
        title=poke.title,
        author=written.author,
        sender=written.author,
        text=written.text,
        source_kind=written.source_kind,
        source_id=written.source_id,
    )


def _place(written: Written) -> str:
    """Where an inline comment stands, for the agent."""
    return f"\n\n[at {written.path}]\n{written.hunk[-_MAX_HUNK:]}" if written.path else ""
