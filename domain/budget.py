"""What a task and a session may use up: time, tokens, cost (design section 7, `budget_exceeded`). Pure.

A limit of 0 is no limit. Each grant (`/budget`, an operator) allows the whole of the limits once more.
"""

from typing import TypeVar

from domain.events import Left, Limits, Spend, TokenUsage

N = TypeVar("N", int, float)
_MILLION = 1_000_000
_MINUTE = 60.0


def plus(one: Spend, other: Spend) -> Spend:
    return Spend(
        seconds=one.seconds + other.seconds, tokens=one.tokens + other.tokens, cost=round(one.cost + other.cost, 6)
    )


def cost_of(usage: TokenUsage, price_input: float, price_cached_input: float, price_output: float) -> float:
    """Prices are per million tokens; cached input is part of the input."""
    fresh = max(0, usage.input_tokens - usage.cached_input_tokens)
    cost = fresh * price_input + usage.cached_input_tokens * price_cached_input + usage.output_tokens * price_output
    return round(cost / _MILLION, 6)


def left(limits: Limits, grants: int, spent: Spend) -> Left:
    """What may still be used; None where there is no limit, never below 0."""
    times = 1 + grants

    def rest(limit: float, used: float) -> float | None:
        return max(0.0, limit * times - used) if limit else None

    tokens = rest(limits.tokens, spent.tokens)
    return Left(
        seconds=rest(limits.minutes * _MINUTE, spent.seconds),
        tokens=None if tokens is None else int(tokens),
        cost=rest(limits.cost, spent.cost),
    )


def least(one: Left, other: Left) -> Left:
    """What both allow."""
    return Left(
        seconds=_least(one.seconds, other.seconds),
        tokens=_least(one.tokens, other.tokens),
        cost=_least(one.cost, other.cost),
    )


def _least(one: N | None, other: N | None) -> N | None:
    return min((value for value in (one, other) if value is not None), default=None)


def used_up(allowed: Left, spent: Spend) -> str | None:
    """What ran out first (`time`, `tokens`, `cost`), or None."""
    pairs = (
        ("time", allowed.seconds, spent.seconds),
        ("tokens", allowed.tokens, spent.tokens),
        ("cost", allowed.cost, spent.cost),
    )
    return next((name for name, limit, used in pairs if limit is not None and used >= limit), None)
