"""What a turn uses up: tokens as Codex counts them, seconds, and their cost (design section 7)."""

import time
from typing import Any

from temporalio import activity

from domain import budget
from domain.events import Left, Spend, TokenUsage
from settings import Settings


class BudgetExceededError(Exception):
    """A turn used up what it was allowed; `args[0]` names what ran out."""


class Meter:
    """Codex tells the thread's totals: what the thread had before the turn is kept, over restarts by heartbeats."""

    def __init__(self, settings: Settings, allowed: Left) -> None:
        self._settings = settings
        self._allowed = allowed
        self._before: TokenUsage | None = None
        self._began = time.monotonic()
        self.usage = TokenUsage()
        self.used_up: str | None = None

    def resume(self, details: Any) -> None:
        """Takes over what the last attempt of this activity told by heartbeat."""
        if isinstance(details, dict) and details.get("before") is not None:
            self._before = TokenUsage.model_validate(details["before"])
            self._began -= float(details.get("seconds", 0))
            self.used_up = details.get("usedUp")

    def details(self) -> dict[str, Any]:
        before = self._before.model_dump() if self._before else None
        return {"before": before, "seconds": round(self.seconds, 1), "usedUp": self.used_up}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def seconds_left(self) -> float | None:
        return None if self._allowed.seconds is None else max(0.0, self._allowed.seconds - self.seconds)

    def read(self, told: dict[str, Any]) -> None:
        """Reads a `thread/tokenUsage/updated`."""
        total = _usage(told["total"])
        if self._before is None:
            self._before = _minus(total, _usage(told["last"]))
        self.usage = _minus(total, self._before)

    @property
    def spent(self) -> Spend:
        settings = self._settings
        cost = budget.cost_of(self.usage, settings.price_input, settings.price_cached_input, settings.price_output)
        return Spend(seconds=round(self.seconds, 1), tokens=self.usage.total_tokens, cost=cost)

    def check(self) -> None:
        """Raises BudgetExceededError once more is used than was allowed."""
        if used_up := budget.used_up(self._allowed, self.spent):
            self.used_up = used_up
            raise BudgetExceededError(used_up)


def last_heartbeat() -> Any:
    details = activity.info().heartbeat_details
    return details[0] if details else None


def _usage(told: dict[str, Any]) -> TokenUsage:
    return TokenUsage(
        input_tokens=told["inputTokens"],
        cached_input_tokens=told["cachedInputTokens"],
        output_tokens=told["outputTokens"],
        total_tokens=told["totalTokens"],
    )


def _minus(total: TokenUsage, before: TokenUsage) -> TokenUsage:
    return TokenUsage(**{name: max(0, value - getattr(before, name)) for name, value in total.model_dump().items()})
