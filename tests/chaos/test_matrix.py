"""A chosen part of the chaos matrix; `./run chaos` plays it whole."""

import sys
from pathlib import Path

import pytest

from tests.chaos import cell
from tests.harness import running_scene

CHOSEN = (
    ("signal_stored", "temporal"),
    ("thread_started", "bridge"),
    ("command_running", "app-server"),
    ("publish", "bridge"),
    ("answer_lost", "gitea-mcp"),
)


@pytest.mark.timeout(300)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
async def test_a_chosen_part_of_the_matrix_holds(state_dir: Path) -> None:
    async with running_scene(state_dir) as scene:
        outcomes = [await cell.play(scene, step, victim, n) for n, (step, victim) in enumerate(CHOSEN)]
    assert [found for found in outcomes if not found.ok] == []
