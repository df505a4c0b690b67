"""What an AgentTask knows about itself, and the requests made from it. Holds no control flow."""

from datetime import datetime
from typing import Any, Literal

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

with workflow.unsafe.imports_passed_through():
    from domain import budget, events, ids, search_attributes
    from domain.errors import ErrorCode
    from domain.events import Move, TaskEvent
    from domain.metrics import LEASE_WAIT, QUEUE_WAIT, RECEIPT_DELAY, TASK_DURATION, TASKS_ENDED
    from domain.outcomes import NO_FINAL_TEXT, Failure, Found, Mend, Next
    from domain.states import FINAL, TaskState, check_move

from workflows import metering

_MAX_MOVES = 100
_MAX_NOTES = 20
STATE = SearchAttributeKey.for_keyword(search_attributes.STATE)
DELIVERIES = SearchAttributeKey.for_keyword_list(search_attributes.DELIVERIES)
COST = SearchAttributeKey.for_float(search_attributes.COST)


class TaskRecord:
    """The facts of one task. `asked` is what the current round answers."""

    def __init__(self, start: events.TaskStart) -> None:
        self.event = start.event
        self.asked = start.event
        self.state = TaskState.RECEIVED
        self.moves: list[Move] = []
        self.version = 0
        self.notes: list[str] = []
        self.deliveries = [start.event.delivery_key]
        self._shown_deliveries = [start.event.delivery_key]
        self.admission: events.Admission | None = None
        self.thread_id = start.thread_id
        self.epoch = start.epoch
        self.thread_name = ids.thread_name(start.event.session_key, start.epoch)
        self.host = start.host
        self.spent = events.Spend()
        self.grants = 0
        self.session_spend = start.session_spend
        self.turn_id: str | None = None
        self.comment_id: int | None = None
        self.commit: str | None = None
        self.lease_id: str | None = None
        self.leases = 0
        self._lease_asked: datetime | None = None
        self.announced = False
        self.started = False
        self.silent = False
        self.workspace: events.Workspace | None = None
        self.new_round(start.event, 1)

    def new_round(self, asked: TaskEvent, number: int, *, goes_on: bool = False) -> None:
        """A round is one request or one answer of the user, with its own tries.

        `goes_on`: it is the former request again, which was interrupted.
        """
        self.asked = asked
        if asked.delivery_key not in self.deliveries:
            self.deliveries.append(asked.delivery_key)
        self.round = number
        self.goes_on = goes_on
        self.used_up: str | None = None
        self.turns = 0
        self.waits = 0
        self.same_turn = False
        self.outcome: events.TurnOutcome | None = None
        self.seen: events.Verification | None = None
        self.used: dict[ErrorCode, int] = {}
        self.tried: set[Mend] = set()
        self.last_message = ""

    @property
    def policy(self) -> events.TaskPolicy:
        return self._admitted.policy

    @property
    def repository(self) -> events.RepositoryRef:
        return self.admission.repository if self.admission else self.event.repository

    @property
    def _admitted(self) -> events.Admission:
        if self.admission is None:
            raise RuntimeError("the task is not admitted yet")
        return self.admission

    def admitted(self, admission: events.Admission) -> None:
        """What Gitea says now; a request that was edited is worked on as it reads now."""
        self.admission = admission
        if admission.instruction is not None:
            self.asked = self.asked.model_copy(update={"instruction": admission.instruction})
            self.note("the request was edited meanwhile")

    def move(self, to: Next) -> None:
        """Makes a legal move and shows it; raises IllegalMoveError for any other."""
        check_move(self.state, to.state)
        self.version += 1
        self.moves = [*self.moves, self._move(to)][-_MAX_MOVES:]
        self.state = to.state
        workflow.upsert_search_attributes([STATE.value_set(to.state), *self._new_deliveries()])
        if to.state in FINAL:
            metering.count(TASKS_ENDED, {"state": to.state, "error_code": to.code or ""})
            metering.since(self.event.received_at, TASK_DURATION, {"state": to.state})

    def _move(self, to: Next) -> Move:
        return Move(
            from_state=self.state,
            to_state=to.state,
            state_version=self.version,
            reason=to.reason,
            error_code=to.code,
            actor=to.actor,
            at=workflow.now(),
        )

    def note(self, text: str) -> None:
        """Something that happened but moved nothing."""
        self.notes = [*self.notes, f"{workflow.now():%Y-%m-%d %H:%M:%S}Z {text}"][-_MAX_NOTES:]

    def failed_with(self, failure: Failure) -> None:
        """Counts a try that failed, unless it never ran."""
        if not failure.host_away:
            self.used[failure.code] = self.used.get(failure.code, 0) + 1

    def add_delivery(self, delivery: str) -> None:
        """Another delivery of the same source; it finds this task from now on."""
        if delivery not in self.deliveries:
            self.deliveries.append(delivery)
            if new := self._new_deliveries():
                workflow.upsert_search_attributes(new)

    def _new_deliveries(self) -> list[SearchAttributeUpdate[Any]]:
        """What lists do not show yet."""
        own, *others = self.deliveries
        value = search_attributes.deliveries([own, *others], [ids.task_id(key) for key in others])
        if value == self._shown_deliveries:
            return []
        self._shown_deliveries = value
        return [DELIVERIES.value_set(value)]

    def announce(self) -> None:
        """The receipt is in Gitea; in later rounds, the reaction."""
        if not self.announced:
            metering.since(self.event.received_at, RECEIPT_DELAY)
        self.announced = True

    def next_lease(self) -> str:
        self.leases += 1
        self._lease_asked = workflow.now()
        self.lease_id = ids.lease_id(self.event.task_id, self.leases)
        return self.lease_id

    def granted(self, grant: events.LeaseGrant) -> None:
        self._measure_wait()
        self.host = grant.host
        self.thread_id = grant.thread_id or self.thread_id

    def _measure_wait(self) -> None:
        """Once for each lease, whose grant may be repeated."""
        if self._lease_asked is None:
            return
        metering.since(self._lease_asked, LEASE_WAIT)
        if not self.started:
            metering.since(self.event.received_at, QUEUE_WAIT)
        self._lease_asked = None

    def left(self) -> events.Left:
        """What the next turn may use up, by the budgets of the task and of its session."""
        session = self.session_spend
        return budget.least(
            budget.left(self.policy.task_budget, self.grants, self.spent),
            budget.left(self.policy.session_budget, session.grants, budget.plus(session.spent, self.spent)),
        )

    def grant(self, budgets: int) -> None:
        """Allows as much again, to the task and to its session."""
        self.grants += budgets
        session = self.session_spend
        self.session_spend = session.model_copy(update={"grants": session.grants + budgets})

    def _spend(self, spent: events.Spend) -> None:
        self.spent = budget.plus(self.spent, spent)
        if spent.cost:
            workflow.upsert_search_attributes([COST.value_set(self.spent.cost)])

    def turned(self, outcome: events.TurnOutcome) -> None:
        """Takes over what a turn came to."""
        self._spend(outcome.spent)
        self.outcome = outcome
        self.thread_id = outcome.thread_id
        self.turn_id = outcome.turn_id or self.turn_id
        self.last_message = self.last_message or outcome.last_message
        self.commit = next((call.commit for call in reversed(outcome.tools) if call.commit), self.commit)

    def read_back(self, seen: events.Verification) -> Found:
        self.seen = seen
        self.comment_id = seen.comment_id or self.comment_id
        return seen.found

    def result(self, unconsumed: list[TaskEvent]) -> events.TaskResult:
        last = self.moves[-1]
        return events.TaskResult(
            task_id=self.event.task_id,
            state=self.state,
            error_code=last.error_code,
            reason=last.reason,
            thread_id=self.thread_id,
            host=self.host,
            turn_id=self.turn_id,
            comment_id=self.comment_id,
            commit=self.commit,
            spent=self.spent,
            epoch=self.epoch,
            owed=self.fallback_request() if self.state is TaskState.FAILED_REPLY else None,
            unconsumed=unconsumed,
        )

    @property
    def owes_a_word(self) -> bool:
        """Whether this end is abnormal and the person who asked must be told (never outsiders, never twice)."""
        abnormal = self.state in {TaskState.FAILED, TaskState.CANCELLED, TaskState.ABORTED}
        admitted = self.admission is not None and self.admission.state != "rejected"
        return self.state in FINAL and abnormal and not self.silent and (admitted or self.state is TaskState.FAILED)

    def receipt(self) -> events.CommentRequest:
        """The start receipt with its reaction, or, in later rounds, the reaction alone."""
        return self._comment(
            TaskState.QUEUED,
            react_to=events.ReactionTarget(source_kind=self.asked.source_kind, source_id=self.asked.source_id),
            reaction_only=self.announced,
        )

    def abnormal_end(self) -> events.CommentRequest:
        last = self.moves[-1]
        stopped = self.state in {TaskState.CANCELLED, TaskState.ABORTED}
        return self._comment(self.state, error_code=last.error_code, text=last.reason if stopped else "")

    def notice(self, kind: Literal["failed", "failed_reply", "blocked", "budget"]) -> events.Notice:
        """Of the move that was made last."""
        return events.Notice(
            kind=kind,
            task_id=self.event.task_id,
            session_key=self.event.session_key,
            error_code=self.moves[-1].error_code,
        )

    def _comment(
        self,
        state: TaskState,
        *,
        error_code: ErrorCode | None = None,
        text: str = "",
        react_to: events.ReactionTarget | None = None,
        reaction_only: bool = False,
    ) -> events.CommentRequest:
        return events.CommentRequest(
            repository=self.repository,
            number=self.event.number,
            comment_key=ids.status_comment_key(self.event.task_id, state),
            source_key=self.asked.source_key,
            state=state,
            text=text,
            error_code=error_code,
            react_to=react_to,
            reaction_only=reaction_only,
        )

    def lease_ask(self, lease_id: str, resume: bool) -> events.LeaseAsk:
        event = self.event
        request = events.LeaseRequest(
            lease_id=lease_id, task_id=event.task_id, resume=resume, thread_name=self.thread_name
        )
        return events.LeaseAsk(repository_id=event.repository.id, repo_key=event.repo_key, request=request)

    def lease_release(self, lease_id: str, fenced: bool) -> events.LeaseRelease:
        return events.LeaseRelease(
            lease_id=lease_id,
            task_id=self.event.task_id,
            fenced=fenced,
            thread_name=self.thread_name,
            thread_id=self.thread_id,
        )

    def workspace_request(self) -> events.WorkspaceRequest:
        return events.WorkspaceRequest(
            repository=self.repository,
            repo_key=self.event.repo_key,
            session_key=self.event.session_key,
            kind=self.event.kind,
            number=self.event.number,
            task_id=self.event.task_id,
            lease_id=self.lease_id or "",
            pull_head=self._admitted.pull_head,
            fork=self._admitted.fork,
        )

    def turn_request(self) -> events.TurnRequest:
        """The next turn of the round. A call that ended without an outcome is repeated under its own turnKey:
        whether it started a turn is not known, and the key makes sure that there is at most one.
        """
        if not self.same_turn:
            self.turns += 1
        return self.turn("normal" if self.turns == 1 and not self.goes_on else "continuation")

    def reply_retry_request(self) -> events.TurnRequest:
        self.turns += 1
        return self.turn("reply_retry")

    def turn(self, purpose: str) -> events.TurnRequest:
        """The turn that is the round's last one by now."""
        return events.TurnRequest.model_validate(
            {
                "repository": self.repository,
                "session_key": self.event.session_key,
                "kind": self.event.kind,
                "number": self.event.number,
                "task_id": self.event.task_id,
                "lease_id": self.lease_id or "",
                "source_key": self.asked.source_key,
                "round": self.round,
                "turn_key": ids.turn_key(self.event.task_id, self.round, self.turns),
                "purpose": purpose,
                "thread_id": self.thread_id,
                "workspace": self.workspace,
                "author": self.asked.author,
                "instruction": self.asked.instruction,
                "title": self.asked.title or self.event.title,
                "thread_name": self.thread_name,
                "left": self.left(),
            }
        )

    def settle_request(self, workspace: events.Workspace) -> events.SettleRequest:
        return events.SettleRequest(
            repository=self.repository,
            repo_key=self.event.repo_key,
            session_key=self.event.session_key,
            task_id=self.event.task_id,
            lease_id=self.lease_id or "",
            workspace=workspace,
        )

    def verify_request(self) -> events.VerifyRequest:
        return events.VerifyRequest(
            repository=self.repository,
            number=self.event.number,
            task_id=self.event.task_id,
            round=self.round,
            budget=self.policy.read_back_budget,
        )

    def fallback_request(self) -> events.FallbackRequest:
        return events.FallbackRequest(
            repository=self.repository,
            number=self.event.number,
            task_id=self.event.task_id,
            round=self.round,
            turn_id=self.turn_id,
            source_key=self.asked.source_key,
            text=self.last_message or NO_FINAL_TEXT,
            budget=self.policy.read_back_budget,
        )

    def budget_question(self, used_up: str) -> events.FallbackRequest:
        """Says what ran out and asks for more, as the question of this round."""
        return self.fallback_request().model_copy(
            update={"text": "", "kind": "question", "used_up": used_up, "spent": self.spent}
        )

    def steer_request(self, event: TaskEvent) -> events.SteerRequest:
        return events.SteerRequest(
            turn=self.turn("normal"), key=event.task_id, author=event.author, text=event.instruction
        )
