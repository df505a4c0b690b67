"""What a session remembers of assignments and openings."""

from datetime import UTC, datetime, timedelta
from typing import Any

from domain.events import Recovered, TaskEvent
from domain.session_book import SessionBook
from tests.workflows.fakes import event

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def _assigned(object_id: int, **more: Any) -> TaskEvent:
    fields = {"source_kind": "assignment", "source_key": "1:assignment:7", "received_at": NOW, **more}
    return event(1, object_id=object_id).model_copy(update=fields)


def _opened(object_id: int, **more: Any) -> TaskEvent:
    fields = {"source_kind": "issue", "source_key": "1:issue:7", "received_at": NOW, **more}
    return event(1, object_id=object_id).model_copy(update=fields)


def _take(book: SessionBook, delivered: TaskEvent) -> str | None:
    """As the session does; the taskId of what was seen before."""
    latched = book.latch(delivered)
    known = book.seen(latched)
    book.note(latched, known or latched.task_id)
    return known


def test_an_assignment_that_is_told_again_is_the_same_one() -> None:
    book = SessionBook(None)
    first = _assigned(1)
    assert _take(book, first) is None
    assert _take(book, _assigned(2)) == first.task_id


def test_an_assignment_after_an_unassignment_is_a_new_one() -> None:
    book = SessionBook(None)
    _take(book, _assigned(1))
    book.latched = False
    assert _take(book, _assigned(2)) is None


def test_the_latch_survives_a_roll_over_and_is_rebuilt_from_markers() -> None:
    book = SessionBook(None)
    _take(book, _assigned(1))
    assert _take(SessionBook(book.carried()), _assigned(2)) is not None

    rebuilt = SessionBook(None)
    rebuilt.recover(Recovered(seen_sources={"1:assignment:7.1": "gitea-task-1"}))
    assert _take(rebuilt, _assigned(3)) == "gitea-task-1"
    rebuilt.latched = False
    assert rebuilt.latch(_assigned(4)).source_key == "1:assignment:7.2"


def test_an_issue_opened_with_an_assignment_is_one_task_in_either_order() -> None:
    for first, second in ((_opened(1), _assigned(2)), (_assigned(1), _opened(2))):
        book = SessionBook(None)
        assert _take(book, first) is None
        assert _take(book, second) == first.task_id


def test_an_assignment_long_after_the_opening_or_by_somebody_else_is_a_task_of_its_own() -> None:
    for later in (_assigned(2, received_at=NOW + timedelta(hours=1)), _assigned(2, author="bob")):
        book = SessionBook(None)
        _take(book, _opened(1))
        assert _take(book, later) is None
