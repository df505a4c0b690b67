"""The workspace lease of one repository: FIFO, one holder at a time (design section 5, Repository).

A holder gives the lease back by signal. When that signal never comes, a probe finds out, but only while
somebody waits. What may still run on the host after a holder was killed gets a grace time to end.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from domain.events import (
        ControlState,
        LeaseGrant,
        LeaseRelease,
        LeaseRequest,
        Notice,
        RepositoryCarried,
        RepositoryStart,
    )
    from domain.lease_queue import LeaseQueue

from workflows import calls
from workflows.signals import parse

_MAX_PROBE_FACTOR = 8
_MOST_CARRIED = 5_000
"""Requests in the input of the next run, of which Temporal takes 2 MB."""


@workflow.defn(name="Repository")
class Repository:
    @workflow.init
    def __init__(self, start: RepositoryStart) -> None:
        carried = start.carried or RepositoryCarried()
        self._start = start
        self._host = carried.host
        self._leases = LeaseQueue(carried)
        self._repeat_grant = False
        self._blocked_by = ""

    @workflow.run
    async def run(self, start: RepositoryStart) -> None:
        """Ends when nobody asked for `idle_after` seconds; the next request starts it again."""
        if start.carried is None:
            await self._recover()
        self._show()
        while await self._step():
            self._show()
            fits = len(self._leases.waiting) < _MOST_CARRIED
            settled = self._leases.freed is None and not self._repeat_grant and fits
            if settled and workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(start.model_copy(update={"carried": self._leases.carried(self._host)}))

    async def _step(self) -> bool:
        """Does the next thing there is to do; False when there is nothing for a long time."""
        if self._leases.freed is not None:
            await self._free()
        elif self._repeat_grant:
            self._repeat_grant = False
            await self._grant()
        elif self._leases.holder is None and self._leases.waiting:
            await self._take_next()
        elif self._leases.waiting:
            await self._watch_holder()
        elif self._leases.holder is not None:
            await workflow.wait_condition(self._something_to_do)
        else:
            return await self._wait(self._something_to_do, self._start.idle_after, "end when idle")
        return True

    def _something_to_do(self) -> bool:
        return self._leases.freed is not None or self._repeat_grant or bool(self._leases.waiting)

    async def _recover(self) -> None:
        """A run that carries nothing keeps the host of an earlier one and adopts a holder that still runs."""
        recovered = await calls.recover_repository(self._start)
        self._host = recovered.host or self._host
        self._leases.adopt(recovered.holder)
        if self._host is None:
            self._host = await calls.pick_host(self._start)
        workflow.upsert_memo({"repoKey": self._start.repo_key, "host": self._host})

    async def _take_next(self) -> None:
        control = await calls.read_control(self._start)
        self._blocked_by = blocked_by(control, self._start)
        if self._blocked_by:
            self._show()
            await self._wait(lambda: not self._leases.waiting, self._start.pause_poll, self._blocked_by)
        elif self._leases.take():
            await self._grant()

    async def _grant(self) -> None:
        """Tells the holder; one that is gone holds nothing."""
        holder = self._leases.holder
        if holder is None or self._host is None:
            return
        grant = LeaseGrant(
            lease_id=holder.lease_id, host=self._host, thread_id=self._leases.threads.get(holder.thread_name)
        )
        if await calls.signal(holder.task_id, "lease_granted", grant) == "gone":
            self._leases.free(holder.task_id, fenced=True)

    async def _watch_holder(self) -> None:
        """Looks at the holder again and again, less and less often, as long as somebody waits."""
        factor = 1
        while self._leases.holder is not None and self._leases.waiting:
            if await self._wait(self._freed_or_repeat, self._start.probe_interval * factor, "is the holder alive?"):
                return
            factor = min(factor * 2, _MAX_PROBE_FACTOR)
            await self._probe(self._leases.holder)

    def _freed_or_repeat(self) -> bool:
        return self._leases.freed is not None or self._repeat_grant or not self._leases.waiting

    async def _probe(self, holder: LeaseRequest) -> None:
        status = (await calls.probe_task(holder.task_id)).status
        if status == "running":
            return
        if status == "stuck":
            workflow.logger.error("holder_stuck: %s makes no progress and is terminated", holder.task_id)
            await calls.terminate_stuck(holder.task_id)
            await calls.notify(Notice(kind="stuck", task_id=holder.task_id, session_key=self._start.repo_key))
        self._leases.free(holder.task_id, fenced=status in {"closed", "missing"})

    async def _free(self) -> None:
        if self._leases.freed == "after_grace":
            self._show()
            grace = self._start.heartbeat_timeout + self._start.stop_budget
            await workflow.sleep(grace, summary="what the holder left running must end first")
        self._leases.clear()

    async def _wait(self, condition: Callable[[], bool], seconds: float, summary: str) -> bool:
        try:
            await workflow.wait_condition(condition, timeout=timedelta(seconds=seconds), timeout_summary=summary)
        except TimeoutError:
            return False
        return True

    def _show(self) -> None:
        holder = self._leases.holder
        lines = [
            f"## {self._start.repo_key}",
            "",
            f"- host: `{self._host}`",
            f"- holder: `{holder.lease_id}`" if holder else "- holder: none",
            *([f"- {self._blocked_by}"] if self._blocked_by else []),
            *(f"{place}. `{waiter.lease_id}`" for place, waiter in enumerate(self._leases.waiting, 1)),
        ]
        workflow.set_current_details("\n".join(lines))

    @workflow.signal(description="Task: I need the workspace")
    def request(self, request: Any = None) -> None:
        if parsed := parse(LeaseRequest, request):
            self._repeat_grant = self._leases.ask(parsed) or self._repeat_grant
            self._show()

    @workflow.signal(description="Task or session: the lease is given back, or no longer wanted")
    def release(self, release: Any = None) -> None:
        if parsed := parse(LeaseRelease, release):
            self._leases.release(parsed)
            self._show()


def blocked_by(control: ControlState, start: RepositoryStart) -> str:
    """Why nothing is granted now, or an empty text."""
    if control.paused:
        return f"paused by {control.updated_by}: {control.reason}"
    why = control.disabled.get(str(start.repository_id)) or control.disabled.get(start.repo_key)
    return f"disabled: {why}" if why else ""
