"""Who holds a repository's workspace and who waits for it: the pure part of the Repository workflow."""

from typing import Literal

from domain.events import LeaseRelease, LeaseRequest, RepositoryCarried

_MAX_THREADS = 100


class LeaseQueue:
    """FIFO of requests. `freed` says that the holder's lease is over and whether a grace time comes first."""

    def __init__(self, carried: RepositoryCarried) -> None:
        self.waiting = list(carried.queue)
        self.holder = carried.holder
        self.threads = dict(carried.threads)
        self.freed: Literal["now", "after_grace"] | None = None

    def carried(self, host: str | None) -> RepositoryCarried:
        return RepositoryCarried(queue=self.waiting, holder=self.holder, host=host, threads=self.threads)

    def adopt(self, holder: LeaseRequest | None) -> None:
        """Takes over a holder found running; its own request, if it came first, is the holder's."""
        if holder is not None:
            self.holder = holder
            self.waiting = [waiter for waiter in self.waiting if waiter.task_id != holder.task_id]

    def ask(self, request: LeaseRequest) -> bool:
        """Notes a request; True when its task holds just this lease and must be told again."""
        holder = self.holder
        if holder is None or holder.task_id != request.task_id:
            self._queue(request)
        elif holder.lease_id == request.lease_id:
            return self.freed is None
        elif _number(request) > _number(holder):
            self.freed = self.freed or "now"
            self._queue(request)
        return False

    def _queue(self, request: LeaseRequest) -> None:
        """Each task waits once; who ran before goes ahead of who never started, in order of asking."""
        for place, waiter in enumerate(self.waiting):
            if waiter.task_id == request.task_id:
                self.waiting[place] = max(waiter, request, key=_number)
                return
        ahead = sum(waiter.resume for waiter in self.waiting)
        self.waiting.insert(ahead if request.resume else len(self.waiting), request)

    def take(self) -> bool:
        """Makes the first that waits the holder; False when nobody waits any more."""
        if self.waiting:
            self.holder = self.waiting.pop(0)
        return self.holder is not None

    def release(self, release: LeaseRelease) -> None:
        """Ends the holder's lease or withdraws a request; a lease that is neither is stale and ignored."""
        if release.thread_name and release.thread_id:
            self._remember(release.thread_name, release.thread_id)
        self.waiting = [waiter for waiter in self.waiting if not _matches(release, waiter)]
        if self.holder is not None and _matches(release, self.holder):
            self.free(self.holder.task_id, fenced=release.fenced)

    def free(self, task_id: str, *, fenced: bool) -> None:
        """Ends the lease of `task_id` if it is the holder; unless it is `fenced`, a grace time comes first."""
        if self.holder is not None and self.holder.task_id == task_id and self.freed is None:
            self.freed = "now" if fenced else "after_grace"

    def clear(self) -> None:
        self.holder, self.freed = None, None

    def _remember(self, thread_name: str, thread_id: str) -> None:
        self.threads.pop(thread_name, None)
        self.threads[thread_name] = thread_id
        while len(self.threads) > _MAX_THREADS:
            del self.threads[next(iter(self.threads))]


def _number(request: LeaseRequest) -> int:
    """The k of a leaseId: a task asks for its leases one after another, an older one is over."""
    _, _, number = request.lease_id.rpartition("/")
    return int(number) if number.isdecimal() else 0


def _matches(release: LeaseRelease, request: LeaseRequest) -> bool:
    return release.task_id == request.task_id and release.lease_id in {None, request.lease_id}
