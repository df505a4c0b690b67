"""A worker host with the simulated Gitea: a session's worktree prepared, settled and published."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from activities.layout import Layout
from activities.workspace import WorkspaceActivities, remove_worktree
from clients import git
from domain.errors import ErrorCode, WorkspaceError
from domain.events import RepositoryRef, SessionClose, Settled, SettleRequest, Workspace, WorkspaceRequest
from settings import Settings, load_settings
from tests.contract.forge import Forge
from tests.contract.place import BOT, TOKEN

FIRST, SECOND = "gitea-task-0000000000000001", "gitea-task-0000000000000002"


@dataclass(frozen=True)
class Host:
    """A worker host with the simulated Gitea."""

    forge: Forge
    settings: Settings
    number: int
    kind: str = "issue"

    @property
    def layout(self) -> Layout:
        return Layout.of(self.settings, "default:alice/demo", self.kind, self.number)

    @property
    def tree(self) -> Path:
        return self.layout.worktree

    def request(self, task: str, **changes: object) -> WorkspaceRequest:
        fields = {
            "repository": RepositoryRef(id=1, owner="alice", name="demo"),
            "repo_key": "default:alice/demo",
            "session_key": f"default:alice/demo:{self.kind}:{self.number}",
            "kind": self.kind,
            "number": self.number,
            "task_id": task,
            "lease_id": f"{task}/1",
        }
        return WorkspaceRequest.model_validate(fields | changes)

    async def prepare(self, task: str = FIRST, **changes: object) -> Workspace:
        activities = WorkspaceActivities(self.settings)
        return await ActivityEnvironment().run(activities.prepare_workspace, self.request(task, **changes))

    async def settle(self, workspace: Workspace, task: str = FIRST) -> Settled:
        request = self.request(task)
        settle = SettleRequest.model_validate({**request.model_dump(), "workspace": workspace})
        return await ActivityEnvironment().run(WorkspaceActivities(self.settings).settle_workspace, settle)

    def publish(self, workspace: Workspace, message: str = "work") -> git.Published:
        limits = git.Limits(self.settings.max_file_bytes, self.settings.max_files)
        url = f"{self.forge.url}/{self.forge.full_name}.git"
        return git.publish(self.layout.repo, workspace.branch, message, url, TOKEN, BOT, limits, lambda: None, 30)

    def remote_branch(self, name: str) -> str | None:
        answer = self.forge.on_repo("GET", f"/branches/{name}")
        return str(answer.json()["commit"]["id"]) if answer.is_success else None

    def remote_sha(self, branch: str) -> str | None:
        """As `remote_branch`, of any name."""
        url = f"{self.forge.url}/{self.forge.full_name}.git"
        return git.remote_sha(git.Remote(url, BOT, TOKEN), self.layout.clone, f"refs/heads/{branch}", 30)

    def force(self, branch: str, commit: str) -> None:
        """A person rewrites a branch."""
        url = f"{self.forge.url}/{self.forge.full_name}.git"
        push = ["push", "--force", url, f"{commit}:refs/heads/{branch}"]
        git.run(push, git_dir=self.layout.clone, extra=git.Remote(url, BOT, TOKEN).environment())

    def close(self) -> None:
        remove_worktree(self.settings, SessionClose.model_validate(self.request(FIRST).model_dump()))

    def kept(self, name: str, ref: str = FIRST) -> str:
        """A file as it is saved under refs/ccweb/wip."""
        return git.run(["cat-file", "blob", f"refs/ccweb/wip/{ref}:{name}"], git_dir=self.layout.clone).decode()

    async def refused(self, task: str = SECOND) -> str:
        """What prepare says when it refuses the worktree."""
        with pytest.raises(WorkspaceError) as caught:
            await self.prepare(task)
        assert caught.value.code == ErrorCode.WORKSPACE_DIRTY
        return caught.value.detail

    def elsewhere(self, directory: Path) -> "Host":
        """Another host, to change the same branch from."""
        return Host(
            self.forge, self.settings.model_copy(update={"workspace_root": directory}), self.number, self.kind
        )


def make_host(forge: Forge, state_dir: Path) -> Host:
    settings = load_settings(gitea_url=forge.url, gitea_token=TOKEN, bot_name=BOT, state_dir=state_dir)
    return Host(forge, settings, forge.new_issue())
