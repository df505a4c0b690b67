"""What a signal's argument says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.operator import Command, parse_command

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_nothing_that_can_be_sent_raises(raw: object) -> None:
    parse_command(raw)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, Command()),
        ("wrong\n branch", Command(reason="wrong branch")),
        ({"actor": "olga", "reason": "x", "repo": "o/r"}, Command("olga", "x", "o/r")),
        ({"reason": 5}, Command()),
        (7, None),
        ([], None),
        (True, None),
    ],
)
def test_commands_and_junk(raw: object, expected: Command | None) -> None:
    assert parse_command(raw) == expected


def test_a_plain_text_can_name_the_repository() -> None:
    assert parse_command("default:o/r", text_is="repo") == Command(repo="default:o/r")
