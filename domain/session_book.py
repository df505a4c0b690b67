"""What a session remembers: its thread, its tasks and what it has seen. The pure part of the Session workflow."""

import re
from datetime import timedelta

from domain import budget
from domain.events import Opening, Recovered, SessionCarried, TaskEvent, TaskResult
from domain.states import TaskState as S

_MAX_DELIVERIES = 2_000
_MAX_SOURCES = 2_000
_SAME_MOMENT = timedelta(seconds=60)
"""Gitea delivers the opening of an issue and its first assignment one after the other."""
_UNSUCCESSFUL = {S.FAILED, S.FAILED_REPLY, S.CANCELLED, S.ABORTED}
_ASSIGNMENT = re.compile(r"\d+:assignment:\d+\.(\d+)")


class SessionBook:
    """Seen keys are bounded, oldest first; `waiting` are the tasks that asked, longest first."""

    def __init__(self, carried: SessionCarried | None) -> None:
        carried = carried or SessionCarried()
        self.thread_id = carried.thread_id
        self.host = carried.host
        self.closed = carried.closed
        self.idle_after = carried.idle_after
        self.sources = dict(carried.seen_sources)
        self.deliveries = dict(carried.seen_deliveries)
        self.latches = carried.latches
        self.latched = carried.latched
        self._opening = carried.opening
        self.epoch = carried.epoch
        self.spend = carried.spend
        self.unsuccessful = carried.unsuccessful
        self.open: dict[str, TaskEvent] = {}
        self.waiting: list[str] = []
        self.stopping: set[str] = set()
        self._answered: set[str] = set()

    def carried(self) -> SessionCarried:
        return SessionCarried(
            thread_id=self.thread_id,
            host=self.host,
            seen_sources=self.sources,
            seen_deliveries=self.deliveries,
            closed=self.closed,
            latches=self.latches,
            latched=self.latched,
            opening=self._opening,
            epoch=self.epoch,
            spend=self.spend,
            unsuccessful=self.unsuccessful,
            idle_after=self.idle_after,
        )

    def recover(self, recovered: Recovered) -> None:
        """Adds what an earlier run left; what this run already knows stays."""
        self.learn(self.thread_id or recovered.thread_id, self.host or recovered.host)
        self.epoch = max(self.epoch, recovered.epoch)
        self.sources = {**recovered.seen_sources, **self.sources}
        self.idle_after = recovered.idle_after or self.idle_after
        taken = [int(found[1]) for source in self.sources if (found := _ASSIGNMENT.fullmatch(source))]
        self.latches = max([self.latches, *taken])
        self.latched = self.latched or bool(taken)

    def learn(self, thread_id: str | None, host: str | None) -> None:
        self.thread_id = thread_id or self.thread_id
        self.host = host or self.host

    def new_thread(self) -> None:
        """`/new`: tasks that start from now on share another thread."""
        self.epoch, self.thread_id = self.epoch + 1, None

    def ended(self, event: TaskEvent, result: TaskResult) -> None:
        """Takes over what a task leaves to its session; one that ran before `/new` leaves no thread."""
        self.learn(result.thread_id if result.epoch == self.epoch else None, result.host)
        self.spend = self.spend.model_copy(update={"spent": budget.plus(self.spend.spent, result.spent)})
        if result.state in _UNSUCCESSFUL:
            self.unsuccessful = event

    def grant(self, budgets: int) -> None:
        self.spend = self.spend.model_copy(update={"grants": self.spend.grants + budgets})

    def latch(self, event: TaskEvent) -> TaskEvent:
        """An assignment under the count of its latch: the same one again as long as the bot stays assigned."""
        if event.source_kind != "assignment":
            return event
        if not self.latched:
            self.latched, self.latches = True, self.latches + 1
        return event.model_copy(update={"source_key": f"{event.source_key}.{self.latches}"})

    def seen(self, event: TaskEvent) -> str | None:
        """The taskId that this event belongs to already."""
        known = self.deliveries.get(event.delivery_key) or self.sources.get(event.source_key)
        return known or self._opened_with(event)

    def _opened_with(self, event: TaskEvent) -> str | None:
        """The task of the body that this assignment came with, or the other way round."""
        opening = self._opening
        if opening is None or {opening.source_kind, event.source_kind} != {"issue", "assignment"}:
            return None
        same = opening.author == event.author and abs(event.received_at - opening.at) < _SAME_MOMENT
        return opening.task_id if same else None

    def note(self, event: TaskEvent, task_id: str) -> None:
        """The event is `task_id`'s from now on (its own, or the one that took it as an answer)."""
        self.sources[event.source_key] = task_id
        _trim(self.sources, _MAX_SOURCES)
        if event.source_kind in {"issue", "assignment"}:
            self._opening = Opening(
                task_id=task_id, author=event.author, source_kind=event.source_kind, at=event.received_at
            )
        self.note_delivery(event, task_id)

    def note_delivery(self, event: TaskEvent, task_id: str) -> None:
        self.deliveries[event.delivery_key] = task_id
        _trim(self.deliveries, _MAX_DELIVERIES)

    def unsee(self, event: TaskEvent) -> None:
        """An answer that came too late is new again."""
        self.sources.pop(event.source_key, None)
        self.deliveries.pop(event.delivery_key, None)

    def waits(self, task_id: str, waiting: bool) -> None:
        if task_id in self.waiting:
            self.waiting.remove(task_id)
        if waiting:
            self.waiting.append(task_id)
            self._answered.add(task_id)

    def foldable(self, waiting: str) -> list[tuple[str, TaskEvent]]:
        """Open tasks that may not have begun, oldest first; one that ever asked has."""
        return [(task, event) for task, event in self.open.items() if task != waiting and task not in self._answered]

    def forget(self, task_id: str) -> None:
        """The task is closed."""
        self.open.pop(task_id, None)
        self.waits(task_id, False)
        self.stopping.discard(task_id)
        self._answered.discard(task_id)

    def page(self, session_key: str, tasks: list[str]) -> str:
        """What the Web UI shows for the session, in Markdown."""
        head = f"## {session_key}\n\n{'closed' if self.closed else 'open'}"
        facts = [f"- thread: `{self.thread_id}`", f"- host: `{self.host}`", f"- seen: {len(self.sources)}"]
        listed = [f"- `{task}`{' waits for an answer' if task in self.waiting else ''}" for task in tasks]
        return "\n".join([head, "", *facts, "", *listed])


def _trim(seen: dict[str, str], bound: int) -> None:
    while len(seen) > bound:
        del seen[next(iter(seen))]
