"""One task from `received` to its end: one workflow, one state table, one history (design sections 5 and 6).

`_STATES` maps each state to the coroutine that lives it and returns the next move; `_walk` makes the moves.
A stop (operator's `cancel` or `abort`, cancellation of the workflow, a fold) is one request, honoured at the
next await of the walk.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from domain import budget, events, ids, outcomes
    from domain.errors import ErrorCode
    from domain.events import LeaseGrant, TaskEvent, TaskResult, TaskStart, TaskWaiting, Verdict
    from domain.operator import Command, parse_command, parse_grant
    from domain.outcomes import Failure, Next
    from domain.states import ABORTABLE, CANCELLABLE, FINAL, NEEDS_LEASE, TaskState

from workflows import calls, details
from workflows.signals import parse
from workflows.task_record import TaskRecord
from workflows.verdicts import Verdicts

T = TypeVar("T")
S = TaskState
_MAX_RETRY_WAIT = 3600.0
_MAX_REQUEST_BACKOFF = 900.0
_FOLD_PATIENCE = timedelta(seconds=10)


NoticeKind = Literal["failed", "failed_reply", "blocked", "budget"]
_NOTICES: dict[TaskState, NoticeKind] = {
    S.FAILED: "failed",
    S.FAILED_REPLY: "failed_reply",
    S.BLOCKED_WORKSPACE: "blocked",
}


class StopRequested(Exception):  # noqa: N818 - it is no error
    """The walk was asked to stop."""


@dataclass(frozen=True)
class Stop:
    actor: str
    reason: str


@workflow.defn(name="AgentTask")
class AgentTask:
    @workflow.init
    def __init__(self, start: TaskStart) -> None:
        self._task = TaskRecord(start)
        self._stop: Stop | None = None
        self._stops = 0
        self._interrupted: asyncio.Task[Any] | None = None
        self._grant: LeaseGrant | None = None
        self._answers: list[TaskEvent] = []
        self._unblocked: list[Command] = []
        self._retry_now = False
        self._granted: str | None = None
        self._verdicts = Verdicts()
        self._noted = False
        self._resource_closed = False
        self._fenced = True
        self._telling: list[asyncio.Task[None]] = []
        self._states: dict[TaskState, Callable[[], Awaitable[Next]]] = {
            S.RECEIVED: self._received,
            S.QUEUED: self._queued,
            S.PREPARING: self._preparing,
            S.RUNNING: self._running,
            S.VERIFYING_REPLY: self._verifying_reply,
            S.WAITING_USER: self._waiting_user,
            S.RETRY_WAIT: self._retry_wait,
            S.BLOCKED_WORKSPACE: self._blocked_workspace,
            S.ABORTING: self._aborting,
        }
        self._mends: dict[outcomes.Mend, Callable[[], Awaitable[outcomes.Found]]] = {
            "reply_retry": self._reply_retry,
            "fallback": self._fallback,
        }

    @workflow.run
    async def run(self, start: TaskStart) -> TaskResult:
        """Returns the result; `failed` and `failed_reply` are raised with it, so that lists show them."""
        walk = asyncio.create_task(self._walk())
        while not walk.done():
            try:
                await asyncio.shield(walk)
            except asyncio.CancelledError:
                self._request_stop(Stop("operator", "the workflow was cancelled"))
        await workflow.wait_condition(workflow.all_handlers_finished)
        result = self._task.result(self._answers)
        if result.state in {S.FAILED, S.FAILED_REPLY}:
            raise ApplicationError(result.reason, result, type=str(result.error_code), non_retryable=True)
        return result

    async def _walk(self) -> None:
        try:
            while self._task.state not in FINAL:
                await self._move(await self._next())
            if self._task.owes_a_word:
                await self._say_the_end()
            await asyncio.gather(*self._telling)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run must end and say so
            workflow.logger.exception("the task broke")
            await self._break(error)
        self._show()

    async def _next(self) -> Next:
        try:
            if self._stop is not None and self._task.state is not S.ABORTING:
                raise StopRequested
            return await self._states[self._task.state]()
        except StopRequested:
            return await self._stopped()

    async def _move(self, to: Next) -> None:
        """The one place where a lease is given back: before any state that needs none."""
        if to.state not in NEEDS_LEASE:
            await self._release()
        self._task.move(to)
        self._show()
        if kind := _NOTICES.get(to.state):
            self._tell(kind)

    def _tell(self, kind: NoticeKind) -> None:
        """Beside the walk: people are told even while Gitea is away, and nothing waits for that but the end."""
        self._telling.append(asyncio.create_task(calls.notify(self._task.notice(kind))))

    def _show(self) -> None:
        workflow.set_current_details(details.page(self._task))

    # One coroutine per state.

    async def _received(self) -> Next:
        try:
            admission = await self._admit()
        except ActivityError as error:
            return _failed(calls.failure_of(error))
        return outcomes.after_admission(admission.state, admission.error_code, admission.reason)

    async def _admit(self) -> events.Admission:
        admission = await self._do(calls.admit(events.TaskStart(event=self._task.asked)))
        self._task.admitted(admission)
        return admission

    async def _queued(self) -> Next:
        try:
            await self._do(calls.post_receipt(self._task.receipt()))
        except ActivityError as error:
            return _failed(calls.failure_of(error))
        self._task.announce()
        waited = await self._acquire(resume=self._task.started)
        if waited and (changed := await self._changed_meanwhile()):
            return changed
        return Next(S.PREPARING, f"lease {self._task.lease_id}")

    async def _changed_meanwhile(self) -> Next | None:
        """After a long wait: the request may be edited or deleted, the repository renamed, archived or gone."""
        try:
            admission = await self._admit()
        except ActivityError as error:
            return _failed(calls.failure_of(error))
        return outcomes.after_second_admission(admission.state, admission.error_code, admission.reason)

    async def _preparing(self) -> Next:
        self._task.started = True
        try:
            self._task.workspace = await self._do(
                calls.prepare_workspace(self._host, self._task.policy, self._task.workspace_request())
            )
        except ActivityError as error:
            return self._remember(outcomes.after_preparing, calls.failure_of(error))
        return Next(S.RUNNING, f"workspace at {self._task.workspace.head[:12]}")

    async def _running(self) -> Next:
        if used_up := budget.used_up(self._task.left(), events.Spend()):
            return await self._ask_for_budget(used_up)
        failure = await self._turn(self._task.turn_request())
        if failure is None:
            return Next(S.VERIFYING_REPLY, "the turn completed")
        found = await self._read_back()
        if failure.code is ErrorCode.BUDGET_EXCEEDED and found == "missing":
            return await self._ask_for_budget(failure.detail)
        move = self._remember(lambda lost, used: outcomes.after_lost_turn(lost, found, used), failure)
        if move.state is not S.VERIFYING_REPLY:
            self._task.seen = None
        return move

    async def _verifying_reply(self) -> Next:
        found = self._task.seen.found if self._task.seen else await self._read_back()
        while isinstance(step := outcomes.after_read_back(found, self._task.tried), str):
            self._task.tried.add(step)
            found = await self._mends[step]()
        if step.state is S.WAITING_USER:
            await self._report_waiting()
        return step

    async def _ask_for_budget(self, used_up: str) -> Next:
        """Says it once; only more budget goes on, so the session is not told that any comment is an answer."""
        found = self._task.read_back(await self._do(calls.post_fallback(self._task.budget_question(used_up))))
        self._task.seen = None
        self._task.used_up = used_up
        self._granted = None
        self._tell("budget")
        return outcomes.after_budget_question(found)

    async def _waiting_user(self) -> Next:
        if self._task.used_up:
            return await self._waiting_for_budget()
        await self._do(workflow.wait_condition(lambda: bool(self._answers) or self._resource_closed))
        if not self._answers:
            return self._closed_with_resource()
        answer = self._answers.pop(0)
        self._task.new_round(answer, self._task.round + 1)
        return Next(S.QUEUED, f"answered by {answer.author}", actor=answer.author)

    async def _waiting_for_budget(self) -> Next:
        await self._do(workflow.wait_condition(lambda: self._granted is not None or self._resource_closed))
        if self._granted is None:
            return self._closed_with_resource()
        self._task.new_round(self._task.asked, self._task.round + 1, goes_on=True)
        return Next(S.QUEUED, f"more budget by {self._granted}", actor=self._granted)

    async def _retry_wait(self) -> Next:
        self._retry_now = False
        delay = min(self._task.policy.retry_delay * 2**self._task.waits, _MAX_RETRY_WAIT)
        self._task.waits += 1
        await self._do(_until(lambda: self._retry_now, delay, "retry"))
        await self._acquire(resume=True)
        return Next(S.PREPARING, f"lease {self._task.lease_id}")

    async def _blocked_workspace(self) -> Next:
        self._unblocked.clear()
        if workflow.patched("say-blocked"):
            try:
                await self._do(calls.post_receipt(self._task.abnormal_end()))
            except ActivityError as error:
                self._task.note(f"the block could not be told: {calls.failure_of(error).text}")
        await self._do(workflow.wait_condition(lambda: bool(self._unblocked) or self._resource_closed))
        if not self._unblocked:
            return self._closed_with_resource()
        command = self._unblocked[0]
        return Next(S.QUEUED, command.reason or "unblocked", actor=command.actor)

    async def _aborting(self) -> Next:
        stop = self._stop or Stop("system", "stopped")
        limit = self._task.policy.stop_budget + self._task.policy.heartbeat_timeout
        clean = asyncio.create_task(self._clean_up())
        if not await _until(clean.done, limit, "abort"):
            clean.cancel()
            self._fenced = False
            return Next(S.FAILED, "the turn did not stop in time", ErrorCode.ABORT_TIMEOUT, stop.actor)
        found: outcomes.Found = "missing"
        if self._task.turns:
            found = self._task.read_back(await calls.verify_reply(self._task.verify_request()))
        return outcomes.after_abort(found, stop.reason, stop.actor)

    # Steps that states share.

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits `work` unless a stop is asked for; then `work` is cancelled, and `_aborting` waits for its end."""
        if self._stop is not None:
            work.close()
            raise StopRequested
        task = asyncio.create_task(work)
        await workflow.wait_condition(lambda: task.done() or self._stop is not None)
        if task.done():
            return task.result()
        task.cancel()
        self._interrupted = task
        raise StopRequested

    async def _stopped(self) -> Next:
        stop = self._stop or Stop("system", "stopped")
        move = outcomes.when_stopped(self._task.state, stop.reason, stop.actor)
        if move.state is S.CANCELLED:
            await self._interruption()
        return move

    async def _interruption(self) -> None:
        """Waits until what a stop cancelled has really ended; how it ended no longer matters."""
        if self._interrupted is not None:
            await workflow.wait_condition(self._interrupted.done)
            if not self._interrupted.cancelled():
                self._interrupted.exception()

    async def _clean_up(self) -> None:
        await self._interruption()
        await self._settle()

    async def _acquire(self, *, resume: bool) -> bool:
        """Waits for the workspace; True when it took so long that the request was repeated."""
        lease_id = self._task.next_lease()
        self._show()
        first = backoff = self._task.policy.request_backoff
        while True:
            await self._do(calls.request_lease(self._task.lease_ask(lease_id, resume)))
            if await self._do(_until(self._holds_lease, backoff, f"ask again for {lease_id}")):
                return backoff > first
            backoff = min(backoff * 2, _MAX_REQUEST_BACKOFF)

    def _holds_lease(self) -> bool:
        return self._grant is not None and self._grant.lease_id == self._task.lease_id

    async def _release(self) -> None:
        """Gives the lease back, or withdraws the request for it."""
        if self._task.lease_id is None:
            return
        await self._give_back(self._task.lease_id, self._fenced)
        self._task.lease_id, self._grant, self._fenced = None, None, True

    async def _give_back(self, lease_id: str, fenced: bool) -> None:
        release = self._task.lease_release(lease_id, fenced)
        await calls.signal(ids.repository_workflow_id(self._task.event.repository.id), "release", release)

    async def _turn(self, request: events.TurnRequest) -> Failure | None:
        """Runs a turn and settles the workspace, however the turn ended; None when it completed."""
        try:
            outcome = await self._do(calls.run_turn(self._host, self._task.policy, request))
        except ActivityError as error:
            self._task.same_turn = True
            await self._do(self._settle())
            return calls.failure_of(error)
        self._task.same_turn = False
        self._task.turned(outcome)
        await self._do(self._settle())
        return _failure_in(outcome)

    async def _settle(self) -> None:
        """Revokes the lease on the host before anything is read back: nothing can be written behind our back.
        When even that fails, the answer still counts and the next holder waits a grace time.
        """
        if self._task.workspace is None:
            return
        try:
            settled = await calls.settle_workspace(
                self._host, self._task.policy, self._task.settle_request(self._task.workspace)
            )
        except ActivityError as error:
            self._fenced = False
            self._task.note(f"settle: {calls.failure_of(error).text}")
            return
        self._task.commit = settled.published or self._task.commit
        if settled.unsaved:
            self._task.note(f"not saved: {'; '.join(settled.unsaved)}")

    async def _read_back(self) -> outcomes.Found:
        return self._task.read_back(await self._do(calls.verify_reply(self._task.verify_request())))

    async def _reply_retry(self) -> outcomes.Found:
        failure = await self._turn(self._task.reply_retry_request())
        if failure is not None:
            self._task.note(f"reply retry: {failure.text}")
        return await self._read_back()

    async def _fallback(self) -> outcomes.Found:
        return self._task.read_back(await self._do(calls.post_fallback(self._task.fallback_request())))

    async def _report_waiting(self) -> None:
        """Tells the session while the lease is still held: a comment that waits in the queue behind this task
        is the answer, and must not start a turn of its own.
        """
        task = self._task
        waiting = TaskWaiting(
            task_id=task.event.task_id, waiting=True, thread_id=task.thread_id, epoch=task.epoch, host=task.host
        )
        self._noted = False
        session = ids.session_workflow_id(self._task.event.session_key)
        if await calls.signal(session, "task_waiting", waiting) == "delivered":
            await self._do(
                _until(lambda: self._noted or bool(self._answers), _FOLD_PATIENCE.total_seconds(), "session")
            )

    async def _say_the_end(self) -> None:
        """Posts the one receipt of an abnormal end, for as long as it takes; another stop gives it up."""
        stops = self._stops
        post = asyncio.create_task(calls.post_receipt(self._task.abnormal_end()))
        await workflow.wait_condition(lambda: post.done() or self._stops > stops)
        if not post.done():
            post.cancel()
        try:
            await post
        except ActivityError as error:
            workflow.logger.error("the end of the task could not be told: %s", calls.failure_of(error).text)

    async def _break(self, error: Exception) -> None:
        """A fault of ours must end the task, never leave it running and stuck."""
        self._fenced = False
        if self._task.state not in FINAL:
            await self._move(outcomes.when_broken(self._task.state, f"{type(error).__name__}: {error}"))
            self._task.silent = False
            await self._say_the_end()

    def _remember(self, decide: Callable[[Failure, dict[ErrorCode, int]], Next], failure: Failure) -> Next:
        move = decide(failure, self._task.used)
        self._task.failed_with(failure)
        return move

    def _closed_with_resource(self) -> Next:
        self._task.silent = True
        return Next(S.CANCELLED, "the Issue/PR was closed")

    @property
    def _host(self) -> str:
        if self._task.host is None:
            raise RuntimeError("no lease, no host")
        return self._task.host

    # Signals: each takes anything, parses inside, never raises.

    @workflow.signal(description="Repository: the workspace is yours")
    async def lease_granted(self, grant: Any = None) -> None:
        """A grant that nobody waits for any more (its request came late) is given back at once."""
        parsed = parse(LeaseGrant, grant)
        if parsed is None:
            self._task.note("ignored an unreadable grant")
        elif parsed.lease_id == self._task.lease_id:
            self._grant = parsed
            self._task.granted(parsed)
        else:
            await self._give_back(parsed.lease_id, fenced=True)

    @workflow.signal(description="Session: the user's answer to the question")
    def answer(self, event: Any = None) -> None:
        if parsed := parse(TaskEvent, event):
            self._answers.append(parsed)
        else:
            self._task.note("ignored an unreadable answer")

    @workflow.signal(description="Session: what it used up beside this task")
    def session_spend(self, spend: Any = None) -> None:
        if parsed := parse(events.SessionSpend, spend):
            self._task.session_spend = parsed

    @workflow.signal(description="Session: tell the running turn something (/steer)")
    async def steer(self, event: Any = None) -> None:
        """What cannot be told to a running turn is taken as an answer, or given back as a request of its own."""
        parsed = parse(TaskEvent, event)
        if parsed is not None and not await self._steered(parsed):
            self._answers.append(parsed)

    async def _steered(self, event: TaskEvent) -> bool:
        if self._task.state is not S.RUNNING or self._task.turns == 0:
            return False
        try:
            return await calls.steer_turn(self._host, self._task.steer_request(event))
        except ActivityError as error:
            self._task.note(f"steer: {calls.failure_of(error).text}")
            return False

    @workflow.signal(description="Operator or session: allow so many more budgets (a number, or {budgets, actor})")
    def grant_budget(self, grant: Any = None) -> None:
        budgets, actor = parse_grant(grant)
        if budgets is None:
            self._task.note("grant_budget: ignored, its argument cannot be read")
            return
        self._task.grant(budgets)
        self._task.note(f"grant_budget by {actor}: {budgets} more")
        self._granted = actor
        self._show()

    @workflow.signal(description="Session: the report of waiting was read")
    def noted(self, _: Any = None) -> None:
        self._noted = True

    @workflow.signal(description="Session: this comment became the answer to another task's question")
    def fold(self, into: Any = None) -> None:
        if self._task.state in {S.RECEIVED, S.QUEUED} and not self._task.started and self._stop is None:
            self._task.silent = True
            self._request_stop(Stop("session", f"folded into {into}"))
        else:
            self._task.note(f"not folded into {into}: already {self._task.state}")

    @workflow.signal(description="Session: the Issue/PR was closed (true) or reopened (false)")
    def resource_closed(self, closed: Any = True) -> None:
        self._resource_closed = closed is not False

    @workflow.signal(description="Session: another delivery of the same source")
    def add_delivery(self, delivery: Any = None) -> None:
        if isinstance(delivery, str):
            self._task.add_delivery(delivery)

    @workflow.signal(description="Operator: end a task that does not run (received, queued, waiting, blocked, retry)")
    def cancel(self, command: Any = None) -> None:
        self._operate("cancel", command, CANCELLABLE, self._stop_by)

    @workflow.signal(description="Operator: end a task that works (preparing, running, verifying)")
    def abort(self, command: Any = None) -> None:
        self._operate("abort", command, ABORTABLE, self._stop_by)

    @workflow.signal(description="Operator: the workspace is usable again")
    def unblock(self, command: Any = None) -> None:
        self._operate("unblock", command, {S.BLOCKED_WORKSPACE}, self._unblock_by)

    @workflow.signal(description="Operator: do not wait, try again now")
    def retry(self, command: Any = None) -> None:
        self._operate("retry", command, {S.RETRY_WAIT}, self._retry_by)

    # The same four as updates: whoever waits for an answer calls these, and needs a worker.

    @workflow.update(name="cancel", description="Operator: as the signal, with an answer")
    def cancel_now(self, command: Any = None) -> Verdict:
        return self._operate("cancel", command, CANCELLABLE, self._stop_by)

    @workflow.update(name="abort", description="Operator: as the signal, with an answer")
    def abort_now(self, command: Any = None) -> Verdict:
        return self._operate("abort", command, ABORTABLE, self._stop_by)

    @workflow.update(name="unblock", description="Operator: as the signal, with an answer")
    def unblock_now(self, command: Any = None) -> Verdict:
        return self._operate("unblock", command, {S.BLOCKED_WORKSPACE}, self._unblock_by)

    @workflow.update(name="retry", description="Operator: as the signal, with an answer")
    def retry_now(self, command: Any = None) -> Verdict:
        return self._operate("retry", command, {S.RETRY_WAIT}, self._retry_by)

    @workflow.query(description="The lease this task holds now, if any")
    def lease_id(self) -> str | None:
        return self._task.lease_id if self._holds_lease() else None

    def _operate(
        self, name: str, raw: Any, legal: set[TaskState] | frozenset[TaskState], act: Callable[[Command], None]
    ) -> Verdict:
        command = parse_command(raw)
        if known := self._verdicts.known(command):
            return known
        state = self._task.state
        accepted = command is not None and state in legal and self._stop is None
        if command is None:
            self._task.note(f"{name}: ignored, its argument cannot be read")
        elif not accepted:
            self._task.note(f"{name} by {command.actor}: nothing to do in {state}")
        else:
            self._task.note(f"{name} by {command.actor}: {command.reason or 'no reason given'}")
            act(command)
        self._show()
        return self._verdicts.note(command, name, accepted, state)

    def _stop_by(self, command: Command) -> None:
        self._request_stop(Stop(command.actor, command.reason or "stopped by an operator"))

    def _unblock_by(self, command: Command) -> None:
        self._unblocked.append(command)

    def _retry_by(self, _: Command) -> None:
        self._retry_now = True

    def _request_stop(self, stop: Stop) -> None:
        self._stops += 1
        self._stop = self._stop or stop


def _failed(failure: Failure) -> Next:
    return Next(S.FAILED, failure.text, failure.code)


def _failure_in(outcome: events.TurnOutcome) -> Failure | None:
    if outcome.error_code is not None:
        return Failure(outcome.error_code, outcome.detail)
    if outcome.status == "completed":
        return None
    code = ErrorCode.INTERRUPTED_BY_RESTART if outcome.status == "interrupted" else ErrorCode.INTERNAL_ERROR
    return Failure(code, outcome.detail or f"Codex says {outcome.status}")


async def _until(condition: Callable[[], bool], seconds: float, summary: str) -> bool:
    """Whether the condition came true in time."""
    try:
        await workflow.wait_condition(condition, timeout=timedelta(seconds=seconds), timeout_summary=summary)
    except TimeoutError:
        return False
    return True
