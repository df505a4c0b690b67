"""One line of the table: what was promised and what was measured."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """`measured` and `budget` are in `unit`; `at_least` turns the comparison round."""

    name: str
    measured: float
    budget: float
    unit: str
    detail: str
    """The numbers behind it, for people."""
    at_least: bool = False

    @property
    def kept(self) -> bool:
        return self.measured >= self.budget if self.at_least else self.measured <= self.budget

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "measured": round(self.measured, 4),
            "budget": self.budget,
            "unit": self.unit,
            "comparison": ">=" if self.at_least else "<=",
            "kept": self.kept,
            "detail": self.detail,
        }


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
