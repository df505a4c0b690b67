"""Prepares and settles the worktree of a session, on the host that has it (design section 11)."""

import asyncio
import contextlib
import shutil

from pydantic import BaseModel, ConfigDict
from temporalio import activity

from activities.layout import Layout
from activities.waiting import heartbeats, nothing_in_flight
from clients import git, git_tree, lease
from clients.git import GitError, Limits, Remote
from domain.errors import ErrorCode, WorkspaceError
from domain.events import SessionClose, Settled, SettleRequest, Workspace, WorkspaceRequest
from settings import Settings

_AGENTS_FILE = "AGENTS.md"
_MAX_INSTRUCTIONS = 32_000
_SETTLE_LIMIT = 300.0
"""Seconds of git in one settle; together with the wait before it less than the activity may take."""


class SettledState(BaseModel):
    """What a task left behind. `open`: it had the worktree when we last heard, so its changes are its own."""

    model_config = ConfigDict(frozen=True)

    task_id: str
    head: str
    tree: str
    open: bool


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
            with lease.host_lock(settings.lease_dir, request.repository.id):
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
    start = git.resolve(layout.clone, f"refs/remotes/origin/{branch}") or _start(layout, request, base)
    resumed = False
    if (layout.git_dir / "HEAD").exists() and layout.worktree.exists():
        resumed = _resume(settings, layout, request.task_id, start)
    else:
        _make_worktree(layout, start)
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
    layout.root.mkdir(parents=True, exist_ok=True)
    if not layout.identity.exists():
        layout.identity.write_text(f"{repository_id}\n", encoding="utf-8")
    if layout.identity.read_text(encoding="utf-8").strip() != str(repository_id):
        detail = f"{layout.root} belongs to another repository of that name; an operator moves it away"
        raise WorkspaceError(ErrorCode.WORKSPACE_DIRTY, detail)


def _bring(settings: Settings, layout: Layout, remote: Remote, request: WorkspaceRequest) -> None:
    if layout.clone.exists():
        git.fetch(remote, layout.clone, git.ALL_BRANCHES, settings.git_timeout)
    else:
        git.clone(remote, layout.clone, settings.git_timeout)
    if request.kind == "pull_request":
        pull = f"+refs/pull/{request.number}/head:refs/ccweb/pull/{request.number}"
        git.fetch(remote, layout.clone, [pull], settings.git_timeout)


def _start(layout: Layout, request: WorkspaceRequest, base: str) -> str:
    return _commit_of(layout, f"refs/ccweb/pull/{request.number}") if request.kind == "pull_request" else base


def _commit_of(layout: Layout, ref: str) -> str:
    found = git.resolve(layout.clone, ref)
    if found is None:
        raise WorkspaceError(ErrorCode.WORKSPACE_UNAVAILABLE, f"the repository has no {ref}")
    return found


def _make_worktree(layout: Layout, commit: str) -> None:
    """A fresh detached worktree; what a cut attempt left of it is removed, no task ever ran there."""
    shutil.rmtree(layout.worktree, ignore_errors=True)
    git.run(["worktree", "prune"], git_dir=layout.clone)
    layout.worktree.parent.mkdir(parents=True, exist_ok=True)
    arguments = ["worktree", "add", "--quiet", "--detach", "--no-checkout", str(layout.worktree), commit]
    git.run(arguments, git_dir=layout.clone)
    git.index_head(layout.repo)
    git.run(["checkout-index", "--all", "--index", "--quiet"], repo=layout.repo)


def _resume(settings: Settings, layout: Layout, task_id: str, start: str) -> bool:
    """Accepts exactly the state that the last task left; True when it holds unpublished changes.

    Changes of a task that ended without settling are saved under its own name first, so they are accounted for.
    """
    head = git.word(["rev-parse", "HEAD"], repo=layout.repo)
    tree = git_tree.snapshot(layout.repo, _limits(settings))
    left = _left(layout)
    clean = tree == _tree_of(layout, head)
    if left is None and not clean:
        raise WorkspaceError(ErrorCode.WORKSPACE_DIRTY, "the worktree holds changes of no known task")
    if left is not None and left.open and left.task_id != task_id and not clean:
        _save(layout, settings, left.task_id, head, tree)
    if left is not None and not left.open and (left.head, left.tree) != (head, tree):
        raise WorkspaceError(ErrorCode.WORKSPACE_DIRTY, "the worktree changed since the last task settled it")
    if clean and start != head and _is_ancestor(layout, head, start):
        _make_worktree(layout, start)
    return not clean


def settle(settings: Settings, request: SettleRequest) -> Settled:
    """See `WorkspaceActivities.settle_workspace`."""
    layout = Layout.of_session(settings, request.session_key)
    head = git.word(["rev-parse", "HEAD"], repo=layout.repo)
    try:
        tree = git_tree.snapshot(layout.repo, _limits(settings))
    except WorkspaceError as error:
        if error.retryable:
            raise
        # It cannot be saved as a tree (a nested repository, a huge file). The files stay; prepare will say so.
        return Settled(tree="", published=_published(settings, request, head))
    wip = None if tree == _tree_of(layout, head) else _save(layout, settings, request.task_id, head, tree)
    _record(layout, SettledState(task_id=request.task_id, head=head, tree=tree, open=False))
    return Settled(tree=tree, wip_commit=wip, published=_published(settings, request, head))


def _published(settings: Settings, request: SettleRequest, head: str) -> str | None:
    """HEAD when a publish moved it in this task and the branch in Gitea really shows it."""
    if head == request.workspace.head:
        return None
    layout = Layout.of_session(settings, request.session_key)
    remote = _remote(settings, request.repository.full_name)
    there = git.remote_sha(remote, layout.clone, f"refs/heads/{request.workspace.branch}", settings.rpc_timeout)
    return head if there == head else None


def _save(layout: Layout, settings: Settings, task_id: str, head: str, tree: str) -> str:
    """Keeps unpublished changes as a commit under `refs/ccweb/wip/`; the worktree stays as it is."""
    commit = git.commit_tree(layout.repo, head, tree, f"Unpublished changes of {task_id}", settings.bot_name)
    git.run(["update-ref", f"refs/ccweb/wip/{task_id}", commit], git_dir=layout.clone)
    return commit


def _tree_of(layout: Layout, commit: str) -> str:
    return git.word(["rev-parse", f"{commit}^{{tree}}"], repo=layout.repo)


def _is_ancestor(layout: Layout, older: str, newer: str) -> bool:
    try:
        git.run(["merge-base", "--is-ancestor", older, newer], git_dir=layout.clone)
    except GitError:
        return False
    return True


def _left(layout: Layout) -> SettledState | None:
    if not layout.settled.exists():
        return None
    return SettledState.model_validate_json(layout.settled.read_text(encoding="utf-8"))


def _record(layout: Layout, state: SettledState) -> None:
    layout.settled.parent.mkdir(parents=True, exist_ok=True)
    fresh = layout.settled.with_suffix(".new")
    fresh.write_text(state.model_dump_json(), encoding="utf-8")
    fresh.replace(layout.settled)


def remove_worktree(settings: Settings, request: SessionClose) -> None:
    """Removes a closed session's worktree; its unpublished changes are kept under `refs/ccweb/wip/`."""
    layout = Layout.of(settings, request.repo_key, request.kind, request.number)
    for folder in (layout.worktree, layout.tmp):
        shutil.rmtree(folder, ignore_errors=True)
    if layout.clone.exists():
        git.run(["worktree", "prune"], git_dir=layout.clone)
    layout.settled.unlink(missing_ok=True)


def base_instructions(layout: Layout, base: str) -> str:
    """AGENTS.md of the base commit (never that of an untrusted head), bounded; empty when there is none."""
    try:
        content = git.run(["cat-file", "blob", f"{git.check_sha(base)}:{_AGENTS_FILE}"], git_dir=layout.clone)
    except GitError:
        return ""
    return content.decode(errors="replace")[:_MAX_INSTRUCTIONS]


def _limits(settings: Settings) -> Limits:
    return Limits(settings.max_file_bytes, settings.max_files)
