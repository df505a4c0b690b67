"""What a review and its inline comments ask for."""

from datetime import UTC, datetime

from domain.deliveries import User
from domain.events import AuthorCheck, Poke, RepositoryRef
from domain.reviews import Written, events_of
from domain.triggers import Policy, Trigger

POLICY = Policy(bot_name="ccweb-bot")
BOB = User(id=4, login="bob")
POKE = Poke(
    act="reviewed",
    delivery_id="d1",
    event_type="pull_request_review_comment",
    repository=RepositoryRef(id=2, owner="alice", name="demo"),
    repo_key="default:alice/demo",
    session_key="default:alice/demo:pull_request:2",
    number=2,
    received_at=datetime(2026, 11, 30, tzinfo=UTC),
)


def test_each_text_that_mentions_the_bot_is_a_source_with_a_task_of_its_own() -> None:
    review = Written("review", 2, BOB, "@ccweb-bot two remarks")
    inline = Written("review_comment", 44, BOB, "@ccweb-bot add type hints", "calc.py", "@@ -1 +1 @@\n+x")
    silent = Written("review_comment", 45, BOB, "nice", "calc.py", "")
    found = events_of(POKE, [review, inline, silent], POLICY)

    assert [event.source_key for event in found] == ["2:review:2", "2:review_comment:44"]
    assert len({event.task_id for event in found}) == len({event.delivery_key for event in found}) == 2
    assert {event.author_check for event in found} == {AuthorCheck.PENDING}
    assert found[1].instruction == "add type hints\n\n[at calc.py]\n@@ -1 +1 @@\n+x"


def test_the_bot_and_other_bots_do_not_trigger_by_review() -> None:
    bots = [User(id=2, login="ccweb-bot"), User(id=9, login="renovate-bot")]
    assert not events_of(POKE, [Written("review", 1, bot, "@ccweb-bot go") for bot in bots], POLICY)


def test_reviews_are_not_taken_when_they_are_not_enabled() -> None:
    comments_only = Policy(bot_name="ccweb-bot", triggers=frozenset({Trigger.COMMENT}))
    assert not events_of(POKE, [Written("review", 1, BOB, "@ccweb-bot go")], comments_only)
