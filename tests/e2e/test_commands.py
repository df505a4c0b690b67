"""Commands in comments and budgets through the whole system, with a real Codex turn."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from demo.scene import Scene, until
from demo.stack import BOT
from tests.conftest import scratch_dir
from tests.harness import (
    assert_one_receipt_and_one_answer,
    finished,
    play,
    release,
    running_scene,
    state_of,
    task_of_comment,
    temporal,
    until_asked,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
_ANSWER: list[dict[str, Any]] = [{"mcp": "reply", "arguments": {"body": "Done as you said."}}, {"say": "Done."}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    with scratch_dir() as directory:
        async with running_scene(directory, CCWEB_TASK_TOKENS="600", CCWEB_PRICE_INPUT="1000") as scene:
            yield scene


async def _obeyed(scene: Scene, command: int) -> None:
    async def reacted() -> bool:
        return (BOT, "+1") in await scene.reactions(command)

    await until(reacted, 20, "the reaction to the command")


async def _said(scene: Scene, text: str) -> list[str]:
    return [one["body"] for one in await scene.comments() if text in one["body"] and one["user"]["login"] == BOT]


async def test_a_running_turn_hears_what_is_steered_and_still_answers_once(scene: Scene) -> None:
    await play(scene, steered=[{"exec": "true"}, {"gate": "steer", "exec": "true"}, *_ANSWER])
    comment = await scene.comment(f"@{BOT} [[script:steered]]")
    await until_asked(scene, "steered", 1)
    steer = await scene.comment(f"@{BOT} /steer mind the café")
    await _obeyed(scene, steer)
    await release(scene, "steer")

    assert await finished(scene, comment) == "succeeded"
    await assert_one_receipt_and_one_answer(scene, comment)
    asked = (await scene.http.get(f"{scene.stack.model_url}/_sim/requests?bodies=1")).json()
    heard = [one for one in asked if "mind the café" in str(one)]
    assert heard and {one["turnId"] for one in heard} == {
        one["turnId"] for one in asked if one["script"] == "steered"
    }


async def test_a_turn_that_uses_up_its_budget_is_interrupted_asks_once_and_goes_on(scene: Scene) -> None:
    await play(scene, greedy=[{"exec": "true"}] * 6 + _ANSWER)
    comment = await scene.comment(f"@{BOT} [[script:greedy]]")
    task, client = await task_of_comment(scene, comment), await temporal(scene)

    async def waits() -> bool:
        return await state_of(client, task) == "waiting_user"

    await until(waits, 60, "the task to ask for budget")
    (question,) = await scene.answers(task)
    assert f"@{BOT} /budget" in question["body"] and "kind=question" in question["body"]
    await _obeyed(scene, await scene.comment(f"@{BOT} /budget 50"))
    assert await finished(scene, comment) == "succeeded"
    assert len(await scene.receipts(task)) == 1
    assert len(await scene.answers(task)) == 2


async def test_help_and_status_are_answered_in_words(scene: Scene) -> None:
    await _obeyed(scene, await scene.comment(f"@{BOT} /help"))
    await _obeyed(scene, await scene.comment(f"@{BOT} /status"))
    assert len(await _said(scene, f"`@{BOT} /steer")) == 1
    assert len(await _said(scene, "tokens")) >= 1
