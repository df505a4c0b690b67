"""The dashboard and the alerts ask for metrics, labels and values that the code exports."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.errors import ErrorCode
from domain.metrics import METRICS, TEMPORAL
from domain.states import TaskState
from domain.triggers import DecisionCode

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
_NAME = re.compile(r"\b(?:ccweb|gen_ai|temporal)_[a-z_]+")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!=|!~|=)\s*\"([^\"]*)\"")
_OUTCOMES = {"accepted", "duplicate", "poked", "ignored", "rejected", "unavailable"}
_VALUES = {
    "state": set(TaskState),
    "reason": {*DecisionCode, *ErrorCode},
    "outcome": _OUTCOMES,
    "error_code": {*ErrorCode, ""},
    "kind": {"delivered", "known", "answer_posted", "answer_missing"},
}


def _dashboard() -> list[str]:
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text(encoding="utf-8"))
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def _alerts() -> list[str]:
    text = (DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    found = re.findall(r"^ +expr: (.*(?:\n {10}.*)*)", text, re.MULTILINE)
    assert len(found) == text.count("- alert:")
    return found


EXPRESSIONS = [*_dashboard(), *_alerts()]
_OWN_LABELS = {label.replace(".", "_") for one in METRICS for label in one.labels}


def _series() -> Iterator[str]:
    for metric in METRICS:
        yield metric.exported
        if metric.kind == "histogram":
            yield from (f"{metric.exported}_{part}" for part in ("bucket", "sum", "count"))
    for name in TEMPORAL:
        yield name
        yield from (f"{name}_{part}" for part in ("bucket", "sum", "count"))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_that_is_asked_for_is_exported(expression: str) -> None:
    asked = set(_NAME.findall(expression)) - _OWN_LABELS
    assert asked
    assert asked <= set(_series())


@pytest.mark.parametrize("expression", [one for one in EXPRESSIONS if _MATCHER.search(one)])
def test_every_label_value_that_is_asked_for_exists(expression: str) -> None:
    for label, values in _MATCHER.findall(expression):
        assert set(values.split("|")) <= _VALUES[label], label


def test_every_metric_of_ours_is_on_the_dashboard_and_every_one_of_temporals_is_used() -> None:
    text = " ".join(EXPRESSIONS)
    assert not [one.exported for one in METRICS if one.exported not in text]
    assert not [name for name in TEMPORAL if name not in text]
