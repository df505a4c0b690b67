"""The state table keeps what design section 6 promises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.outcomes import when_broken, when_stopped
from domain.states import (
    ABORTABLE,
    CANCELLABLE,
    FINAL,
    MOVES,
    NEEDS_LEASE,
    IllegalMoveError,
    TaskState,
    check_move,
)

S = TaskState
STATES = st.sampled_from(list(TaskState))


@given(STATES, STATES)
def test_a_move_is_legal_exactly_when_the_table_has_it(current: TaskState, to: TaskState) -> None:
    if to in MOVES.get(current, frozenset()):
        check_move(current, to)
    else:
        with pytest.raises(IllegalMoveError):
            check_move(current, to)


@given(st.data())
def test_every_legal_walk_can_still_reach_an_end(data: st.DataObject) -> None:
    state = S.RECEIVED
    for _ in range(data.draw(st.integers(0, 30))):
        if state in FINAL:
            break
        state = data.draw(st.sampled_from(sorted(MOVES[state])))
    assert reachable(state) & FINAL or state in FINAL


def reachable(state: TaskState) -> frozenset[TaskState]:
    found = {state}
    while more := {to for seen in found for to in MOVES.get(seen, ())} - found:
        found |= more
    return frozenset(found)


@given(STATES)
def test_a_final_state_has_no_way_out(state: TaskState) -> None:
    if state in FINAL:
        assert state not in MOVES


def test_every_state_is_reached_from_received() -> None:
    assert reachable(S.RECEIVED) == frozenset(TaskState)


def test_states_that_wait_hold_no_lease() -> None:
    assert not NEEDS_LEASE & {S.WAITING_USER, S.BLOCKED_WORKSPACE, S.RETRY_WAIT, S.RECEIVED, S.QUEUED}


def test_each_open_state_can_be_stopped_in_exactly_one_way() -> None:
    open_states = frozenset(MOVES) - {S.ABORTING}
    assert open_states == ABORTABLE | CANCELLABLE
    assert not ABORTABLE & CANCELLABLE


@pytest.mark.parametrize("state", sorted(frozenset(MOVES) - {S.ABORTING}))
def test_a_stop_leads_where_the_table_allows(state: TaskState) -> None:
    check_move(state, when_stopped(state, "reason", "olga").state)


@pytest.mark.parametrize("state", sorted(MOVES))
def test_a_fault_leads_to_an_end_from_every_state(state: TaskState) -> None:
    move = when_broken(state, "KeyError")
    check_move(state, move.state)
    assert move.state in FINAL
