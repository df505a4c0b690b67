"""What operators see: records with the source document's camelCase names (design section 3)."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from domain.audit import AuditEvent
from domain.errors import ErrorCode
from domain.states import TaskState


class View(BaseModel):
    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )

    def shown(self) -> dict[str, Any]:
        """As JSON shows it."""
        return self.model_dump(mode="json", by_alias=True)


class TaskSummary(View):
    """One task as lists show it, from visibility alone: no worker is asked."""

    task_id: str
    delivery_key: str | None
    delivery_keys: list[str]
    """All deliveries of this source that reached the task, its own first."""
    source_key: str | None
    repo_key: str | None
    resource_key: str | None
    session_key: str | None
    author: str | None
    state: TaskState
    error_code: ErrorCode | None
    execution_status: str
    """Temporal's own status of the workflow."""
    cost: float | None
    created_at: datetime
    closed_at: datetime | None


class TaskPage(View):
    """`next_cursor` is given back as `cursor` for what follows; null at the end.

    No task is left out. One that ends while you page is shown a second time, among those that ended.
    """

    tasks: list[TaskSummary]
    next_cursor: str | None


class ControlView(View):
    """The operators' switches."""

    global_paused: bool
    pause_reason: str | None
    updated_by: str | None
    updated_at: datetime | None
    disabled: dict[str, str]
    """repoKey or repository id to the reason."""
    version: int


class QueueView(View):
    """The open tasks of one repository, oldest first."""

    repo_key: str
    working: list[str]
    """taskIds in `preparing`, `running`, `verifying_reply`, `aborting`: at most one holds the workspace."""
    queued: list[str]
    waiting: list[str]
    """taskIds in `waiting_user`, `retry_wait`, `blocked_workspace`, and `received`."""


class QueuePollers(View):
    task_queue: str
    workers: int
    last_seen_at: datetime | None


class Overview(View):
    control: ControlView
    open_tasks: dict[TaskState, int]
    """How many tasks are in each state that is not final."""
    ended_last_day: dict[TaskState, int]
    running_slots: int
    """Repositories whose workspace is at work now."""
    queues: list[QueueView]
    queues_cut: bool
    """True when there are more open tasks than `queues` was made from."""
    wedged_workflows: list[str]
    """Workflows whose code fails again and again; Temporal reports them."""
    workers: list[QueuePollers]
    notes: list[str]
    """What is not as it should be, and what therefore cannot be done or known now."""


class ControlResult(View):
    """What a control call came to; a repeated requestId gets the same, but for `taken`."""

    request_id: str
    action: str
    taken: bool
    """False while it is only stored in Temporal: it takes effect as soon as a worker runs."""
    repo_key: str | None = None
    tasks: list[str] = []
    """taskIds that were told."""
    from_state: TaskState | None = None
    """The task's state when the call came."""


class MoveView(View):
    state_version: int
    from_state: TaskState | None
    to_state: TaskState | None
    actor: str
    error_code: str | None
    at: datetime


class TurnView(View):
    """One call to Codex. `turn_key` is our idempotency key, `turn_id` Codex's own."""

    turn_key: str
    turn_id: str | None
    thread_id: str | None
    kind: str
    """`normal`, `continuation` or `reply_retry`."""
    round: int
    status: str
    """`started`, `completed`, `interrupted`, `failed` or `cancelled`."""
    error_code: str | None
    usage: dict[str, int] | None
    spent: dict[str, float] | None
    started_at: datetime
    completed_at: datetime | None


class CommentView(View):
    """One comment of ours in Gitea."""

    comment_key: str
    kind: str
    """`status`, `question`, `mcp_final` or `rest_fallback`."""
    comment_id: int | None
    turn_id: str | None = None
    status: str
    """`pending`, `sent`, `confirmed` (read back from Gitea) or `failed`."""


class TaskDetail(TaskSummary):
    """One task in full, from its history: no worker is asked."""

    title: str
    instruction: str
    kind: str
    number: int
    alias_task_ids: list[str]
    """taskIds that were answered for other deliveries which then went to this task."""
    state_version: int
    attempt: int
    reply_attempt: int
    round: int
    thread_id: str | None
    turn_id: str | None
    comment_id: int | None
    commit: str | None
    lease_id: str | None
    host: str | None
    reason: str
    problem: str | None
    """Why the workflow makes no progress, if Temporal says so."""
    moves: list[MoveView]
    turns: list[TurnView]
    comments: list[CommentView]


class AuditPage(View):
    """Events by time within the page. A page covers whole workflows, so it may hold more than `limit`."""

    events: list[AuditEvent]
    next_cursor: str | None
