"""Many tasks in many repositories at once, with a probe in each workspace."""

import asyncio
import json
from collections import defaultdict
from typing import Any

from temporalio import activity
from temporalio.client import WorkflowExecutionStatus, WorkflowHistory

from domain import events, ids
from tests.workflows.fakes import POLICY
from tests.workflows.world import World, new_repository

_QUICK = POLICY.model_copy(update={"request_backoff": 0.5})
_STEPS = 3


class Probe:
    """What the fake turns see: who works in a repository at the same time, in which order, and who answered."""

    def __init__(self) -> None:
        self.inside: dict[int, set[str]] = defaultdict(set)
        self.overlaps: list[tuple[str, set[str]]] = []
        self.order: dict[int, list[str]] = defaultdict(list)
        self.answered: set[str] = set()
        self.go = asyncio.Event()

    async def turn(self, request: events.TurnRequest) -> events.TurnOutcome:
        """A turn of a moment; the first of a repository waits for `go`."""
        repository, task = request.repository.id, request.task_id
        others = self.inside[repository] - {task}
        if others:
            self.overlaps.append((task, set(others)))
        first = not self.order[repository]
        self.order[repository].append(task)
        self.inside[repository].add(task)
        try:
            await self._work(first)
        finally:
            self.inside[repository].discard(task)
        self.answered.add(task)
        return events.TurnOutcome(thread_id=f"thread of {request.session_key}", turn_id="turn-1", status="completed")

    async def _work(self, first: bool) -> None:
        for _ in range(_STEPS):
            activity.heartbeat()
            await asyncio.sleep(0.05)
        while first and not self.go.is_set():
            activity.heartbeat()
            await asyncio.sleep(0.05)

    async def verify(self, request: events.VerifyRequest) -> events.Verification:
        if request.task_id in self.answered:
            return events.Verification(found="final", comment_id=7, turn_id="turn-1")
        return events.Verification(found="missing")


async def _admit(start: events.TaskStart) -> events.Admission:
    return events.Admission(state="queued", repository=start.event.repository, policy=_QUICK)


def gather(world: World, repositories: int, issues: int, tasks: int) -> tuple[Probe, list[events.TaskEvent]]:
    """A probe in each workspace, and the requests: by turns in each repository and each of its issues."""
    probe = Probe()
    world.fakes.usual = {"run_turn": probe.turn, "verify_reply": probe.verify, "admit": _admit}
    numbers = [new_repository() for _ in range(repositories)]
    return probe, [
        world.event(repo=numbers[n % repositories], issue=1 + (n // repositories) % (issues // repositories))
        for n in range(tasks)
    ]


async def asked_in_order(world: World, repository: int) -> list[str]:
    """The tasks in the order in which they first asked for the lease, by the histories of all runs; with one that
    was terminated its queue is lost, and who waited asks again.
    """
    workflow_id = ids.repository_workflow_id(repository)
    runs = [run async for run in world.client.list_workflows(f'WorkflowId="{workflow_id}"')]
    found: dict[str, None] = {}
    for run in sorted(runs, key=lambda run: run.start_time):
        handle = world.client.get_workflow_handle(workflow_id, run_id=run.run_id)
        asked = dict.fromkeys(_requests(await handle.fetch_history()))
        if run.status is WorkflowExecutionStatus.TERMINATED:
            asked = dict.fromkeys(list(asked)[:1])
        found |= asked
    return list(found)


def _requests(history: WorkflowHistory) -> list[str]:
    signals: list[Any] = [
        event.workflow_execution_signaled_event_attributes
        for event in history.events
        if event.HasField("workflow_execution_signaled_event_attributes")
    ]
    return [str(json.loads(one.input.payloads[0].data)["task_id"]) for one in signals if one.signal_name == "request"]
