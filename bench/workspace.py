"""The second task of a conversation on a repository with a long history, against a fresh full clone."""

import random
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from temporalio.testing import ActivityEnvironment

from activities.workspace import WorkspaceActivities
from bench.row import Row, median
from clients import git
from demo.scene import FULL_NAME, Scene
from demo.stack import BOT, Ports, Stack
from domain import ids
from domain.events import RepositoryRef, SettleRequest, Workspace, WorkspaceRequest
from settings import Settings, load_settings

COMMITS = 50_000
_FILES, _FOLDERS = 5_000, 250
_TEXT = 3_000
"""Hexadecimal digits in each version of a file: a pack of about 100 MB, as projects of that age have."""
_DIGITS = random.Random(50_000)  # noqa: S311  # the same repository each time
_TIMES = 3
_LIMIT = 600.0


async def rows(directory: Path) -> list[Row]:
    """Both over HTTP from the same simulated Gitea, which serves a repository made by `git fast-import`."""
    stack = Stack(directory, Ports.any())
    try:
        await stack.start("gitea")
        async with httpx.AsyncClient(timeout=20) as http:
            await Scene(stack, http).seed()
        bare = directory / "gitea" / "git" / "1.git"
        _import(bare, _history())
        settings = load_settings(
            gitea_url=stack.gitea_url, gitea_token=stack.secrets.bot_token, bot_name=BOT,
            state_dir=stack.state_dir, workspace_root=stack.state_dir / "workspaces",
        )  # fmt: skip
        clones = [_clone(stack, directory / f"clone-{number}") for number in range(_TIMES)]
        return [_row(clones, [await _second_task(settings, bare, number) for number in range(1, 1 + _TIMES)])]
    finally:
        await stack.stop()


def _row(clones: list[float], prepares: list[float]) -> Row:
    clone, prepare = median(clones), median(prepares)
    detail = f"{prepare:.2f} s against {clone:.2f} s; {COMMITS} commits, {_FILES} files; one new commit to fetch"
    return Row("second task's prepare against a fresh clone", prepare / clone, 1 / 20, "x", detail)


def _clone(stack: Stack, path: Path) -> float:
    remote = git.Remote(f"{stack.gitea_url}/{FULL_NAME}.git", BOT, stack.secrets.bot_token)
    began = time.perf_counter()
    git.run(["clone", "--quiet", remote.url, str(path)], extra=remote.environment(), limit=_LIMIT)
    return time.perf_counter() - began


async def _second_task(settings: Settings, bare: Path, number: int) -> float:
    """Seconds of the second prepare in one session, after somebody else pushed a commit."""
    first = _request(number, 1)
    workspace = await _prepare(settings, first)
    settle = SettleRequest.model_validate({**first.model_dump(), "workspace": workspace})
    await ActivityEnvironment().run(WorkspaceActivities(settings).settle_workspace, settle)
    _import(bare, _one_more(number))
    began = time.perf_counter()
    await _prepare(settings, _request(number, 2))
    return time.perf_counter() - began


async def _prepare(settings: Settings, request: WorkspaceRequest) -> Workspace:
    return await ActivityEnvironment().run(WorkspaceActivities(settings).prepare_workspace, request)


def _request(number: int, task: int) -> WorkspaceRequest:
    task_id = f"gitea-task-{number:08x}{task:08x}"
    repo_key = ids.repo_key(*FULL_NAME.split("/"))
    return WorkspaceRequest(
        repository=RepositoryRef(id=1, owner=FULL_NAME.split("/")[0], name=FULL_NAME.split("/")[1]),
        repo_key=repo_key,
        session_key=ids.resource_key(repo_key, "issue", number),
        kind="issue",
        number=number,
        task_id=task_id,
        lease_id=f"{task_id}/1",
    )


def _import(bare: Path, stream: Iterator[str]) -> None:
    command = ["git", "fast-import", "--quiet", "--force"]
    subprocess.run(command, cwd=bare, input="".join(stream), text=True, check=True)


def _history() -> Iterator[str]:
    """Each commit changes one of many files, of a few kilobytes each."""
    for number in range(COMMITS):
        parent = "from refs/heads/main^0\n" if number == 0 else ""
        file = number % _FILES
        yield _commit(number, f"src/part{file % _FOLDERS}/file{file}.txt", parent)


def _one_more(number: int) -> Iterator[str]:
    yield _commit(COMMITS + number, "src/new.txt", "from refs/heads/main^0\n")


def _commit(number: int, path: str, parent: str) -> str:
    text = textwrap.fill(_DIGITS.randbytes(_TEXT // 2).hex())
    message = f"Change {number}"
    return (
        f"commit refs/heads/main\ncommitter A <a@example.org> {1_600_000_000 + number * 60} +0000\n"
        f"data {len(message)}\n{message}\n{parent}M 100644 inline {path}\ndata {len(text)}\n{text}\n"
    )
