"""At most one Codex turn per turnKey, followed to its end (the measured recipe).

`turn/start` is not idempotent, so the key is looked for first: found and finished is returned, found and
running is attached to, and only when it is not there and the thread is idle a turn starts. A turn that was cut
is never run again here; the workflow looks in Gitea first.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from activities import codex_thread
from activities.meter import Meter
from clients.codex import CodexClient, RpcError
from domain import prompts, turn_errors
from domain.errors import CodexError, ErrorCode
from domain.events import SteerRequest, TurnRequest
from settings import Settings

log = logging.getLogger("ccweb.codex")
_RUNNING = "inProgress"
_PAGES = 5
_INTERRUPT_LIMIT = 5.0
_IDLE_POLL = 0.2
SILENT = "the turn was silent or ran too long"


@dataclass(slots=True)
class Progress:
    """What the heartbeat tells; times are those of the monotonic clock."""

    meter: Meter
    thread_id: str | None = None
    turn_id: str | None = None
    last_event: float = field(default_factory=time.monotonic)
    events: int = 0
    reached: bool = False
    """The turn was found or started by the connection we have."""
    last_message: str = ""
    new_thread: bool = False
    silent: bool = False
    """We interrupted the turn, because it was silent or ran too long."""
    mode: str = "default"

    def details(self) -> dict[str, Any]:
        age = round(time.monotonic() - self.last_event, 1)
        return {
            "threadId": self.thread_id,
            "turnId": self.turn_id,
            "eventSeq": self.events,
            "silentFor": age,
        } | self.meter.details()


Turn = dict[str, Any]


async def join_or_start(client: CodexClient, settings: Settings, request: TurnRequest, progress: Progress) -> Turn:
    """The turn of `request.turn_key`: the one that is there, or a fresh one.

    Raises:
        CodexError: app_server_timeout, the thread is busy with another turn; may be retried.
    """
    thread_id = str(progress.thread_id)
    turn = await find(client, thread_id, request.turn_key)
    if turn is None:
        if await codex_thread.is_active(client, thread_id):
            raise CodexError(ErrorCode.APP_SERVER_TIMEOUT, "the thread is busy with another turn")
        await codex_thread.preflight(client, thread_id, request)
        turn = await _start(client, settings, request, progress)
    progress.turn_id = str(turn["id"])
    return turn


async def find(client: CodexClient, thread_id: str, turn_key: str) -> Turn | None:
    """The turn whose user message carries the key, newest first."""
    cursor = None
    for _ in range(_PAGES):
        query = {"threadId": thread_id, "itemsView": "full", "limit": 20, "cursor": cursor}
        page = await client.call("thread/turns/list", query)
        for turn in page["data"]:
            if any(item.get("clientId") == turn_key for item in turn["items"]):
                found: Turn = turn
                return found
        cursor = page.get("nextCursor")
        if not cursor:
            break
    return None


def metadata(request: TurnRequest) -> dict[str, str]:
    """What each tool call of the turn carries; a later message of ours must carry the same, or it is replaced."""
    return {
        "ccweb_task_id": request.task_id,
        "ccweb_lease_id": request.lease_id,
        "ccweb_round": str(request.round),
        "ccweb_source_key": request.source_key,
    }


async def steer(client: CodexClient, thread_id: str, request: SteerRequest) -> bool:
    """Tells the running turn something, once; False when it does not run."""
    if await find(client, thread_id, request.key) is not None:
        return True
    turn = await find(client, thread_id, request.turn.turn_key)
    if turn is None or turn["status"] != _RUNNING:
        return False
    params = {
        "threadId": thread_id,
        "expectedTurnId": turn["id"],
        "clientUserMessageId": request.key,
        "input": [{"type": "text", "text": prompts.steer_text(request.author, request.text)}],
        "responsesapiClientMetadata": metadata(request.turn),
    }
    try:
        await client.call("turn/steer", params)
    except RpcError as error:
        log.info("not steered", extra={"taskId": request.turn.task_id, "detail": error.message[:200]})
        return False
    return True


async def _start(client: CodexClient, settings: Settings, request: TurnRequest, progress: Progress) -> Turn:
    params = {
        "threadId": progress.thread_id,
        "clientUserMessageId": request.turn_key,
        "input": [{"type": "text", "text": prompts.turn_text(request)}],
        "responsesapiClientMetadata": metadata(request),
    }
    mode = {
        "mode": "default",
        "settings": {
            "model": settings.model,
            "reasoning_effort": settings.reasoning_effort,
            "developer_instructions": None,
        },
    }
    try:
        answer = await client.call("turn/start", {**params, "collaborationMode": mode})
    except RpcError as error:
        if "ollaboration" not in error.message:
            raise CodexError(ErrorCode.CODEX_CONFIG_INVALID, str(error)[:300]) from error
        log.warning("capability_downgrade", extra={"taskId": request.task_id, "detail": error.message[:200]})
        progress.mode = "plain"
        answer = await client.call("turn/start", params)
    turn: Turn = answer["turn"]
    return turn


async def follow(client: CodexClient, settings: Settings, progress: Progress, task_id: str) -> Turn:
    """Reads events until the turn ends, and returns it.

    Raises:
        CodexError: app_server_timeout, the connection closed: the turn's state is unknown.
        TimeoutError: it was silent or ran too long.
        BudgetExceededError: it used up what it was allowed.
    """
    end = time.monotonic() + settings.turn_timeout
    events = client.notifications()
    progress.last_event = time.monotonic()
    while True:
        limit = min(settings.silence_timeout, end - time.monotonic())
        message = await _next(events, limit, progress.meter)
        params = message.get("params") or {}
        if params.get("threadId") != progress.thread_id:
            continue
        progress.last_event = time.monotonic()
        progress.events += 1
        _note(message["method"], params, progress, task_id)
        turn = params.get("turn")
        if message["method"] == "turn/completed" and isinstance(turn, dict) and turn["id"] == progress.turn_id:
            return turn


async def _next(events: AsyncIterator[dict[str, Any]], limit: float, meter: Meter) -> dict[str, Any]:
    """The next event within `limit` seconds, or within the budget of time if that is less."""
    allowed = meter.seconds_left
    try:
        return await asyncio.wait_for(anext(events), max(limit if allowed is None else min(limit, allowed), 0.01))
    except TimeoutError:
        meter.check()
        raise


def _note(method: str, params: dict[str, Any], progress: Progress, task_id: str) -> None:
    if method == "thread/tokenUsage/updated":
        progress.meter.read(params["tokenUsage"])
        progress.meter.check()
    elif method == "item/completed":
        _note_item(params["item"], progress, task_id)


def _note_item(item: dict[str, Any], progress: Progress, task_id: str) -> None:
    """Logs what the agent did, without its text; commands and tools are named for operators."""
    kind = item.get("type")
    extra = {"taskId": task_id, "turnId": progress.turn_id, "item": kind}
    if kind == "agentMessage":
        progress.last_message = str(item.get("text", ""))
    elif kind == "commandExecution":
        command = str(item.get("command", ""))[:200]
        log.info("command finished", extra={**extra, "command": command, "exitCode": item.get("exitCode")})
    elif kind == "mcpToolCall":
        log.info("tool finished", extra={**extra, "tool": item.get("tool"), "status": item.get("status")})


def failure(turn: Turn, progress: Progress) -> tuple[ErrorCode | None, str]:
    """Our code of a turn that did not complete, and Codex's words; we may have interrupted it ourselves."""
    if turn["status"] == "interrupted" and progress.meter.used_up:
        return ErrorCode.BUDGET_EXCEEDED, progress.meter.used_up
    if turn["status"] == "interrupted" and progress.silent:
        return ErrorCode.APP_SERVER_TIMEOUT, SILENT
    if turn["status"] == "interrupted":
        return ErrorCode.INTERRUPTED_BY_RESTART, "the turn was cut"
    if turn["status"] == "failed":
        error = turn.get("error") or {}
        message = str(error.get("message", ""))
        return turn_errors.turn_error(message, error.get("codexErrorInfo")), message[:300]
    return None, ""


def last_message(turn: Turn) -> str:
    texts = [str(item.get("text", "")) for item in turn["items"] if item.get("type") == "agentMessage"]
    return texts[-1] if texts else ""


async def stop(client: CodexClient, thread_id: str, turn_id: str | None) -> None:
    """Interrupts what runs in a thread, ends its commands, and waits until it is idle.

    Raises:
        CodexError: the app-server does not answer; its death ends the turn too.
    """
    if turn_id is not None:
        # A wrong or finished turn is refused, an already interrupted one is never answered: neither matters.
        with contextlib.suppress(RpcError, CodexError):
            await client.call("turn/interrupt", {"threadId": thread_id, "turnId": turn_id}, _INTERRUPT_LIMIT)
    with contextlib.suppress(RpcError):
        await client.call("thread/backgroundTerminals/clean", {"threadId": thread_id}, _INTERRUPT_LIMIT)
    while await codex_thread.is_active(client, thread_id):
        await asyncio.sleep(_IDLE_POLL)


async def quiet_others(client: CodexClient, root: str, but: str | None) -> None:
    """Stops every other loaded thread that works under a repository's root: turns of tasks that are gone."""
    for thread_id in await codex_thread.loaded(client):
        if thread_id == but:
            continue
        with contextlib.suppress(RpcError):
            await _quiet(client, thread_id, root)


async def _quiet(client: CodexClient, thread_id: str, root: str) -> None:
    thread = (await client.call("thread/read", {"threadId": thread_id}))["thread"]
    if not str(thread.get("cwd", "")).startswith(root) or thread["status"]["type"] != "active":
        return
    log.warning("stopping a turn whose task is gone", extra={"threadId": thread_id})
    await client.call("thread/resume", {"threadId": thread_id, "excludeTurns": True})
    page = await client.call("thread/turns/list", {"threadId": thread_id, "limit": 1})
    running = [turn["id"] for turn in page["data"] if turn["status"] == _RUNNING]
    await stop(client, thread_id, running[0] if running else None)
    await client.call("thread/unsubscribe", {"threadId": thread_id})
