"""A running stack and its scene, for the end-to-end and chaos tests."""

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from demo.scene import Scene, until
from demo.stack import Ports, Stack
from domain import ids, marker
from domain.states import FINAL

ACCEPTED = 202
# Short times: the tests wait for conditions, so these only bound how long a fault stays unnoticed.
QUICK = {
    "CCWEB_HEARTBEAT_TIMEOUT": "3",
    "CCWEB_STOP_BUDGET": "5",
    "CCWEB_RETRY_DELAY": "0.5",
    "CCWEB_REQUEST_BACKOFF": "2",
    "CCWEB_READ_BACK_BUDGET": "5",
    "CCWEB_PROBE_INTERVAL": "1",
    "CCWEB_SILENCE_TIMEOUT": "30",
    "CCWEB_RPC_TIMEOUT": "10",
}


@contextlib.asynccontextmanager
async def running_scene(directory: Path, **settings: str) -> AsyncIterator[Scene]:
    """A whole stack with the demo repository; all its processes end with it."""
    stack = Stack(directory, Ports.any(), settings=QUICK | settings)
    try:
        await stack.start_anywhere()
        # No connection is kept: its server may close it in the moment it is used again.
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(timeout=20, limits=limits) as http:
            scene = Scene(stack, http)
            await scene.seed()
            yield scene
    finally:
        await stack.stop()


async def temporal(scene: Scene) -> Client:
    return await Client.connect(scene.stack.temporal_address, data_converter=pydantic_data_converter)


async def task_of_comment(scene: Scene, comment_id: int) -> str:
    """The taskId of the (only) delivery of a comment, once Gitea shows its 202."""
    return ids.task_id(ids.delivery_key(await delivery_of_comment(scene, comment_id)))


async def delivery_of_comment(scene: Scene, comment_id: int) -> str:
    """The id of the (only) delivery of a comment, once Gitea shows its 202."""

    async def found() -> str | None:
        for delivery in await deliveries(scene):
            body = json.loads(delivery["body"])
            ours = body.get("action") == "created" and body.get("comment", {}).get("id") == comment_id
            if ours and delivery["status"] == ACCEPTED:
                return str(delivery["id"])
        return None

    return await until(found, 20, f"the delivery of comment {comment_id}")


async def deliveries(scene: Scene) -> list[dict[str, Any]]:
    answer = await scene.http.get(f"{scene.stack.gitea_url}/_sim/deliveries")
    found: list[dict[str, Any]] = answer.json()
    return found


async def closed(handle: WorkflowHandle[Any, Any], limit: float = 60) -> WorkflowExecutionStatus:
    """Waits until a workflow exists and is closed; returns its status."""

    async def status() -> WorkflowExecutionStatus | None:
        with contextlib.suppress(RPCError):
            found = (await handle.describe()).status
            return found if found != WorkflowExecutionStatus.RUNNING else None
        return None

    return await until(status, limit, f"{handle.id} to close")


async def state_of(client: Client, task_id: str) -> str:
    """The last CcwebState of a task; empty while the session has not started it."""
    try:
        description = await client.get_workflow_handle(task_id).describe()
    except RPCError:
        return ""
    return str(description.search_attributes["CcwebState"][0])


async def until_held_again(scene: Scene, comment_id: int) -> None:
    """Waits until another attempt of the turn's activity is at work: the next worker has the turn."""
    handle = (await temporal(scene)).get_workflow_handle(await task_of_comment(scene, comment_id))

    async def held() -> bool:
        pending = (await handle.describe()).raw_description.pending_activities
        return any(
            one.attempt > 1 and one.last_heartbeat_time.ToNanoseconds() > one.last_started_time.ToNanoseconds() > 0
            for one in pending
            if one.activity_type.name == "run_turn"
        )

    await until(held, 60, "the next attempt of the turn")


async def finished(scene: Scene, comment_id: int, limit: float = 60) -> str:
    """Waits for the task of a comment to end; returns its final state."""
    task_id = await task_of_comment(scene, comment_id)
    client = await temporal(scene)
    await closed(client.get_workflow_handle(task_id), limit)
    state = await state_of(client, task_id)
    assert state in FINAL
    return state


async def while_the_worker_is_away(
    scene: Scene, text: str, change: Callable[[int], Awaitable[Any]], number: int = 1
) -> tuple[str, str]:
    """A request by comment, then `change` (given the comment's id), then a worker; taskId and final state."""
    await scene.stack.kill("worker")
    comment = await scene.comment(text, number)
    task = await task_of_comment(scene, comment)
    await change(comment)
    await scene.stack.start("worker")
    client = await temporal(scene)
    await closed(client.get_workflow_handle(task))
    return task, await state_of(client, task)


async def assert_one_receipt_and_one_answer(scene: Scene, comment_id: int, number: int = 1) -> marker.ReplyMarker:
    """The promise of ccweb; returns the answer's marker."""
    task_id = await task_of_comment(scene, comment_id)
    receipts = await scene.receipts(task_id, number)
    assert len(receipts) == 1, f"{len(receipts)} receipts"
    answers = await scene.answers(task_id, number)
    assert len(answers) == 1, f"{len(answers)} answers"
    (answer,) = answers
    found = marker.parse(answer["body"])
    assert isinstance(found, marker.ReplyMarker)
    return found


async def play(scene: Scene, **scripts: list[dict[str, Any]]) -> None:
    """Gives the scripted model more scripts."""
    (await scene.http.post(f"{scene.stack.model_url}/_sim/scripts", json=scripts)).raise_for_status()


async def release(scene: Scene, gate: str) -> None:
    (await scene.http.post(f"{scene.stack.model_url}/_sim/release/{gate}")).raise_for_status()


async def steps_asked(scene: Scene, script: str) -> list[int]:
    """The steps of a script that the model was asked for, in order; one request each unless something reran."""
    answer = await scene.http.get(f"{scene.stack.model_url}/_sim/requests")
    return [one["step"] for one in answer.json() if one["script"] == script]


async def turns_asked(scene: Scene, script: str) -> set[str]:
    answer = await scene.http.get(f"{scene.stack.model_url}/_sim/requests")
    return {one["turnId"] for one in answer.json() if one["script"] == script}


async def until_asked(scene: Scene, script: str, step: int) -> None:
    """Waits until the model was asked for this step: the turn is right there."""

    async def asked() -> bool:
        return step in await steps_asked(scene, script)

    await until(asked, 40, f"step {step} of {script}")


async def fault(scene: Scene, **fault: Any) -> None:
    (await scene.http.post(f"{scene.stack.gitea_url}/_sim/faults", json=fault)).raise_for_status()


def app_server_pids(scene: Scene) -> list[int]:
    """Every app-server that the sidecar started, oldest first."""
    lines = scene.stack.log("sidecar").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["pid"] for line in lines if '"app-server started"' in line]
