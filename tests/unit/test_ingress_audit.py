"""The stream of what never reaches Temporal: bounded, and never in the way."""

import json
from pathlib import Path

from domain.triggers import Decision, DecisionCode
from ingress.audit import AuditStream

DECLINED = Decision(DecisionCode.NO_MENTION, delivery_id="d", event_type="issue_comment")


def test_it_keeps_the_newest_within_twice_its_bound(tmp_path: Path) -> None:
    stream = AuditStream(tmp_path / "audit.jsonl", max_bytes=2_000)
    for number in range(100):
        stream.record(Decision(DecisionCode.NO_MENTION, delivery_id=f"d-{number}"), "sha256:0")
    files = sorted(tmp_path.iterdir())
    assert sum(file.stat().st_size for file in files) < 5_000
    lines = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert "d-99" in {line["deliveryId"] for line in lines}


def test_lines_of_a_former_process_stay(tmp_path: Path) -> None:
    for _ in range(2):
        AuditStream(tmp_path / "audit.jsonl").record(DECLINED, "sha256:0")
    assert len((tmp_path / "audit.jsonl").read_text(encoding="utf-8").splitlines()) == 2


def test_a_disk_that_takes_nothing_fails_no_request() -> None:
    AuditStream(Path("/dev/full")).record(DECLINED, "sha256:0")
    AuditStream(Path("/dev/null/no/folder")).record(DECLINED, "sha256:0")
