"""Where a repository and its sessions lie on this host (design section 11)."""

from dataclasses import dataclass
from pathlib import Path

from clients.git import Repo
from domain import ids
from domain.errors import ErrorCode, WorkspaceError
from settings import Settings


@dataclass(frozen=True, slots=True)
class Layout:
    """Only `worktree` and `tmp` are writable for commands of the model."""

    root: Path
    session: str

    @classmethod
    def of(cls, settings: Settings, repo_key: str, kind: str, number: int) -> "Layout":
        """The folders of a session; `repo_key` is the first-seen name, so a rename moves nothing.

        Raises:
            WorkspaceError: workspace_unavailable, the name cannot be a folder.
        """
        owner, _, repo = repo_key.removeprefix(f"{ids.INSTANCE_ID}:").partition("/")
        if not (ids.is_repository_name(owner) and ids.is_repository_name(repo)):
            raise WorkspaceError(ErrorCode.WORKSPACE_UNAVAILABLE, f"not a repository name: {repo_key[:80]!r}")
        return cls(settings.workspace_root / ids.INSTANCE_ID / owner / repo, f"{kind}-{number}")

    @classmethod
    def of_session(cls, settings: Settings, session_key: str) -> "Layout":
        """The folders of the session with this key, see `of`."""
        resource = ids.ResourceRef.parse(session_key)
        return cls.of(settings, ids.repo_key(resource.owner, resource.repo), resource.kind, resource.number)

    @property
    def clone(self) -> Path:
        return self.root / "clone.git"

    @property
    def identity(self) -> Path:
        """Records which repository.id the clone belongs to."""
        return self.root / "repository.json"

    @property
    def worktree(self) -> Path:
        return self.root / "worktrees" / self.session

    @property
    def git_dir(self) -> Path:
        return self.clone / "worktrees" / self.session

    @property
    def tmp(self) -> Path:
        """`TMPDIR` of the session's commands."""
        return self.root / "tmp" / self.session

    @property
    def settled(self) -> Path:
        """What the last task of the session left, see `activities.workspace`."""
        return self.root / "settled" / f"{self.session}.json"

    @property
    def repo(self) -> Repo:
        return Repo(self.git_dir, self.clone, self.worktree)
