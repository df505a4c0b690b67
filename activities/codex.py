"""`run_turn` and `close_session`: one Codex turn under the lease, on this host (design sections 5 and 12)."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator

from temporalio import activity

from activities import codex_thread, codex_turn, turn_telemetry
from activities.codex_turn import Progress, Turn
from activities.layout import Layout
from activities.meter import BudgetExceededError, Meter, last_heartbeat
from activities.waiting import heartbeats, nothing_in_flight
from activities.workspace import remove_worktree
from clients import codex, journal, lease
from clients.codex import CodexClient, RpcError
from domain.errors import CodexError, ErrorCode, WorkspaceError
from domain.events import SessionClose, SteerRequest, ToolCall, TurnOutcome, TurnRequest
from settings import Settings

log = logging.getLogger("ccweb.codex")
_POLL = 0.2


class CodexActivities:
    """Runs on the host queue: threads, worktrees and lease files are this host's."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @activity.defn
    async def run_turn(self, request: TurnRequest) -> TurnOutcome:
        """Runs the turn of `turn_key`, or finds what became of it; heartbeats while it runs.

        Cancelled: the lease is revoked, then the turn is interrupted and cleaned. Worker shutdown: only
        detaches, the next attempt attaches to the same turn.

        Raises:
            CodexError: the app-server, the bridge or the model's configuration failed before a turn ran.
            WorkspaceError: workspace_unavailable, another process of this host holds the repository.
        """
        with turn_telemetry.span(self._settings, request) as span:
            outcome = await self._locked_turn(request)
            turn_telemetry.ended(self._settings, request, outcome, span)
            return outcome

    async def _locked_turn(self, request: TurnRequest) -> TurnOutcome:
        settings = self._settings
        progress = Progress(Meter(settings, request.left), thread_id=request.thread_id)
        progress.meter.resume(last_heartbeat())
        async with heartbeats(settings, progress.details), _locked(settings, request.repository.id):
            held = lease.Lease(request.lease_id, request.task_id)
            lease.grant(settings.lease_dir, request.repository.id, held)
            turn = await self._turn_over_restarts(request, progress)
        return _outcome(settings, request, progress, turn)

    async def _turn_over_restarts(self, request: TurnRequest, progress: Progress) -> Turn:
        """Follows the turn; when the app-server dies, looks what became of it once it is back.

        It may be away for `rpc_timeout`, each time after the turn was reached.
        """
        give_up = time.monotonic() + self._settings.rpc_timeout
        while True:
            try:
                async with codex.connect(self._settings.codex_socket, self._settings.rpc_timeout) as client:
                    return await self._attempt(client, request, progress)
            except CodexError as error:
                if progress.reached:
                    progress.reached, give_up = False, time.monotonic() + self._settings.rpc_timeout
                if error.code != ErrorCode.APP_SERVER_TIMEOUT or time.monotonic() > give_up:
                    raise
                log.warning("app-server lost", extra={"taskId": request.task_id, "detail": error.detail})
            except RpcError as error:
                raise CodexError(ErrorCode.CODEX_CONFIG_INVALID, str(error)[:300]) from error
            await asyncio.sleep(_POLL)

    async def _attempt(self, client: CodexClient, request: TurnRequest, progress: Progress) -> Turn:
        settings = self._settings
        layout = Layout.of_session(settings, request.session_key)
        try:
            # By its name, since a first turn's thread is not in the request: the attempt before us may have begun it.
            own = progress.thread_id or await codex_thread.find(client, codex_thread.thread_name(request))
            await codex_turn.quiet_others(client, str(layout.root), own)
            known = request.model_copy(update={"thread_id": own})
            progress.thread_id, new = await codex_thread.open_thread(client, settings, known)
            progress.new_thread = progress.new_thread or new
            turn = await codex_turn.join_or_start(client, settings, request, progress)
            progress.reached = True
            if turn["status"] == "inProgress":
                turn = await codex_turn.follow(client, settings, progress, request.task_id)
        except asyncio.CancelledError:
            if not _detaching():
                await self._stop(client, request, progress)
            raise
        except BudgetExceededError:
            await self._stop(client, request, progress)
            turn = {"id": progress.turn_id, "status": "interrupted", "items": []}
        except TimeoutError:
            progress.silent = True
            await self._stop(client, request, progress)
            raise CodexError(ErrorCode.APP_SERVER_TIMEOUT, codex_turn.SILENT) from None
        with contextlib.suppress(RpcError):
            await client.call("thread/unsubscribe", {"threadId": progress.thread_id})
        return turn

    async def _stop(self, client: CodexClient, request: TurnRequest, progress: Progress) -> None:
        """Revoke, interrupt, then wait until the bridge has nothing in flight: in this order no write slips out."""
        settings = self._settings
        lease.revoke(settings.lease_dir, request.repository.id, request.lease_id)
        with contextlib.suppress(CodexError, TimeoutError):
            async with asyncio.timeout(settings.stop_budget):
                if progress.thread_id is not None:
                    await codex_turn.stop(client, progress.thread_id, progress.turn_id)
                await nothing_in_flight(settings, request.task_id)

    @activity.defn
    async def steer_turn(self, request: SteerRequest) -> bool:
        """Tells the running turn something; False when there is none. May be retried: it is told once.

        Raises:
            CodexError: app_server_timeout, may be retried.
        """
        settings = self._settings
        async with codex.connect(settings.codex_socket, settings.rpc_timeout) as client:
            turn = request.turn
            thread_id = turn.thread_id or await codex_thread.find(client, codex_thread.thread_name(turn))
            return thread_id is not None and await codex_turn.steer(client, thread_id, request)

    @activity.defn
    async def close_session(self, request: SessionClose) -> None:
        """Archives the thread and removes the worktree; saved leftovers stay in the clone. May be retried."""
        settings = self._settings
        if request.thread_id is not None:
            async with codex.connect(settings.codex_socket, settings.rpc_timeout) as client:
                # Archived already, or gone: nothing is left to do.
                with contextlib.suppress(RpcError):
                    await client.call("thread/archive", {"threadId": request.thread_id})
        async with _locked(settings, request.repository.id):
            await asyncio.to_thread(remove_worktree, settings, request)


def _detaching() -> bool:
    details = activity.cancellation_details()
    return details is not None and (details.worker_shutdown or details.paused)


def _outcome(settings: Settings, request: TurnRequest, progress: Progress, turn: Turn) -> TurnOutcome:
    code, detail = codex_turn.failure(turn, progress)
    lines = journal.read(settings.journal_dir, request.task_id)
    return TurnOutcome(
        thread_id=str(progress.thread_id),
        turn_id=progress.turn_id,
        status=turn["status"],
        error_code=code,
        detail=detail,
        last_message=(codex_turn.last_message(turn) or progress.last_message)[: settings.max_reply_chars],
        usage=progress.meter.usage,
        spent=progress.meter.spent,
        tools=[
            ToolCall(
                tool=line.tool,
                accepted=bool(line.fields.get("accepted")),
                comment_id=line.fields.get("commentId"),
                commit=line.fields.get("commit"),
                error_code=line.fields.get("errorCode"),
            )
            for line in lines
            if line.phase == "result" and line.turn_id == progress.turn_id
        ],
        mode=progress.mode,
        new_thread=progress.new_thread and request.thread_id is not None,
    )


@contextlib.asynccontextmanager
async def _locked(settings: Settings, repository_id: int) -> AsyncIterator[None]:
    """The host's lock of the repository; a zombie's attempt gets its stop budget to let go.

    Raises:
        WorkspaceError: workspace_unavailable, it is still held after that.
    """
    end = time.monotonic() + settings.stop_budget + settings.heartbeat_timeout
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(lease.host_lock(settings.lease_dir, repository_id))
                break
            except lease.LockBusyError:
                if time.monotonic() > end:
                    raise WorkspaceError(ErrorCode.WORKSPACE_UNAVAILABLE, "the repository is in use") from None
            await asyncio.sleep(_POLL)
        yield
