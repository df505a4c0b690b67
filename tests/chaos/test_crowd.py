"""Many real turns at once while an operator intervenes: probes inside the workspaces see one writer at a time."""

import asyncio
import dataclasses
import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from demo.scene import OWNER, Scene, until
from demo.stack import BOT
from domain import ids
from tests import harness
from tests.harness import running_scene

REPOSITORIES, ISSUES = 3, 4
# Signs of life of a command, in the one folder outside the worktree that it may write to; it ends when it may.
PROBE = (
    'i=0; while [ $i -lt 10 ] || [ ! -e "$TMPDIR/../go" ]; do echo "$$ $(date +%s%N)" >> "$TMPDIR/probe"; '
    "i=$((i+1)); sleep 0.1; done"
)
STEPS: list[dict[str, Any]] = [
    {"exec": PROBE},
    {"mcp": "reply", "arguments": {"body": "I was alone."}},
    {"say": "Done."},
]


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_real_turns_never_overlap_in_a_repository_whatever_an_operator_does(state_dir: Path) -> None:
    async with running_scene(state_dir) as scene:
        await harness.play(scene, probe=STEPS)
        places = [dataclasses.replace(scene, repo=f"crowd-{n}") for n in range(REPOSITORIES)]
        numbers = [await place.seed() for place in places]
        asked = [(place, number, await ask(place, number)) for number in issues() for place in places]
        await until(lambda: works(scene, places), 60, "a command in each repository")
        tasks = {comment: await harness.task_of_comment(place, comment) for place, _, comment in asked}
        await operate(scene, numbers, [tasks[comment] for _, _, comment in asked[:REPOSITORIES]])
        for place in places:
            (root_of(scene, place) / "tmp" / "go").touch()
        client = await harness.temporal(scene)
        for task in tasks.values():
            await harness.closed(client.get_workflow_handle(task), 240)

        spans = await asyncio.to_thread(read_spans, scene, places)
        assert sum(len(found) for found in spans.values()) >= len(asked) - 1
        assert [pair for found in spans.values() for pair in overlapping(found)] == []
        for place, number, comment in asked[REPOSITORIES:]:
            await harness.assert_one_receipt_and_one_answer(place, comment, number)


def issues() -> range:
    return range(1, ISSUES + 1)


async def ask(place: Scene, number: int) -> int:
    if number > 1:
        await place.api("POST", f"/repos/{place.full_name}/issues", json={"title": f"Issue {number}"})
    return await place.comment(f"@{BOT} [[script:probe]]", number)


async def works(scene: Scene, places: list[Scene]) -> bool:
    return all(probes(scene, place) for place in places)


async def operate(scene: Scene, repositories: list[int], holders: list[str]) -> None:
    """Terminates the first holder, aborts the second, ends the workflow of the third's repository."""
    client = await harness.temporal(scene)
    terminated, aborted, _ = holders
    await client.get_workflow_handle(terminated).terminate(reason="by a test")
    await client.get_workflow_handle(aborted).signal("abort", "by a test")
    repository = client.get_workflow_handle(ids.repository_workflow_id(repositories[2]))
    assert (await repository.describe()).status is WorkflowExecutionStatus.RUNNING
    await repository.terminate(reason="by a test")


def root_of(scene: Scene, place: Scene) -> Path:
    return scene.stack.state_dir / "workspaces" / "default" / OWNER / place.repo


def probes(scene: Scene, place: Scene) -> list[Path]:
    return list(root_of(scene, place).glob("tmp/*/probe"))


def read_spans(scene: Scene, places: list[Scene]) -> dict[str, list[tuple[int, int]]]:
    """From the first to the last sign of life of each command, in nanoseconds, by repository."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for place in places:
        moments: dict[tuple[Path, str], list[int]] = defaultdict(list)
        for path in probes(scene, place):
            for line in path.read_text(encoding="utf-8").splitlines():
                pid, moment = line.split()
                moments[path, pid].append(int(moment))
        spans[place.repo] = sorted((min(found), max(found)) for found in moments.values())
    return spans


def overlapping(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that began before an earlier one had ended."""
    return [later for earlier, later in itertools.pairwise(spans) if later[0] < earlier[1]]
