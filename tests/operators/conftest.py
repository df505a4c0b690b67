"""The real dev server, once per file; a world of fake activities and the API before it, per test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter

from domain import ids
from tests.operators.harness import Apis, operator_apis
from tests.workflows.conftest import dev_server
from tests.workflows.world import World, run_world


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with dev_server() as started:
        yield started


@pytest.fixture
async def client(address: str) -> Client:
    return await Client.connect(address, data_converter=pydantic_data_converter)


@pytest.fixture
async def world(client: Client) -> AsyncIterator[World]:
    async with run_world(client) as ready:
        yield ready


@pytest.fixture
async def api(client: Client, state_dir: Path) -> AsyncIterator[Apis]:
    async with operator_apis(state_dir, client) as ready:
        yield ready


@pytest.fixture
async def control(client: Client, world: World) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    handle = await client.start_workflow("Control", id=ids.CONTROL_WORKFLOW_ID, task_queue=world.queue)
    yield handle
    await handle.terminate()
