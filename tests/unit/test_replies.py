"""Reading markers back, and the words of receipts."""

from dataclasses import dataclass, field
from typing import get_args

import pytest

from domain import replies
from domain.errors import ErrorCode
from domain.marker import ReceiptMarker, ReplyMarker, stamp
from domain.replies import Language
from domain.states import TaskState

TASK = "gitea-task-0000000000000001"


@dataclass(frozen=True)
class User:
    login: str = "ccweb-bot"


@dataclass(frozen=True)
class Comment:
    id: int
    body: str
    user: User = field(default_factory=User)


def answer(number: int, round_: int = 1, task: str = TASK, login: str = "ccweb-bot", turn: str = "t") -> Comment:
    return Comment(number, stamp("text", ReplyMarker("final", task, turn, round_, "1:comment:1")), User(login))


def test_the_answer_of_the_round_is_found_whichever_turn_posted_it() -> None:
    found = replies.find_reply([answer(1, round_=2), answer(2, turn="other")], "CCWEB-bot", TASK, 1)
    assert found is not None and found[0].id == 2


@pytest.mark.parametrize(
    "comment", [answer(1, login="mallory"), answer(1, round_=2), answer(1, task="gitea-task-0000000000000002")]
)
def test_other_authors_rounds_and_tasks_are_no_answer(comment: Comment) -> None:
    assert replies.find_reply([comment], "ccweb-bot", TASK, 1) is None


def test_receipts_are_found_by_their_key() -> None:
    receipt = Comment(7, stamp("x", ReceiptMarker(f"{TASK}:status:received", "1:comment:1")))
    assert replies.find_receipt([answer(1), receipt], "ccweb-bot", f"{TASK}:status:received") is receipt
    assert replies.find_receipt([receipt], "ccweb-bot", f"{TASK}:status:failed") is None


def test_sources_taken_are_read_from_receipts_and_answers_of_the_bot_only() -> None:
    receipt = Comment(7, stamp("x", ReceiptMarker(f"{TASK}:status:received", "1:comment:9")))
    forged = Comment(8, stamp("x", ReceiptMarker(f"{TASK}:status:received", "1:comment:10")), User("mallory"))
    assert replies.seen_sources([receipt, answer(1), forged], "ccweb-bot") == {
        "1:comment:9": TASK,
        "1:comment:1": TASK,
    }


@pytest.mark.parametrize("language", get_args(Language))
@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_failure_receipt_names_its_code_and_what_to_do(code: ErrorCode, language: Language) -> None:
    text = replies.receipt_text(TaskState.FAILED, code, "", language)
    assert f"`{code}`" in text and len(text.splitlines()[-1]) > 5


def test_the_start_receipt_is_the_agreed_sentence() -> None:
    assert replies.receipt_text(TaskState.QUEUED, None, "", "zh") == "giteabot: 已收到"
    assert replies.receipt_text(TaskState.QUEUED, None, "", "en") == "giteabot: received"
