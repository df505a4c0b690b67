"""The conversation of one Issue or PR (design section 5, Session).

Takes what ingress delivers, drops what it has seen, starts one AgentTask per source and gives answers to the
task that asked. It never holds a lease and makes no comment but the receipt of a task that was terminated.
"""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    WorkflowAlreadyStartedError,
)
from temporalio.workflow import ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from domain import commands, events, ids
    from domain.commands import CommandName, CommentCommand
    from domain.errors import ErrorCode
    from domain.events import (
        AuthorCheck,
        LeaseRelease,
        Poke,
        ResourceClosed,
        SessionStart,
        TaskEvent,
        TaskResult,
        TaskWaiting,
    )
    from domain.operator import parse_command
    from domain.session_book import SessionBook
    from domain.states import TaskState

from workflows import attributes, calls
from workflows.signals import parse

_FIRST_PROBE = 5.0
_LAST_PROBE = 3600.0
_MOST_CARRIED = 1_000_000
"""Bytes of the inbox in the input of the next run; Temporal takes 2 MB in all."""


@workflow.defn(name="Session")
class Session:
    @workflow.init
    def __init__(self, start: SessionStart) -> None:
        self._start = start
        self._book = SessionBook(start.carried)
        self._inbox: list[TaskEvent | Poke] = list(start.carried.inbox) if start.carried else []
        self._reports: list[TaskWaiting] = []
        self._errands: list[tuple[str, str, Any]] = []
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._close_asked = False
        self._remembered = (self._book.thread_id, self._book.host, self._book.epoch)

    @workflow.run
    async def run(self, start: SessionStart) -> None:
        """Ends some time after the Issue/PR was closed, or when it is cancelled; the next delivery reopens it."""
        life = asyncio.create_task(self._live())
        while not life.done():
            try:
                await asyncio.shield(life)
            except asyncio.CancelledError:
                self._close_asked = True
        life.result()

    async def _live(self) -> None:
        if self._start.carried is None:
            await self._recover()
        while True:
            self._roll_over_if_due()
            while self._has_work():
                await self._work()
            self._show()
            if not self._busy and await self._rest():
                return
            if self._busy:
                await workflow.wait_condition(lambda: self._has_work() or not self._busy)

    @property
    def _busy(self) -> bool:
        """Whether tasks are open or something is looked up: no time to end or to roll over."""
        return bool(self._watches or self._chores)

    def _has_work(self) -> bool:
        stopping = self._close_asked and any(task not in self._book.stopping for task in self._watches)
        return bool(self._inbox or self._reports or self._errands or stopping)

    async def _work(self) -> None:
        while self._errands:
            await calls.signal(*self._errands.pop(0))
        while self._reports:
            await self._heed(self._reports.pop(0))
        if self._inbox:
            await self._open(self._inbox.pop(0))
        elif self._close_asked:
            await self._stop_tasks()

    async def _rest(self) -> bool:
        """Nothing is open: end, roll over, or wait for the next delivery. True to end."""
        self._remember()
        if self._close_asked or (self._book.closed and await self._idle()):
            return await self._close()
        if not self._book.closed:
            await workflow.wait_condition(self._something_new)
        return False

    def _roll_over_if_due(self) -> None:
        """Only when no child is open and nothing is half done; what came in goes along, unless it is too much."""
        if self._busy or self._reports or self._errands or self._close_asked:
            return
        if workflow.info().is_continue_as_new_suggested() and _size(self._inbox) < _MOST_CARRIED:
            carried = self._book.carried().model_copy(update={"inbox": self._inbox})
            workflow.continue_as_new(self._start.model_copy(update={"carried": carried}))

    def _something_new(self) -> bool:
        return self._has_work() or self._close_asked or self._book.closed

    async def _idle(self) -> bool:
        """Whether the closed Issue/PR stayed closed and quiet for the idle time."""
        try:
            await workflow.wait_condition(
                lambda: self._has_work() or self._close_asked or not self._book.closed,
                timeout=timedelta(seconds=self._book.idle_after),
                timeout_summary="close when quiet",
            )
        except TimeoutError:
            return True
        return False

    async def _close(self) -> bool:
        """Frees what the session keeps on its host; what arrived meanwhile goes on instead of ending."""
        if self._book.host is not None:
            try:
                await calls.close_session(self._book.host, self._close_request())
            except ActivityError as error:
                workflow.logger.error("the session was not cleaned up: %s", calls.failure_of(error).text)
        self._close_asked = False
        return not self._has_work()

    def _close_request(self) -> events.SessionClose:
        resource = ids.ResourceRef.parse(self._start.session_key)
        return events.SessionClose.model_validate(
            {
                "repository": self._start.repository,
                "repo_key": ids.repo_key(resource.owner, resource.repo),
                "session_key": self._start.session_key,
                "kind": resource.kind,
                "number": resource.number,
                "thread_id": self._book.thread_id,
            }
        )

    async def _recover(self) -> None:
        """A run that carries nothing asks what an earlier one left, and adopts tasks that still run."""
        recovered = await calls.recover_session(self._start)
        self._book.recover(recovered)
        for task_id in recovered.running:
            if (await calls.probe_task(task_id)).state is TaskState.WAITING_USER:
                self._book.waits(task_id, True)
            self._watch(task_id, self._follow(task_id))

    async def _open(self, delivered: TaskEvent | Poke) -> None:
        """In the order of arrival: an assignment after an unassignment is another one."""
        if isinstance(delivered, TaskEvent):
            await self._take(delivered)
        elif delivered.act == "unassigned":
            self._book.latched = False
        else:
            self._do_beside(self._look_at_reviews(delivered))

    async def _obey(self, event: TaskEvent, command: CommentCommand, present: list[str]) -> None:
        """A comment that commands the session itself, by an author who may trigger, once.

        It is about the tasks that were `present` when it came, not about what was asked after it.
        """
        check = await calls.check_command(event)
        if not check.allowed or check.obeyed:
            return
        present = [task_id for task_id in present if task_id in self._watches]
        done = await self._effect(event, command, present)
        tasks = [self._open_task(task_id) for task_id in present]
        if command.name is CommandName.STATUS:
            states = [(await calls.probe_task(task.task_id)).state for task in tasks]
            tasks = [task.model_copy(update={"state": state}) for task, state in zip(tasks, states, strict=True)]
        spent = self._book.spend.spent
        await calls.acknowledge(
            events.CommandAck(
                event=event, command=command.name, done=done, tasks=tasks, thread_id=self._book.thread_id, spent=spent
            )
        )

    async def _effect(self, event: TaskEvent, command: CommentCommand, present: list[str]) -> bool:
        """Does what the command says; False when there was nothing to do."""
        match command.name:
            case CommandName.STOP:
                return await self._stop_all(event, present)
            case CommandName.RETRY:
                return await self._retry(event, present)
            case CommandName.STEER:
                await self._steer(event.model_copy(update={"instruction": command.text}), present)
            case CommandName.NEW:
                self._book.new_thread()
                self._remember()
            case CommandName.BUDGET:
                return await self._grant(command.budgets, event.author, present)
            case CommandName.STATUS | CommandName.HELP:
                pass
        return True

    async def _stop_all(self, event: TaskEvent, present: list[str]) -> bool:
        order = {"actor": event.author, "reason": f"/stop by {event.author}"}
        for task_id in present:
            await calls.signal(task_id, "cancel", order)
            await calls.signal(task_id, "abort", order)
        return bool(present)

    async def _retry(self, event: TaskEvent, present: list[str]) -> bool:
        """A task that waits for its second try makes it now; else the last unsuccessful request is made again."""
        for task_id in present:
            if (await calls.probe_task(task_id)).state is TaskState.RETRY_WAIT:
                await calls.signal(task_id, "retry", {"actor": event.author})
                return True
        failed = self._book.unsuccessful
        if failed is None:
            return False
        self._book.unsuccessful = None
        again = {"instruction": failed.instruction, "title": failed.title, "author_check": AuthorCheck.ALLOWED}
        await self._start_task(event.model_copy(update=again))
        return True

    async def _steer(self, event: TaskEvent, present: list[str]) -> None:
        """To the task that runs; where none does, it is a request like any other."""
        for task_id in present:
            runs = (await calls.probe_task(task_id)).state is TaskState.RUNNING
            if runs and await calls.signal(task_id, "steer", event) == "delivered":
                return
        if not await self._give_answer(event):
            await self._start_task(event)

    async def _grant(self, budgets: int | None, actor: str, present: list[str]) -> bool:
        if budgets is None:
            return False
        self._book.grant(budgets)
        for task_id in present:
            await calls.signal(task_id, "grant_budget", {"budgets": budgets, "actor": actor})
        return True

    def _open_task(self, task_id: str) -> events.OpenTask:
        event = self._book.open.get(task_id)
        return events.OpenTask(task_id=task_id, asked_by=event.author if event else "")

    async def _take(self, event: TaskEvent) -> None:
        """Routes one delivery: seen, answer, or a task of its own."""
        event = self._book.latch(event)
        if known := self._book.seen(event):
            told = event.delivery_key in self._book.deliveries and workflow.patched("tell-a-delivery-once")
            self._book.note(event, known)
            if known in self._watches and not told:
                await calls.signal(known, "add_delivery", event.delivery_key)
        elif command := commands.parse(event.instruction):
            self._book.note(event, event.task_id)
            self._do_beside(self._obey(event, command, list(self._watches)))
        elif not await self._give_answer(event):
            await self._start_task(event)

    async def _give_answer(self, event: TaskEvent) -> bool:
        """Gives the event to the task that has waited longest, if any is still there."""
        while self._book.waiting:
            task_id = self._book.waiting.pop(0)
            if task_id in self._watches and await calls.signal(task_id, "answer", event) == "delivered":
                self._book.note(event, task_id)
                return True
        return False

    async def _start_task(self, event: TaskEvent) -> None:
        self._book.note(event, event.task_id)
        start = events.TaskStart(
            event=event,
            thread_id=self._book.thread_id,
            host=self._book.host,
            epoch=self._book.epoch,
            session_spend=self._book.spend,
        )
        try:
            child = await workflow.start_child_workflow(
                "AgentTask",
                start,
                id=event.task_id,
                result_type=TaskResult,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
                memo=attributes.task_memo(event),
                search_attributes=attributes.of_task(event),
                static_summary=attributes.summary(event),
            )
        except WorkflowAlreadyStartedError:
            await self._adopt(event)
        else:
            self._watch(event.task_id, self._await_child(child, event))
            if self._book.closed:
                await calls.signal(event.task_id, "resource_closed", True)

    async def _adopt(self, event: TaskEvent) -> None:
        """The task exists from an earlier run: one that runs, or was killed unseen, is followed to its end; one that
        ended by itself answers for the event.
        """
        if event.task_id not in self._watches and (await calls.probe_task(event.task_id)).status != "closed":
            self._watch(event.task_id, self._follow(event.task_id))

    def _watch(self, task_id: str, work: Coroutine[Any, Any, None]) -> None:
        self._watches[task_id] = asyncio.create_task(self._until_closed(task_id, work))

    async def _until_closed(self, task_id: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:  # noqa: BLE001 - a fault in the after-care of one task must not stop the session
            workflow.logger.exception("the end of %s was not handled", task_id)
        del self._watches[task_id]
        self._book.forget(task_id)

    async def _await_child(self, child: workflow.ChildWorkflowHandle[Any, TaskResult], event: TaskEvent) -> None:
        self._book.open[event.task_id] = event
        try:
            result = await child
        except ChildWorkflowError as error:
            ended = _final_result(error)
            if ended is None:
                await self._after_terminated(event)
                return
            result = ended
        await self._after(event, result)

    async def _follow(self, task_id: str) -> None:
        """Looks at a task that is no child of this run, less and less often, until it is closed; then it counts as
        a child that ended.
        """
        delay = _FIRST_PROBE
        while (probe := await calls.probe_task(task_id)).status in {"running", "stuck"}:
            await workflow.sleep(delay, summary=f"follow {task_id}")
            delay = min(delay * 2, _LAST_PROBE)
        if probe.status == "missing":
            return
        end = await calls.read_end(task_id)
        if end.result is None:
            await self._after_terminated(end.event)
        else:
            await self._after(end.event, end.result)

    async def _after(self, event: TaskEvent, result: TaskResult) -> None:
        self._book.ended(event, result)
        others = [task_id for task_id in self._watches if task_id != event.task_id]
        self._errands += [(task_id, "session_spend", self._book.spend) for task_id in others]
        self._inbox.extend(result.unconsumed)
        for late in result.unconsumed:
            self._book.unsee(late)

    async def _after_terminated(self, event: TaskEvent) -> None:
        """A task that was ended without a chance to clean up: free its lease with a grace time, say so once."""
        await self._free_lease(event.task_id)
        receipt = events.CommentRequest(
            repository=event.repository,
            number=event.number,
            comment_key=ids.status_comment_key(event.task_id, "terminated"),
            source_key=event.source_key,
            state=TaskState.FAILED,
            error_code=ErrorCode.TERMINATED,
        )
        try:
            await calls.post_receipt(receipt)
        except ActivityError as error:
            workflow.logger.error("a terminated task could not be told: %s", calls.failure_of(error).text)

    async def _free_lease(self, task_id: str) -> None:
        release = LeaseRelease(task_id=task_id, fenced=False)
        await calls.signal(ids.repository_workflow_id(self._start.repository.id), "release", release)

    async def _heed(self, report: TaskWaiting) -> None:
        """A task waits for an answer: the oldest comment that no turn has begun on is one."""
        if report.task_id not in self._watches:
            self._watch(report.task_id, self._follow(report.task_id))
        self._book.learn(report.thread_id if report.epoch == self._book.epoch else None, report.host)
        self._remember()
        self._book.waits(report.task_id, report.waiting)
        if report.waiting and not await self._fold_into(report.task_id):
            await calls.signal(report.task_id, "noted")
            if self._book.closed:
                await calls.signal(report.task_id, "resource_closed", True)

    async def _fold_into(self, waiting: str) -> bool:
        for task_id, event in self._book.foldable(waiting):
            if (await calls.probe_task(task_id)).state not in {TaskState.RECEIVED, TaskState.QUEUED}:
                continue
            if not await self._give_answer(event):
                return False
            await calls.signal(task_id, "fold", waiting)
            return True
        return False

    def _do_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Does something that may have to wait for Gitea, while the session goes on."""
        chore = asyncio.create_task(self._chore(work))
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    async def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ActivityError as error:
            workflow.logger.error("given up: %s", calls.failure_of(error).text)

    async def _look_at_reviews(self, poke: Poke) -> None:
        self._inbox.extend((await calls.list_reviews(poke)).events)

    async def _stop_tasks(self) -> None:
        for task_id in list(self._watches):
            if task_id not in self._book.stopping:
                self._book.stopping.add(task_id)
                await calls.cancel(task_id)

    def _remember(self) -> None:
        """Mirrors thread and host into the memo, where a later run finds them even after a terminate."""
        known = (self._book.thread_id, self._book.host, self._book.epoch)
        if known != self._remembered:
            self._remembered = known
            workflow.upsert_memo({"threadId": known[0], "host": known[1], "epoch": known[2]})

    def _show(self) -> None:
        workflow.set_current_details(self._book.page(self._start.session_key, list(self._watches)))

    @workflow.signal(description="Ingress: somebody asked for something")
    def deliver(self, event: Any = None) -> None:
        if parsed := parse(TaskEvent, event):
            self._inbox.append(parsed)

    @workflow.signal(description="Ingress: a review was submitted, or the bot was unassigned")
    def poke(self, poke: Any = None) -> None:
        if parsed := parse(Poke, poke):
            self._inbox.append(parsed)

    @workflow.signal(description="Ingress: the Issue/PR was closed or reopened")
    def resource_closed(self, closed: Any = None) -> None:
        if (parsed := parse(ResourceClosed, closed)) and parsed.closed != self._book.closed:
            self._book.closed = parsed.closed
            self._errands += [(task, "resource_closed", parsed.closed) for task in self._watches]

    @workflow.signal(description="Task: I wait for an answer")
    def task_waiting(self, report: Any = None) -> None:
        if parsed := parse(TaskWaiting, report):
            self._reports.append(parsed)

    @workflow.signal(description="Operator: abort the tasks of this session that work")
    def abort(self, command: Any = None) -> None:
        self._pass_on("abort", command)

    @workflow.signal(description="Operator: cancel the tasks of this session that wait")
    def cancel(self, command: Any = None) -> None:
        self._pass_on("cancel", command)

    def _pass_on(self, name: str, command: Any) -> None:
        if parse_command(command) is not None:
            self._errands += [(task_id, name, command) for task_id in self._watches]


def _size(inbox: list[TaskEvent | Poke]) -> int:
    return sum(len(one.model_dump_json().encode()) for one in inbox)


def _final_result(error: ChildWorkflowError) -> TaskResult | None:
    """The result that a failed task left; None when it ended without one."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.details:
        return parse(TaskResult, cause.details[0])
    return None
