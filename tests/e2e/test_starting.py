"""What happens around the start: taken ports, others beside us, signals before everything is up."""

import asyncio
import json
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import embedded
import ports
from demo.stack import Ports, Stack
from embedded import StartError
from tests.e2e.starting import LIMIT, command, processes_of


async def test_a_port_held_by_a_stranger_is_told_and_never_taken_for_ours(state_dir: Path) -> None:
    with ports.listen(ports.LOOPBACK, 0) as stranger:
        taken = stranger.getsockname()[1]
        stack = Stack(state_dir, replace(Ports.any(), gitea=taken, temporal=taken, ingress=taken))
        for part in ("gitea", "temporal", "ingress"):
            with pytest.raises(ExceptionGroup) as caught:
                await stack.start(part)
            assert caught.group_contains(StartError, match=f"{part} did not start: .*{taken}")
        assert stack.running == {} and await processes_of(state_dir) == []


async def test_a_stack_moves_to_other_ports_when_one_was_taken_meanwhile(state_dir: Path) -> None:
    with ports.listen(ports.LOOPBACK, 0) as stranger:
        stack = Stack(state_dir, replace(Ports.any(), temporal_ui=stranger.getsockname()[1]))
        try:
            await stack.start_anywhere()
            assert stack.ports.temporal_ui != stranger.getsockname()[1]
        finally:
            await stack.stop()


async def test_two_demos_started_together_both_verify_all(state_dir: Path) -> None:
    async def demo() -> dict[str, Any]:
        async with command("-m", "demo", "--once", "--json", CCWEB_SCRATCH=str(state_dir)) as started:
            assert await started.ended() == 0, started.said
        assert "nothing to publish" in started.said and "None" not in started.said
        assert "./run temporal" not in started.said, "it ended, so nobody can look around any more"
        found: dict[str, Any] = json.loads(next(line for line in started.said.splitlines() if '"tasks"' in line))
        return found

    for told in await asyncio.gather(demo(), demo()):
        first, second = told["tasks"]
        assert told["ok"] and first["state"] == second["state"] == "succeeded"
        assert first["threadId"] == second["threadId"] and first["turnId"] != second["turnId"]
        assert len(first["commit"]) == 40
    assert list(state_dir.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "after"), [(signal.SIGINT, "Starting"), (signal.SIGTERM, "sidecar"), (signal.SIGHUP, "temporal")]
)
async def test_a_signal_while_the_demo_starts_leaves_nothing(
    state_dir: Path, number: signal.Signals, after: str
) -> None:
    async with command("-m", "demo", CCWEB_SCRATCH=str(state_dir)) as started:
        await started.until(after)
        assert await started.stop(number) == 128 + number, started.said
    assert list(state_dir.iterdir()) == [] and await processes_of(state_dir) == []
    assert "ccweb:" not in started.said and "logs" not in started.said


async def test_a_demo_whose_reader_went_away_leaves_no_process(state_dir: Path) -> None:
    """As `./run demo --once | head` does."""
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "demo", "--once", cwd=embedded.ROOT, stdout=writing, stderr=writing,
        env=embedded.python_env(CCWEB_SCRATCH=str(state_dir)),
    )  # fmt: skip
    os.close(writing)
    with os.fdopen(reading, "rb") as lines:
        assert await asyncio.to_thread(lambda: any(b"webhook" in line for line in lines))
    await asyncio.wait_for(process.wait(), LIMIT)
    assert await processes_of(state_dir) == []


def test_a_listening_port_is_not_free() -> None:
    with ports.listen(ports.LOOPBACK, 0) as listener:
        taken = listener.getsockname()[1]
        assert not ports.is_free(taken) and ports.free_port(taken) != taken
    assert ports.is_free(taken)


def test_answers_do_not_wait_for_nagle() -> None:
    with ports.listen(ports.LOOPBACK, 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
