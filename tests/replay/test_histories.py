"""Recorded runs of each scenario replay on today's code: a change that breaks running sessions cannot land."""

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from tests.replay.record import HISTORIES, SCENARIOS
from workflows.agent_task import AgentTask
from workflows.control import Control
from workflows.repository import Repository
from workflows.session import Session


def recorded() -> list[Path]:
    return sorted(HISTORIES.glob("*.json"))


async def test_every_recorded_history_replays() -> None:
    replayer = Replayer(workflows=[Session, AgentTask, Repository, Control], data_converter=pydantic_data_converter)
    for path in recorded():
        history = WorkflowHistory.from_json(path.stem, path.read_text(encoding="utf-8"))
        result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        assert result.replay_failure is None, path.name


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in SCENARIOS])
def test_every_scenario_is_recorded(scenario: str) -> None:
    assert any(path.name.startswith(f"{scenario}.AgentTask.") for path in recorded())
