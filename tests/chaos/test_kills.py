"""SIGKILL at the worst moments: each ends with one receipt and one verified answer."""

import os
import signal
from pathlib import Path
from typing import Any

from demo.scene import Scene, until
from demo.stack import BOT
from tests.harness import (
    app_server_pids,
    assert_one_receipt_and_one_answer,
    finished,
    play,
    release,
    running_scene,
    steps_asked,
    task_of_comment,
    turns_asked,
    until_asked,
    until_held_again,
)

HELD: list[dict[str, Any]] = [
    {"exec": "echo one >> steps.txt"},
    {"exec": "echo two >> steps.txt", "gate": "held"},
    {"mcp": "reply", "arguments": {"body": "Both steps are done."}},
    {"say": "Done."},
]


async def held_turn(scene: Scene) -> int:
    """A comment whose turn is in its middle: the first command ran, the second waits."""
    await play(scene, held=HELD)
    comment = await scene.comment(f"@{BOT} [[script:held]]")
    await until_asked(scene, "held", 1)
    return comment


async def test_a_worker_killed_in_mid_turn_attaches_to_the_same_turn(state_dir: Path) -> None:
    async with running_scene(state_dir) as scene:
        comment = await held_turn(scene)
        await scene.stack.kill("worker")
        await scene.stack.start("worker")
        await until_held_again(scene, comment)
        await release(scene, "held")
        assert await finished(scene, comment) == "succeeded"
        answer = await assert_one_receipt_and_one_answer(scene, comment)
        assert await turns_asked(scene, "held") == {answer.turn_id}
        assert await steps_asked(scene, "held") == [0, 1, 2, 3]
        assert len(app_server_pids(scene)) == 1


async def test_an_app_server_killed_twice_in_mid_turn_is_continued_once(state_dir: Path) -> None:
    async with running_scene(state_dir) as scene:
        comment = await held_turn(scene)
        os.kill(app_server_pids(scene)[-1], signal.SIGKILL)

        async def again() -> bool:
            return len(app_server_pids(scene)) == 2

        await until(again, 20, "the sidecar to start the app-server again")
        os.kill(app_server_pids(scene)[-1], signal.SIGKILL)
        await release(scene, "held")
        assert await finished(scene, comment, 90) == "succeeded"
        await assert_one_receipt_and_one_answer(scene, comment)
        assert len(app_server_pids(scene)) == 3


async def test_an_app_server_killed_right_after_the_comment_posts_no_second_one(state_dir: Path) -> None:
    async with running_scene(state_dir) as scene:
        posted: list[dict[str, Any]] = [
            {"mcp": "reply", "arguments": {"body": "Posted once."}},
            {"say": "Done.", "gate": "posted"},
        ]
        await play(scene, posted=posted)
        comment = await scene.comment(f"@{BOT} [[script:posted]]")
        await until_asked(scene, "posted", 1)
        os.kill(app_server_pids(scene)[-1], signal.SIGKILL)
        await release(scene, "posted")
        assert await finished(scene, comment, 90) == "succeeded"
        await assert_one_receipt_and_one_answer(scene, comment)


async def test_a_sidecar_killed_in_mid_turn_leaves_the_turn_to_its_successor(state_dir: Path) -> None:
    async with running_scene(state_dir) as scene:
        comment = await held_turn(scene)
        await scene.stack.kill("sidecar")
        await scene.stack.start("sidecar")
        await release(scene, "held")
        assert await finished(scene, comment) == "succeeded"
        answer = await assert_one_receipt_and_one_answer(scene, comment)
        assert await turns_asked(scene, "held") == {answer.turn_id}
        assert len(app_server_pids(scene)) == 1


async def test_a_temporal_server_killed_in_mid_turn_loses_nothing(state_dir: Path) -> None:
    async with running_scene(state_dir) as scene:
        comment = await held_turn(scene)
        await scene.stack.kill("temporal")
        await release(scene, "held")
        await scene.stack.start("temporal")
        assert await finished(scene, comment, 90) == "succeeded"
        await assert_one_receipt_and_one_answer(scene, comment)


async def test_an_ingress_killed_after_its_202_loses_nothing(state_dir: Path) -> None:
    async with running_scene(state_dir) as scene:
        await scene.stack.stop("worker")
        comment = await scene.comment(f"@{BOT} [[script:reply-only]]")
        await task_of_comment(scene, comment)
        await scene.stack.kill("ingress")
        await scene.stack.start("ingress", "worker")
        assert await finished(scene, comment) == "succeeded"
        await assert_one_receipt_and_one_answer(scene, comment)
