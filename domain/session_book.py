"""What a session remembers: its thread, its tasks and what it has seen. The pure part of the Session workflow."""

from domain.events import Recovered, SessionCarried, TaskEvent

_MAX_DELIVERIES = 2_000
_MAX_SOURCES = 2_000


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
            idle_after=self.idle_after,
        )

    def recover(self, recovered: Recovered) -> None:
        """Adds what an earlier run left; what this run already knows stays."""
        self.learn(self.thread_id or recovered.thread_id, self.host or recovered.host)
        self.sources = {**recovered.seen_sources, **self.sources}
        self.idle_after = recovered.idle_after or self.idle_after

    def learn(self, thread_id: str | None, host: str | None) -> None:
        self.thread_id = thread_id or self.thread_id
        self.host = host or self.host

    def seen(self, event: TaskEvent) -> str | None:
        """The taskId that this event belongs to already."""
        return self.deliveries.get(event.delivery_key) or self.sources.get(event.source_key)

    def note(self, event: TaskEvent, task_id: str) -> None:
        """The event is `task_id`'s from now on (its own, or the one that took it as an answer)."""
        self.sources[event.source_key] = task_id
        _trim(self.sources, _MAX_SOURCES)
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
