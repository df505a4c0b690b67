"""What tasks cost, by repository and day, from visibility (design section 13)."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from temporalio.client import Client

from domain import search_attributes as names
from operations import visibility
from operations.visibility import quoted

DAYS = 14
_MAX_TASKS = 2_000
_MAX_REPOSITORIES = 5


@dataclass(frozen=True, slots=True)
class Costs:
    """`by_repo` holds one cost per day; the repositories that cost least are together under "" ."""

    days: list[date]
    by_repo: dict[str, list[float]]

    @property
    def daily(self) -> list[float]:
        return [sum(column) for column in zip(*self.by_repo.values(), strict=True)]

    @property
    def total(self) -> float:
        return sum(self.daily)


async def costs(client: Client) -> Costs:
    """Of tasks that began in the last `DAYS` days (UTC), at most the newest 2000 that cost something.

    Raises:
        CcwebError: `temporal_unavailable`; may be retried.
    """
    today = datetime.now(UTC).date()
    days = [today - timedelta(days=ago) for ago in range(DAYS - 1, -1, -1)]
    query = f'WorkflowType="AgentTask" AND {names.COST} > 0 AND StartTime >= {quoted(f"{days[0]}T00:00:00Z")}'
    async with visibility.asking():
        runs = await visibility.runs(client, query, _MAX_TASKS)
    return gathered(
        days,
        [(str(run.attributes.get(names.REPO)), run.started_at.date(), run.attributes[names.COST]) for run in runs],
    )


def gathered(days: list[date], spent: list[tuple[str, date, float]]) -> Costs:
    """Sums up (repoKey, day, cost); days outside `days` do not count."""
    place = {day: index for index, day in enumerate(days)}
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(days))
    for repo, day, cost in spent:
        if day in place:
            sums[repo][place[day]] += cost
    ranked = sorted(sums, key=lambda repo: (-sum(sums[repo]), repo))
    shown = {repo: sums[repo] for repo in ranked[:_MAX_REPOSITORIES]}
    rest = [sums[repo] for repo in ranked[_MAX_REPOSITORIES:]]
    return Costs(days, {**shown, **({"": [sum(column) for column in zip(*rest, strict=True)]} if rest else {})})
