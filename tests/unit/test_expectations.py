"""The hand-written expectations name every captured delivery and mention exactly once."""

import json
from pathlib import Path

DATA = Path(__file__).parent.parent / "data"
EXPECTED = json.loads((DATA / "expectations.json").read_text(encoding="utf-8"))


def test_each_captured_delivery_has_exactly_one_row() -> None:
    captured = sorted(path.stem for path in (DATA / "webhooks").glob("*.json"))
    assert len(captured) == 104
    assert sorted(row["file"] for row in EXPECTED["deliveries"]) == captured


def test_each_row_of_the_mention_table_has_exactly_one_row() -> None:
    table = json.loads((DATA / "mention_table.json").read_text(encoding="utf-8"))
    assert [row["row"] for row in EXPECTED["mentions"]] == list(range(len(table)))
    assert [row["text"] for row in EXPECTED["mentions"]] == [row["text"] for row in table]


def test_each_expectation_gives_its_reason_in_one_line() -> None:
    reasons = [row["reason"] for row in (*EXPECTED["deliveries"], *EXPECTED["mentions"])]
    assert all(reason.strip() and "\n" not in reason for reason in reasons)
