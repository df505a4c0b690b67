"""The benchmark's arithmetic. Nothing is timed here."""

import pytest

from bench.row import Row, percentile
from bench.tasks import merged


@pytest.mark.parametrize(
    ("measured", "at_least", "kept"),
    [(1.2, False, False), (1.15, False, True), (0.9, True, True), (0.8, True, False)],
)
def test_a_budget_is_an_upper_bound_unless_it_is_a_rate(measured: float, at_least: bool, kept: bool) -> None:
    budget = 0.85 if at_least else 1.15
    assert Row("r", measured, budget, "x", "", at_least=at_least).kept is kept


@pytest.mark.parametrize(("share", "expected"), [(0, 1), (0.5, 3), (0.95, 5), (1, 5)])
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    assert percentile([5, 3, 1, 4, 2], share) == expected


def test_activities_side_by_side_count_once() -> None:
    assert merged([(4, 6), (0, 2), (1, 3), (5, 5.5)]) == [(0, 3), (4, 6)]
