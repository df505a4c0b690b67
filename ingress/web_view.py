"""How the operators' pages show things: the templates, links to Gitea and Temporal, the chart of costs."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from domain import ids
from domain.states import NEEDS_LEASE, TaskState
from operations.commands import LEGAL
from operations.costs import Costs
from operations.operators import Role
from operations.records import TaskDetail, TaskSummary
from settings import Settings

HERE = Path(__file__).parent
_COMMENT = re.compile(r":comment:([0-9]+)(?::|$)")
NEEDED: dict[str, Role] = {
    "pause": Role.ADMIN,
    "resume": Role.ADMIN,
    "disable": Role.ADMIN,
    "enable": Role.ADMIN,
    "unblock": Role.OPERATOR,
    "cancel": Role.OPERATOR,
    "abort": Role.OPERATOR,
    "retry": Role.OPERATOR,
}
"""The role that each action needs, as in the API."""


def environment() -> Environment:
    """Everything that templates show is escaped."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(moment=_moment, repo=_repo, resource=_resource, money=_money)
    made.globals.update(group_of=group_of, legal_actions=legal_actions)
    return made


class Links:
    """Addresses outside ccweb; None where the settings or the task do not say them."""

    def __init__(self, settings: Settings, namespace: str) -> None:
        self._gitea = settings.gitea_public_url or settings.gitea_url
        self._temporal = settings.temporal_ui_url
        self._namespace = namespace

    def temporal(self, workflow_id: str) -> str | None:
        if not self._temporal:
            return None
        place = f"namespaces/{quote(self._namespace, safe='')}/workflows/{quote(workflow_id, safe='')}"
        return f"{self._temporal}/{place}"

    def discussion(self, task: TaskDetail, comment_id: int | None = None) -> str | None:
        """The Issue or PR in Gitea, at one comment of it."""
        if not task.repo_key or not task.number:
            return None
        kind = "pulls" if task.kind == "pull_request" else "issues"
        anchor = f"#issuecomment-{comment_id}" if comment_id else ""
        return f"{self._gitea}/{quote(_repo(task.repo_key))}/{kind}/{task.number}{anchor}"

    def source(self, task: TaskDetail) -> str | None:
        """The comment that asked, where it is one."""
        found = _COMMENT.search(task.source_key or "")
        return self.discussion(task, int(found[1])) if found else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a task's timeline; exactly one of `move` and `turn` is set."""

    at: datetime
    move: Any = None
    turn: Any = None


def timeline(task: TaskDetail) -> list[Entry]:
    entries = [Entry(move.at, move=move) for move in task.moves]
    entries += [Entry(turn.started_at, turn=turn) for turn in task.turns]
    return sorted(entries, key=lambda entry: entry.at)


def group_of(state: TaskState) -> str:
    """What colour and heading a state has: running, queued, waiting, blocked, failed, done or ended."""
    if state in NEEDS_LEASE:
        return "running"
    return {
        TaskState.RECEIVED: "queued",
        TaskState.QUEUED: "queued",
        TaskState.WAITING_USER: "waiting",
        TaskState.RETRY_WAIT: "waiting",
        TaskState.BLOCKED_WORKSPACE: "blocked",
        TaskState.FAILED: "failed",
        TaskState.FAILED_REPLY: "failed",
        TaskState.SUCCEEDED: "done",
        TaskState.SUCCEEDED_WITH_REST_FALLBACK: "done",
    }.get(state, "ended")


def legal_actions(task: TaskSummary) -> list[str]:
    """What an operator can do with a task in its state."""
    return [action for action, states in LEGAL.items() if task.state in states]


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle of the chart, in units of its view box."""

    x: float
    y: float
    width: float
    height: float
    series: int
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    bars: list[Bar]
    ticks: list[tuple[float, str]]
    series: list[str]
    top: str


CHART_WIDTH, CHART_HEIGHT = 700.0, 160.0


def chart(costs: Costs) -> Chart:
    """One stacked bar per day, one colour per repository."""
    highest = max(costs.daily, default=0.0) or 1.0
    step = CHART_WIDTH / len(costs.days)
    bars = []
    for column, day in enumerate(costs.days):
        y = CHART_HEIGHT
        for series, (repo, values) in enumerate(costs.by_repo.items()):
            height = values[column] / highest * CHART_HEIGHT
            y -= height
            if height:
                label = f"{_repo(repo)} {day}: {_money(values[column])}"
                bars.append(Bar(column * step + step * 0.15, y, step * 0.7, height, series, label))
    ticks = [((column + 0.5) * step, f"{day:%m-%d}") for column, day in enumerate(costs.days)]
    return Chart(bars, ticks[1::2], [_repo(repo) for repo in costs.by_repo], _money(highest))


def _moment(at: datetime | None) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if at else ""


def _repo(key: str | None) -> str:
    return (key or "").removeprefix(f"{ids.INSTANCE_ID}:")


def _resource(key: str | None) -> str:
    """`owner/name#42` of a resourceKey."""
    name, _, number = _repo(key).rpartition(":")
    return f"{name.rpartition(':')[0]}#{number}" if name else _repo(key)


def _money(cost: float | None) -> str:
    if not cost:
        return "0"
    return f"{cost:.2f}" if cost >= 0.01 else f"{cost:.4f}"
