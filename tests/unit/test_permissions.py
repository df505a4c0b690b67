"""May this author start the agent?"""

import pytest

from domain.permissions import may_trigger


@pytest.mark.parametrize(
    ("level", "minimum", "allowed"),
    [
        ("owner", "admin", True),
        ("admin", "admin", True),
        ("write", "admin", False),
        ("write", "write", True),
        ("read", "write", False),
        ("read", "read", True),
        (None, "read", False),
        ("none", "read", False),
        ("a new word", "read", False),
    ],
)
def test_a_level_must_reach_the_minimum_and_an_unknown_one_never_does(
    level: str | None, minimum: str, allowed: bool
) -> None:
    assert may_trigger("alice", level, minimum, ()) is allowed


def test_a_named_author_may_whatever_the_level() -> None:
    assert may_trigger("Alice", None, "admin", {"alice"})
