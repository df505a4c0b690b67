"""The real Temporal dev server, once per run, and a worker with fake activities per test."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from domain import search_attributes
from tests.workflows.world import World, run_world

DYNAMIC_CONFIG = [
    # Sessions and repositories roll over after a few tasks, so that every test that runs more meets it.
    "limit.historyCount.suggestContinueAsNew=40",
    # By default a shard reads its queues 20 times a second: 50 ms for each step of a workflow.
    "history.transferProcessorMaxPollRPS=1000",
    "history.timerProcessorMaxPollRPS=1000",
]
TEMPORAL = Path(sys.executable).parent / "temporal"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_serving(address: str) -> None:
    """An open port is not enough: the frontend first says that it is not healthy yet."""
    count = [str(TEMPORAL), "workflow", "count", "--address", address, "--query", 'CcwebState="none"']
    deadline = time.monotonic() + 30
    while subprocess.run(count, capture_output=True, check=False, timeout=30).returncode != 0:
        assert time.monotonic() < deadline, "the dev server did not start"
        time.sleep(0.05)


@contextlib.contextmanager
def dev_server() -> Iterator[str]:
    """The real dev server, in memory; yields its address."""
    port = free_port()
    attributes = [f"--search-attribute={name}={kind}" for name, kind in search_attributes.TYPES.items()]
    config = [f"--dynamic-config-value={value}" for value in DYNAMIC_CONFIG]
    command = [str(TEMPORAL), "server", "start-dev", "--ip=127.0.0.1", f"--port={port}", "--headless"]
    server = subprocess.Popen([*command, "--log-level=error", *config, *attributes])
    try:
        wait_until_serving(f"127.0.0.1:{port}")
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture(scope="session")
def temporal_address() -> Iterator[str]:
    with dev_server() as address:
        yield address


@pytest.fixture
async def client(temporal_address: str) -> Client:
    return await Client.connect(temporal_address, data_converter=pydantic_data_converter)


@pytest.fixture
async def world(client: Client) -> AsyncIterator[World]:
    async with run_world(client) as ready:
        yield ready
