"""Commands in comments: what counts as one, and what is said about it."""

from datetime import UTC, datetime

import pytest

from domain.commands import MAX_BUDGETS, CommandName, answer, parse
from domain.events import CommandAck, OpenTask, Spend
from domain.states import TaskState
from tests.workflows.fakes import event

N = CommandName


@pytest.mark.parametrize(
    ("text", "name", "rest"),
    [
        ("/stop", N.STOP, ""),
        (" /retry \n", N.RETRY, ""),
        ("/steer use tabs\nplease", N.STEER, "use tabs\nplease"),
        ("/budget 3", N.BUDGET, "3"),
        ("/steer", N.HELP, ""),
    ],
)
def test_the_first_word_after_the_mention_is_the_command(text: str, name: CommandName, rest: str) -> None:
    found = parse(text)
    assert found is not None
    assert (found.name, found.text) == (name, rest)


@pytest.mark.parametrize("text", ["", "stop", "please /stop", "/etc/hosts is wrong", "/stopping", "/STOP", "//stop"])
def test_everything_else_is_a_request(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "budgets"), [("", 1), ("2", 2), ("0", None), ("-1", None), ("many", None), ("9" * 30, None), ("²", None)]
)
def test_a_budget_is_a_small_whole_number(text: str, budgets: int | None) -> None:
    found = parse(f"/budget {text}")
    assert found is not None
    assert found.budgets == budgets
    assert budgets is None or budgets <= MAX_BUDGETS


def _ack(command: CommandName, **more: object) -> CommandAck:
    asked = event(1, object_id=1, received_at=datetime(2026, 11, 30, tzinfo=UTC))
    return CommandAck.model_validate({"event": asked, "command": command, "spent": Spend(tokens=7), **more})


def test_status_names_each_open_task_and_what_was_used() -> None:
    tasks = [OpenTask(task_id="gitea-task-1", state=TaskState.RUNNING, asked_by="alice")]
    said = answer(_ack(N.STATUS, tasks=tasks), "en", "ccweb-bot")
    assert "| `gitea-task-1` | `running` | alice |" in said
    assert "7 tokens" in said


def test_what_did_nothing_is_said_and_what_did_something_is_only_reacted_to() -> None:
    assert answer(_ack(N.STOP), "en", "ccweb-bot") == ""
    for command in (N.STOP, N.RETRY, N.BUDGET):
        assert answer(_ack(command, done=False), "zh", "ccweb-bot").startswith("giteabot: ")


def test_help_names_every_command() -> None:
    for language in ("en", "zh"):
        said = answer(_ack(N.HELP), language, "ccweb-bot")
        assert all(f"`@ccweb-bot /{name}" in said for name in N)
