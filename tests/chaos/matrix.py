"""The whole matrix: steps side by side, each with a stack of its own."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from tests.chaos import cell
from tests.chaos.cell import Outcome
from tests.conftest import scratch_dir
from tests.harness import running_scene

Tell = Callable[[Outcome], None]


async def run(steps: Sequence[str], victims: Sequence[str], side_by_side: int, tell: Tell) -> list[Outcome]:
    """All cells of the named steps and victims, in this order."""
    slots = asyncio.Semaphore(side_by_side)

    async def one(step: str) -> list[Outcome]:
        async with slots:
            return await _row(step, victims, tell)

    rows = await asyncio.gather(*(one(step) for step in steps))
    return [outcome for row in rows for outcome in row]


async def _row(step: str, victims: Sequence[str], tell: Tell) -> list[Outcome]:
    found = []
    with scratch_dir() as directory:
        async with running_scene(directory) as scene:
            for number, victim in enumerate(_there(step, victims)):
                found.append(await cell.play(scene, step, victim, number))
                tell(found[-1])
    return found


def _there(step: str, victims: Sequence[str]) -> Iterator[str]:
    return (victim for victim in victims if cell.has(step, victim))
