"""How long a turn is alone when its worker is killed: until the next worker holds it again."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter

from bench.row import Row
from demo.scene import Scene, until
from demo.stack import BOT, Ports, Stack
from domain import ids

HEARTBEAT = 5
"""Shorter than the default of 30, so that the measurement does not take half a minute."""
_TURNS = 3
_LIMIT = 90.0


async def rows(directory: Path) -> list[Row]:
    """The worker is killed with SIGKILL in the middle of a turn, and started again at once; several times."""
    stack = Stack(directory, Ports.any(), settings={"CCWEB_HEARTBEAT_TIMEOUT": str(HEARTBEAT)})
    try:
        await stack.start_anywhere()
        async with httpx.AsyncClient(timeout=20) as http:
            scene = Scene(stack, http)
            await scene.seed()
            client = await Client.connect(stack.temporal_address, data_converter=pydantic_data_converter)
            return [await _measure(scene, client)]
    finally:
        await stack.stop()


async def _measure(scene: Scene, client: Client) -> Row:
    waits = [await _turn(scene, client, f"held-{number}") for number in range(_TURNS)]
    detail = f"worst of {_TURNS} turns, heartbeat timeout {HEARTBEAT} s, each step ran once"
    return Row("worker killed in mid-turn to attached again", max(waits), HEARTBEAT + 3, "s", detail)


async def _turn(scene: Scene, client: Client, script: str) -> float:
    """Kills the worker in the middle of a turn, and lets the turn end after the next worker has it.

    Raises:
        RuntimeError: a step of the turn ran twice.
    """
    model = scene.stack.model_url
    steps = [
        {"exec": "echo one"},
        {"exec": "echo two", "gate": script},
        {"mcp": "reply", "arguments": {"body": "Done."}},
    ]
    (await scene.http.post(f"{model}/_sim/scripts", json={script: steps})).raise_for_status()
    comment = await scene.comment(f"@{BOT} [[script:{script}]]")
    delivery = await until(lambda: scene.delivery_of(comment), _LIMIT, "the delivery")
    handle = client.get_workflow_handle(ids.task_id(ids.delivery_key(delivery["id"])))
    await until(lambda: _asked(scene, script, 1), _LIMIT, "the second step")
    waited = await _killed(scene, handle)
    (await scene.http.post(f"{model}/_sim/release/{script}")).raise_for_status()
    await asyncio.wait_for(handle.result(), _LIMIT)
    asked = await _steps(scene, script)
    if asked != sorted(set(asked)):
        raise RuntimeError(f"steps ran again: {asked}")
    return waited


async def _killed(scene: Scene, task: WorkflowHandle[Any, Any]) -> float:
    """Seconds from the kill until the turn's activity beats in its next attempt."""
    began = time.monotonic()
    await scene.stack.kill("worker")
    await scene.stack.start("worker")

    async def attached() -> bool:
        pending = (await task.describe()).raw_description.pending_activities
        return any(
            one.attempt > 1 and one.last_heartbeat_time.ToNanoseconds() > one.last_started_time.ToNanoseconds() > 0
            for one in pending
            if one.activity_type.name == "run_turn"
        )

    await until(attached, _LIMIT, "the next attempt")
    return time.monotonic() - began


async def _steps(scene: Scene, script: str) -> list[int]:
    answer = await scene.http.get(f"{scene.stack.model_url}/_sim/requests")
    return [one["step"] for one in answer.json() if one["script"] == script]


async def _asked(scene: Scene, script: str, step: int) -> bool:
    return step in await _steps(scene, script)
