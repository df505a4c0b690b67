"""How long a turn is alone when its worker is killed: until the next worker holds it again."""

import asyncio
import time
from pathlib import Path

import httpx
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from bench.row import Row
from demo.scene import Scene, until
from demo.stack import BOT, Ports, Stack
from domain import ids

HEARTBEAT = 5
"""Shorter than the default of 30, so that the measurement does not take half a minute."""
_KILLS = 3
_LIMIT = 90.0
_SCRIPT = [
    {"exec": "echo one"},
    {"exec": "echo two", "gate": "held"},
    {"mcp": "reply", "arguments": {"body": "Done."}},
]


async def rows(directory: Path) -> list[Row]:
    """The worker is killed with SIGKILL in the middle of one turn, several times, and started again at once."""
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
    model = scene.stack.model_url
    (await scene.http.post(f"{model}/_sim/scripts", json={"held": _SCRIPT})).raise_for_status()
    comment = await scene.comment(f"@{BOT} [[script:held]]")
    delivery = await until(lambda: scene.delivery_of(comment), _LIMIT, "the delivery")
    handle = client.get_workflow_handle(ids.task_id(ids.delivery_key(delivery["id"])))
    await until(lambda: _asked(scene, 1), _LIMIT, "the second step")
    waits = [await _killed(scene, client, handle.id, attempt) for attempt in range(2, 2 + _KILLS)]
    (await scene.http.post(f"{model}/_sim/release/held")).raise_for_status()
    await asyncio.wait_for(handle.result(), _LIMIT)
    asked = await _steps(scene)
    if asked != [0, 1, 2]:
        raise RuntimeError(f"steps ran again: {asked}")
    detail = f"{_KILLS} kills, heartbeat timeout {HEARTBEAT} s, each step ran once"
    return Row("worker killed in mid-turn to attached again", max(waits), HEARTBEAT + 3, "s", detail)


async def _killed(scene: Scene, client: Client, task_id: str, attempt: int) -> float:
    """Seconds from the kill until the turn's activity beats in its next attempt."""
    began = time.monotonic()
    await scene.stack.kill("worker")
    await scene.stack.start("worker")

    async def attached() -> bool:
        pending = (await client.get_workflow_handle(task_id).describe()).raw_description.pending_activities
        return any(
            one.attempt >= attempt
            and one.last_heartbeat_time.ToNanoseconds() > one.last_started_time.ToNanoseconds() > 0
            for one in pending
            if one.activity_type.name == "run_turn"
        )

    await until(attached, _LIMIT, "the next attempt")
    return time.monotonic() - began


async def _steps(scene: Scene) -> list[int]:
    answer = await scene.http.get(f"{scene.stack.model_url}/_sim/requests")
    return [one["step"] for one in answer.json() if one["script"] == "held"]


async def _asked(scene: Scene, step: int) -> bool:
    return step in await _steps(scene)
