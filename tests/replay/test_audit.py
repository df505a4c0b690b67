"""The audit trail of each recorded scenario: what was promised can be proven from it alone."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from domain import audit, histories
from domain.audit import AuditEvent
from domain.audit_chain import chain
from domain.states import FINAL, MOVES, TaskState
from tests.replay.record import HISTORIES, SCENARIOS

NAMES = [scenario.__name__ for scenario in SCENARIOS]
COMMANDED = {"stopped_by_comment", "more_budget", "new_conversation"}
ANSWERED = {TaskState.SUCCEEDED, TaskState.SUCCEEDED_WITH_REST_FALLBACK}


def trail(scenario: str) -> list[AuditEvent]:
    found = []
    for path in sorted(HISTORIES.glob(f"{scenario}.*.json")):
        found += audit.project(histories.read(json.loads(path.read_text(encoding="utf-8"))))
    return audit.ordered(found)


def deliveries(events: list[AuditEvent]) -> list[str]:
    found = [event.delivery_id for event in events if event.action == "webhook.accept"]
    return [delivery for delivery in found if delivery]


def final_state(events: list[AuditEvent], task: str) -> str | None:
    ends = [event.to_state for event in events if event.task_id == task and event.action in {"task.move"}]
    return ends[-1] if ends else None


@pytest.mark.parametrize("scenario", NAMES)
def test_each_delivery_leads_to_its_task_session_thread_turn_and_comment(scenario: str) -> None:
    events = trail(scenario)
    assert deliveries(events)
    for delivery in deliveries(events):
        found = chain(events, delivery)
        assert found.session_key
        if found.task_id is None:  # A command is obeyed by the session itself.
            assert scenario in COMMANDED
            continue
        turns = [event for event in events if event.task_id == found.task_id and event.action == "turn.run"]
        if any(event.metadata["phase"] == "result" for event in turns):
            assert found.thread_id and found.turn_id
        if final_state(events, found.task_id) in ANSWERED and delivery != asked_first(events, found.task_id):
            assert found.comment_id
        known = {event.event_id for event in events}
        assert known.issuperset(found.events) and found.events


def asked_first(events: list[AuditEvent], task: str) -> str | None:
    """The delivery whose round ended in a question (the fakes give it no comment), if the task asked one."""
    asked = [event for event in events if event.task_id == task and event.metadata.get("found") == "question"]
    starts = [event for event in events if event.task_id == task and event.action == "task.start"]
    return starts[0].delivery_id if asked and starts else None


def test_a_normal_chain_is_complete() -> None:
    events = trail("succeeded")
    [delivery] = deliveries(events)
    found = chain(events, delivery)
    assert found.delivery_key == f"default:{delivery}"
    assert found.thread_id == f"thread of {found.session_key}"
    assert found.turn_id == f"turn of {found.task_id}/1.1"
    assert found.comment_id == 7


def test_an_answer_leads_to_the_turn_of_its_own_round() -> None:
    events = trail("question_and_answer")
    first, second = (chain(events, delivery) for delivery in deliveries(events))
    assert first.task_id == second.task_id
    assert str(first.turn_id).endswith("/1.1") and str(second.turn_id).endswith("/2.1")


@pytest.mark.parametrize("scenario", NAMES)
def test_moves_are_legal_and_join(scenario: str) -> None:
    by_task: dict[str, list[AuditEvent]] = defaultdict(list)
    for event in trail(scenario):
        if event.action == "task.move":
            by_task[str(event.task_id)].append(event)
    assert by_task
    for moves in by_task.values():
        state: str | None = TaskState.RECEIVED
        for move in moves:
            assert move.from_state == state
            assert move.to_state in MOVES[TaskState(str(state))]
            state = move.to_state


@pytest.mark.parametrize("scenario", NAMES)
def test_every_effect_has_its_intent_before_it(scenario: str) -> None:
    events = trail(scenario)
    seen: set[str] = set()
    ended = 0
    for event in events:
        seen.add(event.event_id)
        if event.metadata.get("phase") in {"result", "failed"}:
            assert event.metadata["intentId"] in seen
            ended += 1
    assert ended
    assert len(seen) == len(events), "event ids are unique"


def test_operators_and_people_are_named_as_who_moved_a_task() -> None:
    def mover(scenario: str, to: TaskState) -> str:
        return next(event.actor for event in trail(scenario) if event.to_state == to and event.action == "task.move")

    assert mover("aborted", TaskState.ABORTING) == "admin:operator"
    assert mover("aborted", TaskState.ABORTED) == "admin:operator"
    assert mover("succeeded", TaskState.SUCCEEDED) == "system"
    answered = [event for event in trail("question_and_answer") if event.from_state == "waiting_user"]
    assert answered[0].actor == "gitea:user:alice"
    unblocked = [event for event in trail("blocked_and_unblocked") if event.from_state == "blocked_workspace"]
    assert unblocked[0].actor == "admin:olga"


def test_updates_stand_in_the_trail_with_who_asked_and_why() -> None:
    events = trail("operated_by_updates")
    told = {event.action: event for event in events if event.metadata.get("via") == "update"}
    assert set(told) == {
        "control.pause",
        "control.disable",
        "control.enable",
        "control.resume",
        "task.abort",
        "task.cancel",
    }
    assert {event.actor for event in told.values()} == {"admin:olga"}
    assert told["task.cancel"].metadata["requestId"] == "r-cancel"
    assert told["task.cancel"].metadata["reason"] == "no answer"
    cancelled = next(event for event in events if event.to_state == "cancelled" and event.action == "task.move")
    assert cancelled.actor == "admin:olga"


def test_failures_carry_their_code() -> None:
    def code(scenario: str, to: str) -> str | None:
        return next(event.error_code for event in trail(scenario) if event.to_state == to)

    assert code("failed_with_receipt", "failed") == "mcp_start_failed"
    assert code("blocked_and_unblocked", "blocked_workspace") == "workspace_dirty"
    assert code("terminated_holder", "failed") == "terminated"


def test_the_trail_is_the_same_each_time_and_also_of_a_part() -> None:
    path = HISTORIES / "question_and_answer.AgentTask.0.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    whole = audit.project(histories.read(raw))
    assert whole == audit.project(histories.read(raw))
    for cut in range(1, len(raw["events"])):
        part = audit.project(histories.read({"events": raw["events"][:cut]}))
        assert part == whole[: len(part)]


@pytest.mark.parametrize("path", sorted(HISTORIES.glob("*.AgentTask.*.json")), ids=lambda path: path.stem)
def test_no_text_of_a_person_is_in_the_trail(path: Path) -> None:
    raw = json.loads(path.read_text(encoding="utf-8"))
    told = "".join(event.model_dump_json() for event in audit.project(histories.read(raw)))
    assert "please fix" not in told and "the second one" not in told and "Done." not in told


def test_every_task_ends_in_the_trail() -> None:
    for scenario in NAMES:
        ends = [event for event in trail(scenario) if event.action in {"task.end", "task.terminate"}]
        assert ends and {end.to_state for end in ends} <= {str(state) for state in FINAL}
