"""What must hold once a task has ended, whatever was killed meanwhile."""

import asyncio
from pathlib import Path

from clients import journal, lease
from demo.scene import OWNER, Scene, until
from domain import ids
from domain.audit_chain import chain
from operations import trail
from settings import load_settings
from tests import harness, processes

_ENDS_LIMIT = 20


async def check(scene: Scene, comment: int, name: str, repository_id: int) -> None:
    """One receipt, one verified answer, a free lease, nothing left running or locked, a whole audit chain.

    Raises:
        AssertionError, TimeoutError: one of them does not hold.
    """
    answer = await harness.assert_one_receipt_and_one_answer(scene, comment)
    task_id = await harness.task_of_comment(scene, comment)
    await _lease_is_free(scene, repository_id)
    await _nothing_runs(scene, name, repository_id)
    _nothing_is_locked(scene, name, task_id, repository_id)
    await _chain_is_whole(scene, comment, task_id, answer.turn_id)


async def _lease_is_free(scene: Scene, repository_id: int) -> None:
    repository = (await harness.temporal(scene)).get_workflow_handle(ids.repository_workflow_id(repository_id))

    async def free() -> bool:
        page = str((await repository.query("__temporal_workflow_metadata")).current_details)
        return "- holder: none" in page and "gitea-task-" not in page

    await until(free, _ENDS_LIMIT, "the lease to be free")
    leases = scene.stack.state_dir / "leases"
    held = lease.current(leases, repository_id)
    assert held is None, f"the lease file is left: {held}"
    with lease.host_lock(leases, repository_id):
        pass


async def _nothing_runs(scene: Scene, name: str, repository_id: int) -> None:
    async def over() -> bool:
        return not await running(scene, name, repository_id)

    try:
        await until(over, _ENDS_LIMIT, "its processes to end")
    except TimeoutError:
        raise AssertionError(f"left running: {await running(scene, name, repository_id)}") from None


async def running(scene: Scene, name: str, repository_id: int) -> list[str]:
    """The command lines of what works for a repository: bridge, model-run commands, git."""
    config = scene.stack.state_dir / "bridge" / f"{repository_id}-issue-1.json"
    url = f"{scene.stack.gitea_url}/{OWNER}/{name}.git"
    marks = (str(_root(scene, name)), f"# {name}", str(config), url)
    everything = await asyncio.to_thread(processes.all_of)
    return [one.command for one in everything if any(mark in one.command for mark in marks)]


def _nothing_is_locked(scene: Scene, name: str, task_id: str, repository_id: int) -> None:
    state = scene.stack.state_dir
    root = _root(scene, name)
    left = [path for path in root.rglob("*") if _is_leftover(path.relative_to(root))]
    left += list((state / "leases").glob(f"{repository_id}.new"))
    assert left == [], f"left: {left}"
    open_calls = journal.in_flight(state / "journals", task_id)
    assert open_calls == [], f"in flight: {open_calls}"


def _root(scene: Scene, name: str) -> Path:
    return scene.stack.state_dir / "workspaces" / "default" / OWNER / name


def _is_leftover(path: Path) -> bool:
    """Locks and unfinished files of git and of ours; not what the agent made in its worktree."""
    if path.parts[0] == "worktrees":
        return False
    return path.suffix in {".lock", ".new"} or path.name.startswith("tmp_")


async def _chain_is_whole(scene: Scene, comment: int, task_id: str, turn_id: str | None) -> None:
    settings = load_settings(state_dir=scene.stack.state_dir)
    client = await harness.temporal(scene)
    delivery = await harness.delivery_of_comment(scene, comment)
    (answer,) = await scene.answers(task_id)

    async def whole() -> bool:
        filters = trail.Filters(task_id=task_id)
        found = chain((await trail.search(client, settings, filters)).events, delivery)
        known = found.task_id == task_id and found.session_key and found.thread_id
        return bool(known) and found.comment_id == answer["id"] and (turn_id is None or found.turn_id == turn_id)

    await until(whole, _ENDS_LIMIT, "the audit chain")
