"""Prepares and settles the worktree of a session, on the host that has it (design section 11)."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict
from temporalio import activity

from activities import worktree
from activities.layout import Layout
from activities.waiting import heartbeats, nothing_in_flight
from clients import folders, git, git_move, git_tree, lease
from clients.git import GitError, Limits, Remote
from clients.git_tree import Salvage
from domain.errors import ErrorCode, WorkspaceError
from domain.events import SessionClose, Settled, SettleRequest, Workspace, WorkspaceRequest
from settings import Settings

log = logging.getLogger("ccweb.workspace")
_AGENTS_FILE = "AGENTS.md"
_MAX_INSTRUCTIONS = 32_000
_SHOWN = 5
"""Paths that a message names."""
_NETWORK = 3
"""How many of git's longest network operations one prepare may take, with all else it does."""
_SETTLE_LIMIT = 300.0
"""Seconds of git in one settle; together with the wait before it less than the activity may take."""


class SettledState(BaseModel):
    """What a task left behind. `open`: it had the worktree when we last heard, so its changes are its own.

    `making`: the worktree was being made, no task ever ran there. `moving`: the commit that it was being moved to.
    """

    model_config = ConfigDict(frozen=True)

    task_id: str
    head: str
    tree: str
    open: bool
    making: bool = False
    moving: str = ""


class WorkspaceActivities:
    """Runs on the host queue."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @activity.defn
    async def prepare_workspace(self, request: WorkspaceRequest) -> Workspace:
        """Clones or fetches, and gives the session its worktree exactly as it was left. May be repeated.

        Raises:
            WorkspaceError: workspace_auth_failed, workspace_dirty (holds changes that no task accounts for),
                workspace_unavailable, disk_full.
        """
        async with heartbeats(self._settings):
            return await asyncio.to_thread(self._prepare, request)

    def _prepare(self, request: WorkspaceRequest) -> Workspace:
        settings = self._settings
        layout = Layout.of(settings, request.repo_key, request.kind, request.number)
        try:
            with (
                lease.host_lock(settings.lease_dir, request.repository.id),
                git.within(_NETWORK * settings.git_timeout),
            ):
                return prepare(settings, layout, request)
        except lease.LockBusyError:
            raise WorkspaceError(ErrorCode.WORKSPACE_UNAVAILABLE, "the repository is in use on this host") from None

    @activity.defn
    async def settle_workspace(self, request: SettleRequest) -> Settled:
        """Revokes the lease, waits until nothing is in flight, saves leftovers, records the tree. May be repeated.

        Raises:
            WorkspaceError: workspace_unavailable, workspace_auth_failed, disk_full.
        """
        settings = self._settings
        async with heartbeats(settings):
            lease.revoke(settings.lease_dir, request.repository.id, request.lease_id)
            # What the bridge still does ends by itself within its own limits.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(nothing_in_flight(settings, request.task_id), settings.tool_timeout)
            with git.within(_SETTLE_LIMIT):
                return await asyncio.to_thread(settle, settings, request)


def prepare(settings: Settings, layout: Layout, request: WorkspaceRequest) -> Workspace:
    """See `WorkspaceActivities.prepare_workspace`."""
    remote = _remote(settings, request.repository.full_name)
    _claim(layout, request.repository.id)
    _bring(settings, layout, remote, request)
    branch = branch_of(request)
    base = _commit_of(layout, f"refs/remotes/origin/{git.check_branch(request.repository.default_branch)}")
    there = git.resolve(layout.clone, f"refs/remotes/origin/{branch}")
    start = there or _start(layout, request, base)
    left = _left(layout)
    resumed = False
    if not layout.worktree.exists() or (left is not None and left.making):
        _record(layout, SettledState(task_id=request.task_id, head=start, tree="", open=True, making=True))
        worktree.make(layout, start)
    else:
        resumed = _resume(settings, layout, left, request.task_id, _Target(start, published=there is not None))
    layout.tmp.mkdir(parents=True, exist_ok=True)
    head = git.word(["rev-parse", "HEAD"], repo=layout.repo)
    _record(layout, SettledState(task_id=request.task_id, head=head, tree="", open=True))
    return Workspace(path=str(layout.worktree), branch=branch, head=head, base=base, resumed_wip=resumed)


def branch_of(request: WorkspaceRequest) -> str:
    """The branch this session publishes to: its own, or a PR's head in this repository. A fork's head is never
    pushed to: it lies in another repository, where our branch of that name would be a stranger's.
    """
    if request.kind == "issue":
        return f"ccweb/issue-{request.number}"
    if request.pull_head and not request.fork:
        return git.check_branch(request.pull_head)
    return f"ccweb/pull-{request.number}"


def _remote(settings: Settings, full_name: str) -> Remote:
    return Remote(f"{settings.gitea_url}/{full_name}.git", settings.bot_name, settings.gitea_token.get_secret_value())


def _claim(layout: Layout, repository_id: int) -> None:
    """One path belongs to one repository for ever: a repository made anew under an old name must not get it."""
    if not layout.identity.exists():
        folders.write(layout.identity, f"{repository_id}\n")
    if layout.identity.read_text(encoding="utf-8").strip() != str(repository_id):
        detail = f"{layout.root} belongs to another repository of that name; an operator moves it away"
        raise WorkspaceError(ErrorCode.WORKSPACE_DIRTY, detail)


def _bring(settings: Settings, layout: Layout, remote: Remote, request: WorkspaceRequest) -> None:
    if layout.clone.exists():
        worktree.clear_locks(layout, settings.git_timeout)
        git.fetch(remote, layout.clone, git.ALL_BRANCHES, settings.git_timeout)
        _pack(layout, settings)
    else:
        git.clone(remote, layout.clone, settings.git_timeout)
    if request.kind == "pull_request":
        pull = f"+refs/pull/{request.number}/head:refs/ccweb/pull/{request.number}"
        git.fetch(remote, layout.clone, [pull], settings.git_timeout)


def _pack(layout: Layout, settings: Settings) -> None:
    """A full disk, say, is no reason not to work with what is there."""
    try:
        git.pack(layout.clone, settings.git_timeout)
    except WorkspaceError as error:
        log.warning("the clone was not packed", extra={"path": str(layout.clone), "detail": error.detail})


def _start(layout: Layout, request: WorkspaceRequest, base: str) -> str:
    return _commit_of(layout, f"refs/ccweb/pull/{request.number}") if request.kind == "pull_request" else base


def _commit_of(layout: Layout, ref: str) -> str:
    found = git.resolve(layout.clone, ref)
    if found is None:
        raise WorkspaceError(ErrorCode.WORKSPACE_UNAVAILABLE, f"the repository has no {ref}")
    return found


@dataclass(frozen=True, slots=True)
class _Target:
    """Where the session's branch stands now. `published`: Gitea has it, so our work must build on it."""

    commit: str
    published: bool


def _resume(settings: Settings, layout: Layout, left: SettledState | None, task_id: str, target: _Target) -> bool:
    """Accepts exactly the state that the last task left, and follows the branch; True when it holds unpublished work.

    Changes of a task that ended without settling are saved under its own name first, so they are accounted for.

    Raises:
        WorkspaceError: workspace_dirty.
    """
    worktree.mend(layout, left.head if left else target.commit)
    worktree.mend_pointer(layout)
    git_tree.clear_scratch(layout.repo)
    if left is not None and left.moving:
        left = _move_on(settings, layout, left)
    head = git.word(["rev-parse", "HEAD"], repo=layout.repo)
    found = git_tree.salvage(layout.repo, _limits(settings))
    clean = found.tree == _tree_of(layout, head) and not found.refused
    if left is None or not left.open or left.task_id != task_id:
        _account(settings, layout, left, head, found)
    if found.tree is None or found.refused:
        return True
    if target.commit != head and (clean or target.published):
        state = left or SettledState(task_id=task_id, head=head, tree=found.tree, open=True)
        return _follow(layout, state, target.commit, found.tree)
    return not clean


def _account(settings: Settings, layout: Layout, left: SettledState | None, head: str, found: Salvage) -> None:
    """Refuses what no task accounts for, and saves what a task left that ended without settling.

    Raises:
        WorkspaceError: workspace_dirty.
    """
    clean = found.tree == _tree_of(layout, head)
    if left is not None and left.open and found.tree is not None and not clean:
        _save(layout, settings, left.task_id, head, found.tree)
    if found.refused:
        raise WorkspaceError(ErrorCode.WORKSPACE_DIRTY, _odd(layout, left, found))
    if left is None and not clean:
        raise WorkspaceError(ErrorCode.WORKSPACE_DIRTY, f"{layout.worktree} holds changes of no known task{_AGAIN}")
    if left is not None and not left.open and (left.head, left.tree) != (head, found.tree):
        detail = f"{layout.worktree} changed since {left.task_id} settled it{_AGAIN}"
        raise WorkspaceError(ErrorCode.WORKSPACE_DIRTY, detail)


_AGAIN = "; put it back as it was, or move the folder away to start anew, then unblock"


def _odd(layout: Layout, left: SettledState | None, found: Salvage) -> str:
    """Names what cannot be saved first: lists show the beginning."""
    names = "; ".join(error.detail for error in found.refused[:_SHOWN])
    more = f"; and {len(found.refused) - _SHOWN} more" if len(found.refused) > _SHOWN else ""
    whose = f" left by {left.task_id}" if left else ""
    ref = f"refs/ccweb/wip/{left.task_id}" if left else ""
    saved = f", all else is saved in {ref}" if ref and git.resolve(layout.clone, ref) else ""
    return f"{names}{more}{whose}{saved}. Remove or move it in {layout.worktree}, then unblock"


def _follow(layout: Layout, left: SettledState, commit: str, tree: str) -> bool:
    """Moves the worktree to where the branch stands now, with its own changes; stays where both changed a file.
    True when it has changes of its own.

    HEAD only ever stood where Gitea had it, so nothing unpublished is left behind, whatever happened to the branch.
    """
    if commit == git.pushed(layout.repo):  # a publish that was cut: what moved the branch came from here
        git.move_head(layout.repo, commit)
        return tree != _tree_of(layout, commit)
    steps = git_move.plan(layout.repo, commit, tree)
    if not steps.conflicts:
        _record(layout, left.model_copy(update={"moving": commit}))
        git_move.move(layout.repo, steps)
    return steps.own


def _move_on(settings: Settings, layout: Layout, left: SettledState) -> SettledState:
    """Ends a move that was cut; then the worktree is as accounted for as it was before.

    Raises:
        WorkspaceError: workspace_dirty, somebody else was at work in it since.
    """
    found = git_tree.salvage(layout.repo, _limits(settings))
    steps = git_move.plan(layout.repo, left.moving, found.tree) if found.tree and not found.refused else None
    if steps is None or steps.conflicts:
        raise WorkspaceError(ErrorCode.WORKSPACE_DIRTY, f"{layout.worktree} changed while it was being moved{_AGAIN}")
    git_move.move(layout.repo, steps)
    moved = left.model_copy(update={"head": left.moving, "moving": "", "open": True})
    _record(layout, moved)
    return moved


def settle(settings: Settings, request: SettleRequest) -> Settled:
    """See `WorkspaceActivities.settle_workspace`."""
    layout = Layout.of_session(settings, request.session_key)
    worktree.mend(layout, request.workspace.head)
    head = git.word(["rev-parse", "HEAD"], repo=layout.repo)
    found = git_tree.salvage(layout.repo, _limits(settings))
    wip = None
    if found.tree is not None and found.tree != _tree_of(layout, head):
        wip = _save(layout, settings, request.task_id, head, found.tree)
    if not found.refused:
        _record(layout, SettledState(task_id=request.task_id, head=head, tree=found.tree or "", open=False))
    return Settled(
        tree=found.tree or "",
        wip_commit=wip,
        published=_published(settings, request, head),
        unsaved=[error.detail for error in found.refused[:_SHOWN]],
    )


def _published(settings: Settings, request: SettleRequest, head: str) -> str | None:
    """HEAD when a publish moved it in this task and the branch in Gitea really shows it."""
    if head == request.workspace.head:
        return None
    layout = Layout.of_session(settings, request.session_key)
    remote = _remote(settings, request.repository.full_name)
    there = git.remote_sha(remote, layout.clone, f"refs/heads/{request.workspace.branch}", settings.rpc_timeout)
    return head if there == head else None


def _save(layout: Layout, settings: Settings, task_id: str, head: str, tree: str) -> str:
    """Keeps unpublished changes as a commit under `refs/ccweb/wip/`; the worktree stays as it is. What the ref held
    before stays in its reflog.
    """
    commit = git.commit_tree(layout.repo, head, tree, f"Unpublished changes of {task_id}", settings.bot_name)
    git.run(["update-ref", "--create-reflog", f"refs/ccweb/wip/{task_id}", commit], git_dir=layout.clone)
    return commit


def _tree_of(layout: Layout, commit: str) -> str:
    return git.word(["rev-parse", f"{commit}^{{tree}}"], repo=layout.repo)


def _left(layout: Layout) -> SettledState | None:
    """What the last task left; None when it is not known."""
    try:
        return SettledState.model_validate_json(layout.settled.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def _record(layout: Layout, state: SettledState) -> None:
    """Without it the next task cannot tell whose the changes are."""
    folders.write(layout.settled, state.model_dump_json())


def remove_worktree(settings: Settings, request: SessionClose) -> None:
    """Removes a closed session's worktree; its unpublished changes are kept under `refs/ccweb/wip/`.

    The caller holds the host's lock of the repository.

    Raises:
        WorkspaceError: workspace_dirty, it holds what cannot be saved, so it stays; workspace_unavailable.
    """
    layout = Layout.of(settings, request.repo_key, request.kind, request.number)
    left = _left(layout)
    if layout.worktree.exists() and not (left is not None and left.making):
        _save_before_removal(settings, layout, left)
    worktree.erase(layout)
    folders.erase(layout.tmp)
    layout.settled.unlink(missing_ok=True)


def _save_before_removal(settings: Settings, layout: Layout, left: SettledState | None) -> None:
    """Saves what no ref holds yet, under the name of the task that left it or else of the session."""
    if left is not None:
        worktree.mend(layout, left.head)
    worktree.mend_pointer(layout)
    head = git.word(["rev-parse", "HEAD"], repo=layout.repo)
    found = git_tree.salvage(layout.repo, _limits(settings))
    known = left is not None and not left.open and (left.head, left.tree) == (head, found.tree)
    if found.tree is not None and found.tree != _tree_of(layout, head) and not known:
        name = left.task_id if left is not None and left.open else f"{layout.session}-{found.tree[:12]}"
        _save(layout, settings, name, head, found.tree)
    if found.refused:
        raise WorkspaceError(ErrorCode.WORKSPACE_DIRTY, _odd(layout, left, found))


def base_instructions(layout: Layout, base: str) -> str:
    """AGENTS.md of the base commit (never that of an untrusted head), bounded; empty when there is none."""
    try:
        content = git.run(["cat-file", "blob", f"{git.check_sha(base)}:{_AGENTS_FILE}"], git_dir=layout.clone)
    except GitError:
        return ""
    return content.decode(errors="replace")[:_MAX_INSTRUCTIONS]


def _limits(settings: Settings) -> Limits:
    return Limits(settings.max_file_bytes, settings.max_files)
