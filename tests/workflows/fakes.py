"""Activities under the real names, with outcomes that a test chooses; Temporal itself is real."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError

from domain import events, ids
from domain.errors import TEXTS, ErrorCode
from domain.states import TaskState

POLICY = events.TaskPolicy(
    heartbeat_timeout=1,
    stop_budget=1,
    turn_timeout=600,
    retry_delay=0.1,
    request_backoff=30,
    read_back_budget=1,
)
Step = Any
"""What a call does: a record to return, an ErrorCode to raise, or an async function of the request."""


def repository(number: int) -> events.RepositoryRef:
    return events.RepositoryRef(id=number, owner="octo", name=f"repo{number}")


def event(repo: int, text: str = "please fix it", *, object_id: int, issue: int = 1, **more: Any) -> events.TaskEvent:
    """A comment in an issue; `object_id` is what makes it one of its own."""
    ref = repository(repo)
    key = ids.repo_key(ref.owner, ref.name)
    delivery = ids.delivery_key(f"{repo}-{object_id}")
    fields: dict[str, Any] = {
        "delivery_id": f"{repo}-{object_id}",
        "delivery_key": delivery,
        "source_key": ids.source_key(repo, "comment", object_id),
        "task_id": ids.task_id(delivery),
        "event_type": "issue_comment",
        "repository": ref,
        "repo_key": key,
        "session_key": ids.resource_key(key, "issue", issue),
        "kind": "issue",
        "number": issue,
        "source_kind": "comment",
        "source_id": str(object_id),
        "author": "alice",
        "author_check": events.AuthorCheck.ALLOWED,
        "instruction": text,
        "received_at": datetime(2026, 11, 30, tzinfo=UTC),
    }
    return events.TaskEvent(**{**fields, **more})


def failure(code: ErrorCode) -> ApplicationError:
    """As the worker's interceptor raises it."""
    return ApplicationError("for a test", type=str(code), non_retryable=not TEXTS[code].retryable)


class Fakes:
    """`plans[name]` is taken step by step per activity, then `usual[name]` or the default; `calls` are the requests
    seen.
    """

    def __init__(self) -> None:
        self.calls: dict[str, list[Any]] = defaultdict(list)
        self.plans: dict[str, list[Step]] = defaultdict(list)
        self.usual: dict[str, Step] = {}
        self.order: list[str] = []
        self.running = 0
        self.overlaps = 0
        self.gates: dict[str, asyncio.Event] = {}
        self.entered: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def plan(self, name: str, *steps: Step) -> None:
        self.plans[name] += steps

    def hold(self, name: str) -> Callable[[Any], Awaitable[Any]]:
        """A step that heartbeats until `open_gate(name)`; a cancellation ends it."""
        self.gates[name] = asyncio.Event()

        async def step(request: Any) -> Any:
            self.entered[name].set()
            while not self.gates[name].is_set():
                activity.heartbeat()
                await asyncio.sleep(0.05)
            return self._default(activity.info().activity_type, request)

        return step

    def open_gate(self, name: str) -> None:
        self.gates[name].set()

    async def _run(self, request: Any, kind: type[BaseModel] | None) -> Any:
        name = activity.info().activity_type
        self.calls[name].append(request)
        plan = self.plans[name]
        step = plan.pop(0) if plan else self.usual.get(name) or self._default(name, request)
        if isinstance(step, ErrorCode):
            raise failure(step)
        if isinstance(step, Exception):
            raise step
        return await step(request) if callable(step) else step

    def _default(self, name: str, request: Any) -> Any:
        defaults: dict[str, Callable[[Any], Any]] = {
            "admit": _admitted,
            "post_receipt": lambda _: events.CommentPosted(comment_id=1, created=True),
            "verify_reply": lambda _: events.Verification(found="final", comment_id=7, turn_id="turn-1"),
            "post_fallback": lambda _: events.Verification(found="rest_fallback", comment_id=8),
            "prepare_workspace": lambda _: events.Workspace(path="/w", branch="ccweb/issue-1", head="a1", base="b1"),
            "run_turn": _outcome,
            "settle_workspace": lambda _: events.Settled(tree="t1"),
            "close_session": lambda _: None,
            "list_reviews": lambda _: events.Reviews(),
            "check_command": lambda _: events.CommandCheck(allowed=True),
            "acknowledge": lambda _: None,
            "steer_turn": lambda _: True,
            "notify": lambda _: None,
        }
        return defaults[name](request)

    @activity.defn
    async def admit(self, start: events.TaskStart) -> events.Admission:
        return await self._run(start, events.Admission)  # type: ignore[no-any-return]

    @activity.defn
    async def post_receipt(self, request: events.CommentRequest) -> events.CommentPosted:
        return await self._run(request, events.CommentPosted)  # type: ignore[no-any-return]

    @activity.defn
    async def verify_reply(self, request: events.VerifyRequest) -> events.Verification:
        return await self._run(request, events.Verification)  # type: ignore[no-any-return]

    @activity.defn
    async def post_fallback(self, request: events.FallbackRequest) -> events.Verification:
        return await self._run(request, events.Verification)  # type: ignore[no-any-return]

    @activity.defn
    async def prepare_workspace(self, request: events.WorkspaceRequest) -> events.Workspace:
        return await self._run(request, events.Workspace)  # type: ignore[no-any-return]

    @activity.defn
    async def run_turn(self, request: events.TurnRequest) -> events.TurnOutcome:
        self.running += 1
        self.overlaps += self.running > 1
        self.order.append(request.task_id)
        try:
            return await self._run(request, events.TurnOutcome)  # type: ignore[no-any-return]
        finally:
            self.running -= 1

    @activity.defn
    async def settle_workspace(self, request: events.SettleRequest) -> events.Settled:
        return await self._run(request, events.Settled)  # type: ignore[no-any-return]

    @activity.defn
    async def close_session(self, request: events.SessionClose) -> None:
        await self._run(request, None)

    @activity.defn
    async def list_reviews(self, poke: events.Poke) -> events.Reviews:
        return await self._run(poke, events.Reviews)  # type: ignore[no-any-return]

    @activity.defn
    async def check_command(self, event: events.TaskEvent) -> events.CommandCheck:
        return await self._run(event, events.CommandCheck)  # type: ignore[no-any-return]

    @activity.defn
    async def acknowledge(self, ack: events.CommandAck) -> None:
        await self._run(ack, None)

    @activity.defn
    async def notify(self, notice: events.Notice) -> None:
        await self._run(notice, None)

    @activity.defn
    async def steer_turn(self, request: events.SteerRequest) -> bool:
        return await self._run(request, None)  # type: ignore[no-any-return]

    @property
    def shared(self) -> list[Callable[..., Any]]:
        return [
            self.admit,
            self.post_receipt,
            self.verify_reply,
            self.post_fallback,
            self.list_reviews,
            self.check_command,
            self.acknowledge,
            self.notify,
        ]

    @property
    def on_host(self) -> list[Callable[..., Any]]:
        return [self.prepare_workspace, self.run_turn, self.steer_turn, self.settle_workspace, self.close_session]

    def receipts(self, state: TaskState) -> list[events.CommentRequest]:
        return [
            request for request in self.calls["post_receipt"] if request.state is state and not request.reaction_only
        ]


def _admitted(start: events.TaskStart) -> events.Admission:
    return events.Admission(state="queued", repository=start.event.repository, policy=POLICY)


def _outcome(request: events.TurnRequest) -> events.TurnOutcome:
    return events.TurnOutcome(
        thread_id=f"thread of {request.session_key}",
        turn_id=f"turn of {request.turn_key}",
        status="completed",
        last_message="Done.",
    )


def interrupted(request: events.TurnRequest) -> events.TurnOutcome:
    return _outcome(request).model_copy(update={"status": "interrupted", "last_message": ""})


async def cut(request: Any) -> events.TurnOutcome:
    return interrupted(request)


def found(kind: str) -> events.Verification:
    return events.Verification.model_validate({"found": kind})
