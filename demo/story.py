"""What happens in the demo: a comment and a follow-up, each followed through Temporal's own history."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from demo.scene import FULL_NAME, Scene, until
from demo.stack import BOT, Stack
from domain import ids, marker
from domain.states import TaskState

FIRST = f"@{BOT} please fix the failing test"
SECOND = f"@{BOT} thanks! What did you change?"
_TASK_LIMIT = 90.0
_DONE = frozenset({TaskState.SUCCEEDED, TaskState.SUCCEEDED_WITH_REST_FALLBACK})


@dataclass(slots=True)
class Told:
    """One task of the story, as `--json` prints it."""

    task_id: str
    state: str = ""
    thread_id: str | None = None
    turn_id: str | None = None
    comment_id: int | None = None
    commit: str | None = None
    seconds: float = 0
    problems: list[str] = field(default_factory=list)

    @property
    def verified(self) -> bool:
        return self.state == TaskState.SUCCEEDED and not self.problems

    def as_json(self) -> dict[str, Any]:
        return {
            "taskId": self.task_id,
            "state": self.state,
            "threadId": self.thread_id,
            "turnId": self.turn_id,
            "commentId": self.comment_id,
            "commit": self.commit,
            "seconds": round(self.seconds, 2),
        }


async def tell(scene: Scene, console: Console) -> list[Told]:
    """Plays the story; each Told lists what could not be verified."""
    await scene.seed()
    client = await Client.connect(scene.stack.temporal_address, data_converter=pydantic_data_converter)
    first = await _task(scene, client, console, FIRST)
    if first.commit is None or await scene.branch("ccweb/issue-1") != first.commit:
        first.problems.append("the fix is not on the branch ccweb/issue-1")
    second = await _task(scene, client, console, SECOND)
    if second.thread_id != first.thread_id:
        second.problems.append("the follow-up did not continue the same thread")
    await _discussion(scene, console)
    for one in (first, second):
        for problem in one.problems:
            console.print(f"[red]{one.task_id}: {problem}[/]")
    return [first, second]


async def _task(scene: Scene, client: Client, console: Console, text: str) -> Told:
    """A person comments; follows the task until its end and verifies the answer in Gitea."""
    began = time.monotonic()
    comment = await scene.comment(text)
    console.print(f"\n[bold]alice[/] comments on {FULL_NAME} issue 1: [cyan]{escape(text)}[/]")
    delivery = await until(lambda: scene.delivery_of(comment), 20, "Gitea's delivery")
    task_id = ids.task_id(ids.delivery_key(delivery["id"]))
    console.print(f"  webhook    delivery {delivery['id']} -> [green]{delivery['status']}[/] {task_id}")
    told = Told(task_id)
    handle = client.get_workflow_handle(task_id)
    await asyncio.wait_for(_follow(handle, console, told, scene.stack.log("worker")), _TASK_LIMIT)
    told.seconds = time.monotonic() - began
    await _verify(scene, console, told)
    return told


async def _follow(handle: WorkflowHandle[Any, Any], console: Console, told: Told, worker_log: Path) -> None:
    """Prints each step of the task as it enters Temporal's history."""
    await until(lambda: _exists(handle), 20, f"the task {told.task_id}")
    scheduled: dict[int, str] = {}
    async for event in handle.fetch_history_events(wait_new_event=True):
        match event.event_type:
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                scheduled[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                done = event.activity_task_completed_event_attributes
                payloads = await pydantic_data_converter.decode(done.result.payloads)
                if scheduled[done.scheduled_event_id] == "run_turn":
                    _commands(console, worker_log, told.task_id)
                _step(console, scheduled[done.scheduled_event_id], payloads[0] if payloads else None, told)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
                failed = event.activity_task_failed_event_attributes
                console.print(f"  [red]{scheduled[failed.scheduled_event_id]}[/] {escape(failed.failure.message)}")
    told.state = str((await handle.describe()).search_attributes["CcwebState"][0])


async def _exists(handle: WorkflowHandle[Any, Any]) -> bool:
    try:
        await handle.describe()
    except RPCError:
        return False
    return True


def _commands(console: Console, worker_log: Path, task_id: str) -> None:
    """The commands that the agent really ran, from the worker's log."""
    for line in worker_log.read_text(encoding="utf-8").splitlines():
        if '"command finished"' in line and task_id in line:
            said = json.loads(line)
            console.print(f"    [dim]exit {said['exitCode']}[/]   {escape(said['command'])}")


def _step(console: Console, activity: str, result: Any, told: Told) -> None:
    match activity:
        case "admit":
            console.print(f"  admitted   {result['state']}")
        case "post_receipt":
            console.print(f"  receipt    comment {result['comment_id']}")
        case "prepare_workspace":
            console.print(f"  workspace  {result['path']} on {result['branch']} at {result['head'][:10]}")
        case "run_turn":
            told.thread_id, told.turn_id = result["thread_id"], result["turn_id"]
            console.print(f"  Codex turn {result['turn_id']} {result['status']}")
            for call in result["tools"]:
                what = (
                    call["commit"] or (call["comment_id"] and f"comment {call['comment_id']}") or call["error_code"]
                )
                console.print(f"    tool     {call['tool']} -> {what}")
        case "settle_workspace":
            told.commit = result["published"]
            console.print(f"  settled    {f'published {told.commit[:10]}' if told.commit else 'nothing to publish'}")
        case "verify_reply":
            told.comment_id = result["comment_id"]
            console.print(f"  read back  {result['found']}, comment {result['comment_id']} is in Gitea")
        case _:
            console.print(f"  {activity:10} {result}")


async def _verify(scene: Scene, console: Console, told: Told) -> None:
    """Looks in Gitea itself: exactly one receipt and one answer."""
    receipts, answers = await scene.receipts(told.task_id), await scene.answers(told.task_id)
    if len(receipts) != 1 or len(answers) != 1:
        told.problems.append(f"{len(receipts)} receipts and {len(answers)} answers in Gitea instead of one each")
    if told.verified:
        console.print(f"  [green]{told.state}[/] after {told.seconds:.1f} s: one receipt, one verified answer")
    else:
        console.print(f"  [red]{told.state}[/] after {told.seconds:.1f} s")


async def _discussion(scene: Scene, console: Console) -> None:
    console.print("\n[bold]The discussion as it stands in Gitea[/]")
    for comment in await scene.comments():
        console.print(f"  [bold]{comment['user']['login']}[/] (comment {comment['id']})")
        for line in marker.strip(comment["body"]).splitlines():
            console.print(f"    {escape(line)}")


def look_around(stack: Stack, first: Told, console: Console) -> None:
    """Where to look while everything is up."""
    console.print(f"\n[bold]The discussion[/]       {stack.gitea_url}/{FULL_NAME}/issues/1")
    console.print(f"[bold]Temporal Web UI[/]      http://127.0.0.1:{stack.ports.temporal_ui}")
    console.print("[bold]The temporal CLI[/]     in another terminal:")
    for command in (
        "workflow list",
        f"workflow show -w {first.task_id}",
        f"workflow describe -w session/{ids.resource_key(ids.repo_key(*FULL_NAME.split('/')), 'issue', 1)}",
        "workflow list -q 'CcwebState=\"succeeded\"'",
    ):
        console.print(f"  ./run temporal --address {stack.temporal_address} {command}")
