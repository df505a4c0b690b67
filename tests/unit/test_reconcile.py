"""What the reconciler takes, and what it leaves alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from domain import marker
from domain.deliveries import User
from domain.events import RepositoryRef
from domain.reconcile import Seen, events_of, is_due, is_taken
from domain.triggers import Policy, Trigger

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
INSTALLED = NOW - timedelta(days=1)
REPO = RepositoryRef(id=2, owner="alice", name="demo")
COMMENT = Seen(
    kind="issue",
    number=1,
    title="",
    source_kind="comment",
    source_id=11,
    author=User(id=1, login="alice"),
    text="@ccweb-bot fix it",
    created_at=NOW - timedelta(minutes=5),
    at=NOW - timedelta(minutes=5),
)
ASSIGNMENT = replace(COMMENT, source_kind="assignment", source_id=1, text="a body", occurrence="36")


def _due(seen: Seen) -> bool:
    return is_due(seen, since=NOW - timedelta(hours=1), until=NOW - timedelta(minutes=2), installed_at=INSTALLED)


def _events(*seen: Seen, policy: Policy | None = None) -> list[str]:
    found = events_of(REPO, "default:alice/demo", seen, policy or Policy(bot_name="ccweb-bot"), NOW)
    return [event.delivery_key for _, event in found]


def test_what_is_young_old_or_from_before_the_start_is_left_alone() -> None:
    assert _due(COMMENT)
    assert not _due(replace(COMMENT, at=NOW - timedelta(minutes=1)))
    assert not _due(replace(COMMENT, at=NOW - timedelta(hours=2)))
    assert not _due(replace(COMMENT, created_at=INSTALLED - timedelta(seconds=1)))


def test_finding_a_thing_twice_is_one_delivery_twice() -> None:
    assert _events(COMMENT, COMMENT) == ["default:reconcile:2:comment:11"] * 2
    assert _events(ASSIGNMENT) == ["default:reconcile:2:assignment:1:36"]


def test_the_policy_of_ingress_decides() -> None:
    assert not _events(replace(COMMENT, text="no mention"), replace(COMMENT, author=User(id=9, login="ccweb-bot")))
    assert not _events(ASSIGNMENT, policy=Policy(bot_name="ccweb-bot", triggers=frozenset({Trigger.COMMENT})))


@pytest.mark.parametrize(
    ("seen", "source", "age", "taken"),
    [
        (COMMENT, "2:comment:11", 0, True),
        (COMMENT, "2:comment:12", 0, False),
        (ASSIGNMENT, "2:assignment:1.1", -1, True),
        (ASSIGNMENT, "2:assignment:1.1", 60, False),
        (ASSIGNMENT, "2:issue:1", -1, True),
        (ASSIGNMENT, "2:assignment:12.1", -1, False),
    ],
)
def test_a_marker_of_ours_answers_for_its_source(seen: Seen, source: str, age: float, taken: bool) -> None:
    ((_, event),) = events_of(REPO, "default:alice/demo", [seen], Policy(bot_name="ccweb-bot"), NOW)
    written = seen.at - timedelta(minutes=age)
    receipt = marker.ReceiptMarker("gitea-task-1:status:queued", source)
    assert is_taken(seen, event, [(written, receipt)]) is taken
