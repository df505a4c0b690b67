"""What travels between ingress, workflows and activities (design sections 3 to 9).

Every record is a frozen pydantic model: it is JSON in Temporal's history, so fields are only ever added,
with defaults. Nothing here holds a secret; text of people is bounded by `MAX_TEXT`.
"""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from domain.commands import CommandName
from domain.errors import ErrorCode
from domain.states import TaskState

MAX_TEXT = 32_000
"""Characters of a comment carried in a payload; the agent reads the rest by tool."""

ResourceKind = Literal["issue", "pull_request"]
SourceKind = Literal["comment", "review", "review_comment", "issue", "assignment"]


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class RepositoryRef(Record):
    """A repository as a delivery shows it."""

    id: int
    owner: str
    name: str
    default_branch: str = "main"

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"


class AuthorCheck(StrEnum):
    """What the delivery itself proves about the author of the text."""

    ALLOWED = "allowed"
    PENDING = "pending"


class TaskEvent(Record):
    """One accepted trigger, as ingress signals it to the Session (`deliver`).

    `received_at` also tells two arrivals of one delivery apart; `payload_hash` is `sha256:<hex>` of the raw
    body; `traceparent` is the W3C header of the request's span, or empty.
    """

    delivery_id: str
    delivery_key: str
    source_key: str
    task_id: str
    event_type: str
    repository: RepositoryRef
    repo_key: str
    session_key: str
    kind: ResourceKind
    number: int
    source_kind: SourceKind
    source_id: str
    author: str
    author_check: AuthorCheck
    instruction: str
    title: str = ""
    payload_hash: str = ""
    received_at: datetime
    traceparent: str = ""


class ResourceClosed(Record):
    """The Issue or PR was closed (or reopened): a poke for a Session that exists."""

    session_key: str
    closed: bool
    actor: str
    received_at: datetime


class Poke(Record):
    """Something that a Session looks into itself (`poke`): Gitea's delivery of a review lacks its text."""

    act: Literal["reviewed", "unassigned"]
    delivery_id: str
    event_type: str
    repository: RepositoryRef
    repo_key: str
    session_key: str
    number: int
    title: str = ""
    actor: str = ""
    payload_hash: str = ""
    received_at: datetime
    traceparent: str = ""


class Reviews(Record):
    """Answer of `list_reviews`: what reviews and inline comments of a PR ask for."""

    events: list[TaskEvent] = []


class CommandCheck(Record):
    """Answer of `check_command`: may its author command here, and was it obeyed before?"""

    allowed: bool
    obeyed: bool = False


class OpenTask(Record):
    """One line of `/status`."""

    task_id: str
    state: TaskState | None = None
    asked_by: str = ""


class CommandAck(Record):
    """Ask of `acknowledge`: react to a command's comment and, where it asks for words, post them.

    `done` False: there was nothing to do, which is said.
    """

    event: TaskEvent
    command: CommandName
    done: bool = True
    tasks: list[OpenTask] = []
    thread_id: str | None = None
    spent: "Spend"


class Opening(Record):
    """The last body or assignment that asked: what comes with it in the same moment asks for the same."""

    task_id: str
    author: str
    source_kind: SourceKind
    at: datetime


class Spend(Record):
    """What was used up: seconds of turns, tokens, and their cost by the prices of the settings."""

    seconds: float = 0
    tokens: int = 0
    cost: float = 0


class Limits(Record):
    """A budget as the settings give it; 0 is no limit."""

    minutes: float = 0
    tokens: int = 0
    cost: float = 0


class Left(Record):
    """What may still be used; None is no limit."""

    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None


class SessionSpend(Record):
    """Session to task: what the session used up before and beside it, and how often more was granted."""

    spent: Spend = Spend()
    grants: int = 0


class SessionStart(Record):
    """Input of the Session workflow; the second part is what a run carries to the next (continue-as-new)."""

    session_key: str
    repository: RepositoryRef
    carried: "SessionCarried | None" = None


class SessionCarried(Record):
    thread_id: str | None = None
    host: str | None = None
    seen_sources: dict[str, str] = {}
    """sourceKey to taskId, oldest first, bounded."""
    seen_deliveries: dict[str, str] = {}
    """deliveryKey to the taskId of its source, oldest first, bounded."""
    closed: bool = False
    latches: int = 0
    """How many assignments to the bot were taken; part of an assignment's sourceKey."""
    latched: bool = False
    """Assigned and not unassigned since: further deliveries of it ask for nothing new."""
    opening: Opening | None = None
    epoch: int = 0
    """How many times `/new` began another thread."""
    spend: SessionSpend = SessionSpend()
    unsuccessful: TaskEvent | None = None
    """The last request that did not succeed: what `/retry` tries again."""
    inbox: list[TaskEvent | Poke] = []
    """Delivered and not yet looked at."""
    idle_after: float = 14 * 86400
    """A closed Issue/PR's session ends after this idle time; seconds."""


class Move(Record):
    """One move in a task's state table."""

    from_state: TaskState
    to_state: TaskState
    state_version: int
    reason: str
    error_code: ErrorCode | None = None
    actor: str = "system"
    at: datetime


class TaskStart(Record):
    """Input of the AgentTask workflow."""

    event: TaskEvent
    thread_id: str | None = None
    host: str | None = None
    epoch: int = 0
    """Which of the session's threads this task works in."""
    session_spend: SessionSpend = SessionSpend()


class TaskResult(Record):
    """How a task ended; result of AgentTask, or details of its failure."""

    task_id: str
    state: TaskState
    error_code: ErrorCode | None = None
    reason: str = ""
    thread_id: str | None = None
    host: str | None = None
    turn_id: str | None = None
    comment_id: int | None = None
    commit: str | None = None
    spent: Spend = Spend()
    epoch: int = 0
    owed: "FallbackRequest | None" = None
    """For `failed_reply`: the answer that the reconciler posts once Gitea takes it."""
    unconsumed: list[TaskEvent] = []


class TaskWaiting(Record):
    """Task to session: the question is in Gitea, answers may be given to me (or no longer)."""

    task_id: str
    waiting: bool
    thread_id: str | None = None
    epoch: int = 0
    host: str | None = None


class TaskPolicy(Record):
    """What a task needs of the settings, read once by `admit`; seconds."""

    heartbeat_timeout: float
    stop_budget: float
    turn_timeout: float
    retry_delay: float
    request_backoff: float
    read_back_budget: float
    task_budget: Limits = Limits()
    session_budget: Limits = Limits()


class LeaseRequest(Record):
    """Task to Repository (`request`): idempotent, repeated with back-off while waiting."""

    lease_id: str
    task_id: str
    resume: bool = False
    """True when the task ran before: it goes ahead of tasks that never started."""
    thread_name: str = ""


class LeaseAsk(Record):
    """Ask of `request_lease`: which Repository to start or signal, and with what."""

    repository_id: int
    repo_key: str
    request: LeaseRequest


class LeaseGrant(Record):
    """Repository to task (`lease_granted`)."""

    lease_id: str
    host: str
    thread_id: str | None = None
    """What the last holder of the same session released with: newer than what the task started with."""


class LeaseRelease(Record):
    """Task or Session to Repository (`release`); ignored unless it is the holder's."""

    lease_id: str | None = None
    task_id: str
    fenced: bool = True
    """False when what ran on the host may still run (terminated task): wait before the next grant."""
    thread_name: str = ""
    thread_id: str | None = None


class RepositoryStart(Record):
    """Input of the Repository workflow; seconds."""

    repository_id: int
    repo_key: str
    heartbeat_timeout: float
    stop_budget: float
    probe_interval: float
    stuck_after: float
    pause_poll: float
    idle_after: float
    carried: "RepositoryCarried | None" = None


class RepositoryCarried(Record):
    queue: list[LeaseRequest] = []
    holder: LeaseRequest | None = None
    host: str | None = None
    threads: dict[str, str] = {}
    """A thread's name to its threadId at its last release, oldest first, bounded."""


class ControlState(Record):
    """The memo of `control/default`."""

    version: int = 0
    paused: bool = False
    reason: str = ""
    updated_by: str = ""
    updated_at: datetime | None = None
    disabled: dict[str, str] = {}
    """repository.id (as text) or repoKey to the reason."""
    enabled_at: dict[str, datetime] = {}
    """When a repository was enabled again, by the same names: what was written before is not taken; bounded."""


class Verdict(Record):
    """What an operator's call came to; remembered under its requestId."""

    request_id: str
    action: str
    accepted: bool
    from_state: str = ""
    """The task's state when the call was judged."""
    targets: list[str] = []
    """The taskIds that a call about a whole repository meant."""


class Admission(Record):
    """Answer of `admit`: may this task run, and what Gitea says of its surroundings now."""

    state: Literal["queued", "rejected", "duplicate", "failed", "cancelled"]
    error_code: ErrorCode | None = None
    reason: str = ""
    repository: RepositoryRef
    policy: TaskPolicy
    pull_head: str | None = None
    """Branch of a PR's head in this repository; None for issues and for forks."""
    fork: bool = False
    instruction: str | None = None
    """What the source says by now, when it was edited since it was delivered."""


class CommentRequest(Record):
    """A receipt to post (check, then post) under its commentKey."""

    repository: RepositoryRef
    number: int
    comment_key: str
    source_key: str
    text: str = ""
    state: TaskState
    error_code: ErrorCode | None = None
    react_to: "ReactionTarget | None" = None
    reaction_only: bool = False
    """True for later rounds and folded comments: react, post no comment."""


class ReactionTarget(Record):
    source_kind: SourceKind
    source_id: str


class CommentPosted(Record):
    comment_id: int | None
    created: bool


class WorkspaceRequest(Record):
    """Ask of `prepare_workspace`; runs on the host queue, under the lease."""

    repository: RepositoryRef
    repo_key: str
    session_key: str
    kind: ResourceKind
    number: int
    task_id: str
    lease_id: str
    pull_head: str | None = None
    fork: bool = False


class Workspace(Record):
    """A prepared worktree. Paths are absolute on the host."""

    path: str
    branch: str
    head: str
    base: str
    """Commit of the base branch, where instructions for the agent are read from."""
    resumed_wip: bool = False


class TurnRequest(Record):
    """Ask of `run_turn`; `turn_key` is fixed by the workflow and at most one turn ever runs for it."""

    repository: RepositoryRef
    session_key: str
    kind: ResourceKind
    number: int
    task_id: str
    lease_id: str
    source_key: str
    round: int
    turn_key: str
    purpose: Literal["normal", "continuation", "reply_retry"]
    thread_id: str | None
    workspace: Workspace
    author: str
    instruction: str
    title: str = ""
    thread_name: str = ""
    """What the thread is called in Codex; empty for the sessionKey."""
    left: Left = Left()
    """What the turn may use up before it is interrupted."""


class SteerRequest(Record):
    """Ask of `steer_turn`: tell the running turn something; `turn` is the request that started it."""

    turn: TurnRequest
    key: str
    author: str
    text: str


class TokenUsage(Record):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0


class ToolCall(Record):
    """One line of the bridge's journal digest."""

    tool: str
    accepted: bool
    comment_id: int | None = None
    commit: str | None = None
    error_code: str | None = None


class TurnOutcome(Record):
    """What became of a turn. `status` is Codex's, `error_code` ours."""

    thread_id: str
    turn_id: str | None
    status: Literal["completed", "interrupted", "failed"]
    error_code: ErrorCode | None = None
    detail: str = ""
    last_message: str = ""
    usage: TokenUsage = TokenUsage()
    """Tokens of this turn."""
    spent: Spend = Spend()
    tools: list[ToolCall] = []
    mode: str = ""
    """The mode the turn really ran in, for `runtime {app: codexapp, mode}`."""
    new_thread: bool = False
    """True when the thread of this session was lost and another was started."""


class SettleRequest(Record):
    """Ask of `settle_workspace`: revoke the lease file, save leftovers, record the tree's hash."""

    repository: RepositoryRef
    repo_key: str
    session_key: str
    task_id: str
    lease_id: str
    workspace: Workspace


class Settled(Record):
    tree: str
    wip_commit: str | None = None
    published: str | None = None
    """SHA that `publish` pushed and Gitea's branch really shows, if any."""
    unsaved: list[str] = []
    """What stays in the worktree but could not be saved: path and reason, the first few."""


class SessionClose(Record):
    """Ask of `close_session`: archive the thread, remove the worktree; saved leftovers stay."""

    repository: RepositoryRef
    repo_key: str
    session_key: str
    kind: ResourceKind
    number: int
    thread_id: str | None = None


class VerifyRequest(Record):
    """Ask of `verify_reply`: is the answer or question of this round in Gitea?"""

    repository: RepositoryRef
    number: int
    task_id: str
    round: int
    budget: float


class Verification(Record):
    """`unknown` means Gitea could not be asked: nothing may be written on it."""

    found: Literal["final", "question", "rest_fallback", "missing", "unknown"]
    comment_id: int | None = None
    turn_id: str | None = None
    detail: str = ""


class FallbackRequest(Record):
    """Ask of `post_fallback`: post the answer by REST under the same marker, then read it back."""

    repository: RepositoryRef
    number: int
    task_id: str
    round: int
    turn_id: str | None
    source_key: str
    text: str
    budget: float
    kind: Literal["rest_fallback", "question"] = "rest_fallback"
    used_up: str = ""
    """For a question about the budget: what ran out (time, tokens, cost)."""
    spent: Spend = Spend()


class HolderProbe(Record):
    """Answer of `probe_task`; `state` is the task's last CcwebState."""

    status: Literal["running", "closed", "killed", "stuck", "missing"]
    """`killed`: terminated or timed out, what ran on the host may still run."""
    state: TaskState | None = None


class TaskEnd(Record):
    """Answer of `read_end`: what a closed task was asked, and what it left if it ended by itself."""

    event: TaskEvent
    result: TaskResult | None = None


class Recovered(Record):
    """Answer of `recover_session` and `recover_repository` for a run that carries nothing."""

    thread_id: str | None = None
    host: str | None = None
    seen_sources: dict[str, str] = {}
    running: list[str] = []
    """taskIds of this session that still run (to adopt)."""
    holder: LeaseRequest | None = None
    epoch: int = 0
    idle_after: float | None = None
    """`session_idle` of the settings; seconds."""


class ReconcileState(Record):
    """What one run of the reconciler leaves to the next: its result, which the Schedule hands on."""

    installed_at: datetime
    """What was written before is never taken."""
    watermarks: dict[str, datetime] = {}
    """repository.id to the time up to which everything was looked at."""
    repaired: list[str] = []
    """Tasks that ended `failed_reply` and whose answer stands in Gitea by now; bounded."""


class ReconcileStart(Record):
    """Input of the Reconcile workflow; the Schedule gives none. `state`: what a dry run goes on from."""

    state: ReconcileState | None = None
    dry_run: bool = False


class ReconcileRequest(Record):
    """Ask of `reconcile`; `now` is the workflow's time. A dry run looks and changes nothing."""

    state: ReconcileState
    now: datetime
    dry_run: bool = False


class ReconcileFind(Record):
    """One thing that nobody had answered."""

    source_key: str
    task_id: str
    session_key: str
    author: str
    kind: Literal["delivered", "known", "answer_posted", "answer_missing", "would_deliver"]


class ReconcileReport(Record):
    """Answer of `reconcile` and result of the Reconcile workflow."""

    state: ReconcileState
    repositories: int = 0
    looked_at: int = 0
    finds: list[ReconcileFind] = []
    errors: list[str] = []
    dry_run: bool = False


class AuditExportStart(Record):
    """Input of the AuditExport workflow: the host that keeps the archive."""

    host: str


class AuditExported(Record):
    """What an export came to: the newest line of the archive, and how many lines were added."""

    seq: int
    head: str
    added: int


class Notice(Record):
    """What a person should know: input of `notify`. Holds ids and codes only, no text that somebody wrote."""

    kind: Literal["failed", "failed_reply", "blocked", "budget", "stuck", "found"]
    task_id: str = ""
    session_key: str = ""
    error_code: ErrorCode | None = None
    count: int = 1
    """How many the reconciler found."""
