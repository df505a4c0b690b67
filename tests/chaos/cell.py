"""One cell of the chaos matrix: a task of its own repository, held at a step, one process killed there."""

import asyncio
import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowFailureError

from demo.scene import OWNER, Scene, until
from demo.stack import BOT
from tests import harness, processes
from tests.chaos import evidence

HOLD_LIMIT = 40
END_LIMIT = 150
ANSWERED = frozenset({"succeeded", "succeeded_with_rest_fallback"})
PARTS = ("worker", "ingress", "sidecar", "temporal", "gitea")
VICTIMS = ("worker", "ingress", "sidecar", "app-server", "bridge", "gitea-mcp", "temporal", "gitea")


@dataclass(slots=True)
class Cell:
    """`name` is the repository's and stands in the command line of everything that belongs to the cell."""

    scene: Scene
    name: str
    repository_id: int
    comment: int = 0
    commands: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """What lets the task go on."""

    @property
    def root(self) -> Path:
        return self.scene.stack.state_dir / "workspaces" / "default" / OWNER / self.name

    @property
    def issue(self) -> str:
        return f"/api/v1/repos/{OWNER}/{self.name}/issues/1"

    @property
    def git(self) -> str:
        return f"/{OWNER}/{self.name}.git"

    async def ask(self, *steps: dict[str, Any]) -> None:
        """The comment that starts the task; `steps` is what the model does."""
        await harness.play(self.scene, **{self.name: list(steps)})
        self.comment = await self.scene.comment(f"@{BOT} [[script:{self.name}]]")

    async def hold(self, method: str, path: str, mode: str = "hold", skip: int = 0) -> None:
        """Holds requests to Gitea, before or after it does them, and waits until one is held."""
        await self.prepare_hold(method, path, mode, skip)
        await self.until_held()

    async def prepare_hold(self, method: str, path: str, mode: str = "hold", skip: int = 0) -> None:
        times = 1 if mode == "hold_answer" else 50
        await harness.fault(self.scene, method=method, path=path, mode=mode, skip=skip, times=times)

    async def until_held(self) -> None:
        async def held() -> bool:
            answer = await self.scene.http.get(f"{self.scene.stack.gitea_url}/_sim/faults")
            return any(one["held"] for one in answer.json())

        await until(held, HOLD_LIMIT, "Gitea to hold a request")

    async def until_asked(self, step: int) -> None:
        await harness.until_asked(self.scene, self.name, step)

    async def release(self) -> None:
        """Everything that is held goes on."""
        await self.scene.http.delete(f"{self.scene.stack.gitea_url}/_sim/faults")
        await harness.release(self.scene, self.gate)
        if self.root.exists():
            (self.root / "tmp" / "issue-1" / "go").parent.mkdir(parents=True, exist_ok=True)
            (self.root / "tmp" / "issue-1" / "go").touch()

    @property
    def gate(self) -> str:
        return f"gate-{self.name}"


Reach = Callable[[Cell], Awaitable[None]]
PUBLISH: dict[str, Any] = {"mcp": "publish", "arguments": {"message": "Take one step"}}
REPLY: dict[str, Any] = {"mcp": "reply", "arguments": {"body": "The step is taken."}}
DONE: dict[str, Any] = {"say": "Done."}


def step(cell: Cell) -> dict[str, Any]:
    return {"exec": f"echo one >> steps.txt # {cell.name}"}


async def signal_stored(cell: Cell) -> None:
    """The session asks Gitea what an earlier one has seen."""
    await cell.prepare_hold("GET", f"{cell.issue}/comments")
    await cell.ask(step(cell), PUBLISH, REPLY, DONE)
    await harness.task_of_comment(cell.scene, cell.comment)
    await cell.until_held()


async def receipt_posted(cell: Cell) -> None:
    await _ask_and_hold(cell, "POST", f"{cell.issue}/comments", "hold_answer", skip=1)


async def lease_granted(cell: Cell) -> None:
    await _ask_and_hold(cell, "GET", f"{cell.git}/info/refs")


async def clone(cell: Cell) -> None:
    """After the refs, in the transfer of the objects."""
    await _ask_and_hold(cell, "POST", f"{cell.git}/git-upload-pack", skip=1)


async def thread_started(cell: Cell) -> None:
    """The preflight asks for the issue through the bridge."""
    await _ask_and_hold(cell, "GET", cell.issue)


async def turn_started(cell: Cell) -> None:
    await cell.ask(step(cell) | {"gate": cell.gate}, PUBLISH, REPLY, DONE)
    await cell.until_asked(0)


async def command_running(cell: Cell) -> None:
    waits = f'touch "$TMPDIR/runs"; while [ ! -e "$TMPDIR/go" ]; do sleep 0.1; done # {cell.name}'
    await cell.ask({"exec": waits}, step(cell), PUBLISH, REPLY, DONE)

    async def runs() -> bool:
        """Seen from outside too: else nobody would see it when it is left behind."""
        there = await evidence.running(cell.scene, cell.name, cell.repository_id)
        return bool(there) and (cell.root / "tmp" / "issue-1" / "runs").exists()

    await until(runs, HOLD_LIMIT, "the command to run")


async def answer_lost(cell: Cell) -> None:
    """The answer stands in Gitea, and nobody was told: the first comment is the person's, the second the receipt."""
    await _ask_and_hold(cell, "POST", f"{cell.issue}/comments", "hold_answer", skip=2)


async def publish(cell: Cell) -> None:
    """Gitea took the push, and nobody was told."""
    await _ask_and_hold(cell, "POST", f"{cell.git}/git-receive-pack", "hold_answer")


async def settle(cell: Cell) -> None:
    """It looks which commit the branch has."""
    await _ask_until_end(cell)
    await _go_on_and_hold(cell, "GET", f"{cell.git}/info/refs")


async def read_back(cell: Cell) -> None:
    await _ask_until_end(cell)
    await _go_on_and_hold(cell, "GET", f"{cell.issue}/comments")


async def fallback(cell: Cell) -> None:
    """The model never replies: ccweb posted by REST, and was not told."""
    await cell.prepare_hold("POST", f"{cell.issue}/comments", "hold_answer", skip=2)
    await cell.ask({"say": "I have posted the answer in the issue."})
    await cell.until_held()


async def _ask_and_hold(cell: Cell, method: str, path: str, mode: str = "hold", skip: int = 0) -> None:
    await cell.prepare_hold(method, path, mode, skip)
    await cell.ask(step(cell), PUBLISH, REPLY, DONE)
    await cell.until_held()


async def _ask_until_end(cell: Cell) -> None:
    await cell.ask(step(cell), PUBLISH, REPLY, DONE | {"gate": cell.gate})
    await cell.until_asked(3)


async def _go_on_and_hold(cell: Cell, method: str, path: str) -> None:
    await cell.prepare_hold(method, path)
    await harness.release(cell.scene, cell.gate)
    await cell.until_held()


STEPS: dict[str, Reach] = {
    reach.__name__: reach
    for reach in (
        signal_stored,
        receipt_posted,
        lease_granted,
        clone,
        thread_started,
        turn_started,
        command_running,
        publish,
        answer_lost,
        settle,
        read_back,
        fallback,
    )
}
WITHOUT_BRIDGE = frozenset(
    {"signal_stored", "receipt_posted", "lease_granted", "clone", "settle", "read_back", "fallback"}
)
"""Steps at which the session has no bridge yet, or no longer for sure."""


def has(step_name: str, victim: str) -> bool:
    """Whether the victim is there at the step."""
    return not (victim in {"bridge", "gitea-mcp"} and step_name in WITHOUT_BRIDGE)


@dataclass(frozen=True, slots=True)
class Outcome:
    step: str
    victim: str
    ok: bool
    outcome: str
    seconds: float


async def play(scene: Scene, step_name: str, victim: str, number: int) -> Outcome:
    """Plays one cell; a fault found is the outcome, never raised."""
    began = time.monotonic()
    try:
        outcome = await _play(
            await new_cell(scene, f"{step_name.replace('_', '-')}-{number:02}"), STEPS[step_name], victim
        )
        ok = True
    except Exception as error:  # noqa: BLE001 - whatever it is, the table shows it
        outcome, ok = f"{type(error).__name__}: {error}".splitlines()[0], False
    return Outcome(step_name, victim, ok, outcome, round(time.monotonic() - began, 1))


async def new_cell(scene: Scene, name: str) -> Cell:
    own = dataclasses.replace(scene, repo=name)
    return Cell(own, name, await own.seed())


async def _play(cell: Cell, reach: Reach, victim: str) -> str:
    await reach(cell)
    await kill(cell, victim)
    await cell.release()
    state = await harness.finished(cell.scene, cell.comment, END_LIMIT)
    assert state in ANSWERED, f"{state}: {await _why(cell)}"
    await evidence.check(cell.scene, cell.comment, cell.name, cell.repository_id)
    return state


async def _where(cell: Cell) -> str:
    """The state of the task and what it waits for, by its last events."""
    try:
        client, task_id = await harness.temporal(cell.scene), await harness.task_of_comment(cell.scene, cell.comment)
        events = (await client.get_workflow_handle(task_id).fetch_history()).events
        last = [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in events[-4:]]
        return f"{await harness.state_of(client, task_id)}: {', '.join(last)}"
    except Exception as error:  # noqa: BLE001 - it explains another error
        return f"nothing known: {type(error).__name__}"


async def _why(cell: Cell) -> str:
    task_id = await harness.task_of_comment(cell.scene, cell.comment)
    try:
        await (await harness.temporal(cell.scene)).get_workflow_handle(task_id).result()
    except WorkflowFailureError as error:
        return str(error.cause)
    return "no reason"


async def kill(cell: Cell, victim: str) -> None:
    """SIGKILL; parts are started again, the others have to come back by themselves."""
    stack = cell.scene.stack
    if victim in PARTS:
        await stack.kill(victim)
        await stack.start(victim)
    elif victim == "app-server":
        started = len(harness.app_server_pids(cell.scene))
        os.kill(harness.app_server_pids(cell.scene)[-1], signal.SIGKILL)
        await until(lambda: _restarted(cell.scene, started), HOLD_LIMIT, "another app-server")
    else:
        for pid in await until(lambda: _pids(cell, victim), HOLD_LIMIT, f"a {victim}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


async def _restarted(scene: Scene, before: int) -> bool:
    return len(harness.app_server_pids(scene)) > before


async def _pids(cell: Cell, victim: str) -> list[int]:
    config = f"/bridge/{cell.repository_id}-issue-1.json"
    everything = await asyncio.to_thread(processes.all_of)
    bridges = {
        one.pid for one in everything if config in one.command and str(cell.scene.stack.directory) in one.command
    }
    if victim == "bridge":
        return sorted(bridges)
    return [one.pid for one in everything if one.parent in bridges]
