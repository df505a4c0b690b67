"""The file of operators."""

import json
import stat
from pathlib import Path

import pytest

from domain.errors import CcwebError, ErrorCode
from operations.operators import Operators, Role


@pytest.fixture
def operators(tmp_path: Path) -> Operators:
    return Operators(tmp_path / "state" / "operators.json")


def test_a_token_names_its_operator_and_is_not_in_the_file(operators: Operators, tmp_path: Path) -> None:
    token = operators.add("olga", Role.ADMIN)
    path = tmp_path / "state" / "operators.json"
    found = operators.by_token(token)
    assert found is not None and (found.name, found.role) == ("olga", Role.ADMIN)
    assert token not in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert operators.by_token(token + "x") is None
    assert operators.by_token("") is None


def test_the_hash_in_the_file_is_no_token(operators: Operators, tmp_path: Path) -> None:
    operators.add("olga", Role.VIEWER)
    [stored] = json.loads((tmp_path / "state" / "operators.json").read_text(encoding="utf-8"))
    assert operators.by_token(stored["tokenHash"]) is None


def test_another_process_sees_additions_and_removals(operators: Operators, tmp_path: Path) -> None:
    other = Operators(tmp_path / "state" / "operators.json")
    assert other.all() == []
    token = operators.add("olga", Role.OPERATOR)
    assert other.by_token(token) is not None
    operators.remove("olga")
    assert other.by_token(token) is None


def test_names_are_unique_and_plain(operators: Operators) -> None:
    operators.add("olga", Role.OPERATOR)
    for name in ("olga", "", "Olga", "a b", "../x", "x" * 65):
        with pytest.raises(CcwebError) as raised:
            operators.add(name, Role.OPERATOR)
        assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_an_unreadable_file_lets_nobody_in(operators: Operators, tmp_path: Path) -> None:
    token = operators.add("olga", Role.OPERATOR)
    (tmp_path / "state" / "operators.json").write_text('[{"name": "eve", "role": "king"}]', encoding="utf-8")
    with pytest.raises(CcwebError) as raised:
        operators.by_token(token)
    assert raised.value.code is ErrorCode.SETTINGS_INVALID
