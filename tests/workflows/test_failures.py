"""The failure matrix up to the end of the turn."""

from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.exceptions import ApplicationError

from domain import events
from domain.errors import ErrorCode
from domain.states import TaskState
from tests.workflows.broken_task import BrokenTask
from tests.workflows.fakes import POLICY, found
from tests.workflows.world import World, eventually, run_world

S = TaskState
C = ErrorCode


async def details(task: WorkflowHandle[Any, Any]) -> str:
    """The task's page as the Web UI shows it."""
    metadata = await task.query("__temporal_workflow_metadata")
    return str(metadata.current_details)


def refused(state: str, code: ErrorCode | None) -> events.Admission:
    ref = events.RepositoryRef(id=1, owner="o", name="r")
    return events.Admission.model_validate(
        {"state": state, "error_code": code, "reason": "for a test", "repository": ref, "policy": POLICY}
    )


@pytest.mark.parametrize(
    ("state", "code"), [("rejected", C.INSUFFICIENT_PERMISSION), ("duplicate", C.DUPLICATE_DELIVERY)]
)
async def test_outsiders_and_duplicates_hear_nothing(world: World, state: str, code: ErrorCode) -> None:
    world.fakes.plan("admit", refused(state, code))
    result = await world.end(await world.deliver(world.event()))

    assert (result.state, result.error_code) == (S(state), code)
    assert not world.fakes.calls["post_receipt"]
    assert not world.fakes.calls["run_turn"]


async def test_a_repository_that_is_gone_fails_the_task(world: World) -> None:
    world.fakes.plan("admit", refused("failed", C.REPOSITORY_UNAVAILABLE))
    task = await world.deliver(world.event())
    result = await world.end(task)

    assert (result.state, result.error_code) == (S.FAILED, C.REPOSITORY_UNAVAILABLE)
    assert (await task.describe()).status is WorkflowExecutionStatus.FAILED


async def test_gitea_down_at_admission_is_waited_for(world: World) -> None:
    world.fakes.plan("admit", C.GITEA_UNAVAILABLE)
    result = await world.end(await world.deliver(world.event()))

    assert result.state is S.SUCCEEDED
    assert len(world.fakes.calls["admit"]) == 2


@pytest.mark.parametrize("code", [C.MCP_COMMAND_MISSING, C.SANDBOX_UNAVAILABLE, C.MODEL_QUOTA_EXCEEDED])
async def test_a_permanent_error_fails_with_one_receipt(world: World, code: ErrorCode) -> None:
    world.fakes.plan("run_turn", code)
    world.fakes.plan("verify_reply", found("missing"))
    result = await world.end(await world.deliver(world.event()))

    assert (result.state, result.error_code) == (S.FAILED, code)
    assert [request.error_code for request in world.fakes.receipts(S.FAILED)] == [code]
    assert len(world.fakes.calls["run_turn"]) == 1


async def test_a_refused_clone_is_tried_once_more(world: World) -> None:
    world.fakes.plan("prepare_workspace", C.WORKSPACE_AUTH_FAILED, C.WORKSPACE_AUTH_FAILED)
    result = await world.end(await world.deliver(world.event()))

    assert (result.state, result.error_code) == (S.FAILED, C.WORKSPACE_AUTH_FAILED)
    assert len(world.fakes.calls["prepare_workspace"]) == 2


async def test_a_dirty_workspace_blocks_until_an_operator_unblocks(world: World) -> None:
    world.fakes.plan("prepare_workspace", C.WORKSPACE_DIRTY)
    blocked = await world.deliver(world.event())
    await world.reaches(blocked, S.BLOCKED_WORKSPACE)
    await world.end(await world.deliver(world.event(issue=2)))
    await blocked.signal("unblock", {"actor": "olga", "reason": "looked at it"})

    assert (await world.end(blocked)).state is S.SUCCEEDED


async def test_a_blocked_workspace_is_told_in_gitea_and_its_page_names_what_is_in_the_way(world: World) -> None:
    said = f"'nested': a repository inside this one. {'x' * 300} Remove it, then unblock"
    world.fakes.plan("prepare_workspace", ApplicationError(said, type=str(C.WORKSPACE_DIRTY), non_retryable=True))
    blocked = await world.deliver(world.event())
    await world.reaches(blocked, S.BLOCKED_WORKSPACE)
    await eventually(lambda: bool(world.fakes.receipts(S.BLOCKED_WORKSPACE)))
    [receipt] = world.fakes.receipts(S.BLOCKED_WORKSPACE)
    assert receipt.error_code is C.WORKSPACE_DIRTY
    assert said in await details(blocked)
    await blocked.signal("unblock")
    assert (await world.end(blocked)).state is S.SUCCEEDED


async def test_what_settling_could_not_save_is_noted_on_the_tasks_page(world: World) -> None:
    world.fakes.plan("settle_workspace", events.Settled(tree="t1", unsaved=["'huge': too large"]))
    task = await world.deliver(world.event())
    await world.end(task)
    assert "not saved: 'huge': too large" in await details(task)


async def test_a_settle_that_fails_does_not_lose_the_answer(world: World) -> None:
    world.fakes.plan("settle_workspace", C.DISK_FULL, C.DISK_FULL, C.DISK_FULL)
    result = await world.end(await world.deliver(world.event()))

    assert result.state is S.SUCCEEDED


async def test_a_fault_of_an_activity_ends_the_task_and_says_so(world: World) -> None:
    world.fakes.plan("prepare_workspace", ApplicationError("boom", type="KeyError", non_retryable=True))
    result = await world.end(await world.deliver(world.event()))

    assert (result.state, result.error_code) == (S.FAILED, C.INTERNAL_ERROR)
    assert len(world.fakes.receipts(S.FAILED)) == 1


async def test_a_fault_of_the_workflow_ends_the_task_and_frees_the_workspace(client: Client) -> None:
    async with run_world(client, [BrokenTask]) as world:
        result = await world.end(await world.deliver(world.event()))
        assert (result.state, result.error_code) == (S.FAILED_REPLY, C.INTERNAL_ERROR)
        assert len(world.fakes.receipts(S.FAILED_REPLY)) == 1
        await world.end(await world.deliver(world.event(issue=2)))
        assert world.fakes.overlaps == 0


async def test_a_retry_wait_can_be_cut_short(world: World) -> None:
    slow = POLICY.model_copy(update={"retry_delay": 3000.0})
    delivered = world.event()
    world.fakes.plan("admit", events.Admission(state="queued", repository=delivered.repository, policy=slow))
    world.fakes.plan("prepare_workspace", C.WORKSPACE_UNAVAILABLE)
    task = await world.deliver(delivered)
    await world.reaches(task, S.RETRY_WAIT)
    await task.signal("retry", "now please")

    assert (await world.end(task)).state is S.SUCCEEDED


async def test_a_worker_that_died_in_a_turn_is_replaced_within_the_same_turn(world: World) -> None:
    async def die(_: object) -> object:
        await eventually(lambda: len(world.fakes.calls["run_turn"]) > 1)
        raise AssertionError("too late")

    world.fakes.plan("run_turn", die)
    result = await world.end(await world.deliver(world.event()))

    first, second = world.fakes.calls["run_turn"]
    assert result.state is S.SUCCEEDED
    assert first.turn_key == second.turn_key
