"""Budgets: what is left, what ran out, what tokens cost."""

from hypothesis import given
from hypothesis import strategies as st

from domain import budget
from domain.events import Left, Limits, Spend, TokenUsage

AMOUNT = st.integers(0, 10_000)


def test_no_limit_never_runs_out() -> None:
    allowed = budget.left(Limits(), 0, Spend(seconds=1e9, tokens=10**9, cost=1e6))
    assert allowed == Left()
    assert budget.used_up(allowed, Spend(seconds=1e9, tokens=10**9, cost=1e6)) is None


def test_what_ran_out_is_named() -> None:
    limits = Limits(minutes=1, tokens=100, cost=2)
    allowed = budget.left(limits, 0, Spend())
    assert budget.used_up(allowed, Spend(seconds=60)) == "time"
    assert budget.used_up(allowed, Spend(tokens=100)) == "tokens"
    assert budget.used_up(allowed, Spend(cost=2)) == "cost"
    assert budget.used_up(allowed, Spend(seconds=59, tokens=99, cost=1.9)) is None


@given(limit=st.integers(1, 1000), grants=st.integers(0, 5), used=AMOUNT)
def test_each_grant_allows_the_whole_limit_once_more(limit: int, grants: int, used: int) -> None:
    allowed = budget.left(Limits(tokens=limit), grants, Spend(tokens=used))
    assert allowed.tokens == max(0, limit * (1 + grants) - used)


def test_the_smaller_of_two_budgets_counts() -> None:
    assert budget.least(Left(tokens=5, cost=None), Left(tokens=None, cost=1.5)) == Left(tokens=5, cost=1.5)
    assert budget.least(Left(seconds=5), Left(seconds=3)).seconds == 3


def test_cached_input_has_a_price_of_its_own() -> None:
    usage = TokenUsage(input_tokens=1_000_000, cached_input_tokens=400_000, output_tokens=100_000)
    assert budget.cost_of(usage, 2, 0.5, 10) == 0.6 * 2 + 0.4 * 0.5 + 1
