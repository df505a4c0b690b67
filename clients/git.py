"""All git that runs outside the sandbox (design section 11). Standard library only: the bridge imports it.

No porcelain ever runs over the agent's tree: `clients.git_tree` makes trees from it with plumbing. Every
process gets explicit folders, no system or user configuration, no hooks, filters, fsmonitor or credential
helpers, only http(s), a time limit, and the credential in its own environment.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from clients.children import DIE_WITH_PARENT
from domain.errors import ErrorCode, WorkspaceError

ASKPASS = Path(__file__).resolve().parent / "askpass.sh"
_PLACES = os.pathsep.join(("/usr/bin", "/usr/local/bin", "/bin", "/opt/homebrew/bin", "/opt/local/bin"))
_LOCAL_LIMIT = 120.0
_MANY_PACKS, _MANY_LOOSE = 50, 6700
_PUSHED = "refs/worktree/ccweb-pushed"
_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))
ALL_BRANCHES = ("+refs/heads/*:refs/remotes/origin/*",)
_BRANCH = re.compile(r"(?![-/.]|.*(?:\.\.|//|@\{|\.lock(?:/|$)|/\.))[^\x00-\x20\x7f~^:?*\[\\]{1,240}(?<![./])")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "credential.helper=",
    "protocol.allow=never",
    "protocol.http.allow=always",
    "protocol.https.allow=always",
    "http.followRedirects=initial",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "transfer.fsckObjects=false",
    "core.quotePath=false",
    "core.fsync=committed,loose-object",
    "core.fsyncMethod=batch",
)


@dataclass(frozen=True, slots=True)
class Repo:
    """A worktree and the folders of its repository, all absolute and outside the agent's reach but the first."""

    git_dir: Path
    common_dir: Path
    worktree: Path


@dataclass(frozen=True, slots=True)
class Limits:
    max_file_bytes: int
    max_files: int


@dataclass(frozen=True, slots=True)
class Published:
    commit: str
    created: bool
    """False when this very content was on the branch already."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Where and as whom; the token goes into the environment of one process only."""

    url: str
    user: str
    token: str

    def environment(self) -> dict[str, str]:
        return {
            "GIT_ASKPASS": str(ASKPASS),
            "CCWEB_GIT_HOST": urlsplit(self.url).netloc,
            "CCWEB_GIT_USER": self.user,
            "CCWEB_GIT_TOKEN": self.token,
        }


class GitError(WorkspaceError):
    """git ended with an error; `text` is its stderr."""

    def __init__(self, command: str, text: str) -> None:
        super().__init__(ErrorCode.WORKSPACE_UNAVAILABLE, f"git {command}: {text.strip()[-300:]}")
        self.text = text


def executable() -> str:
    """The absolute path of git from fixed places: PATH may have none on purpose.

    Raises:
        WorkspaceError: workspace_unavailable, git is not installed.
    """
    found = shutil.which("git", path=_PLACES)
    if found is None:
        raise WorkspaceError(ErrorCode.WORKSPACE_UNAVAILABLE, "git is not installed")
    return found


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Bounds all git processes of the block together, however many there are and whatever their own limits."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def check_time() -> None:
    """For loops of ours between git processes.

    Raises:
        WorkspaceError: workspace_unavailable, the time of `within` is over.
    """
    if time.monotonic() > _deadline.get():
        raise WorkspaceError(ErrorCode.WORKSPACE_UNAVAILABLE, "reading the worktree took too long")


def run(
    arguments: Sequence[str],
    *,
    repo: Repo | None = None,
    git_dir: Path | None = None,
    data: bytes = b"",
    extra: Mapping[str, str] | None = None,
    limit: float = _LOCAL_LIMIT,
) -> bytes:
    """Runs one git process and returns its standard output.

    Raises:
        GitError: it ended with an error.
        WorkspaceError: workspace_unavailable after `limit` seconds or that of `within`, disk_full.
    """
    limit = min(limit, max(_deadline.get() - time.monotonic(), 0))
    command = [executable(), *(part for setting in _SAFE for part in ("-c", setting)), *arguments]
    environment = {**_environment(repo, git_dir), **(extra or {})}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd="/",
        start_new_session=True,
        # A talk with Gitea can last: left behind by a killed worker it would write beside its successor.
        preexec_fn=DIE_WITH_PARENT if extra else None,  # noqa: PLW1509
    ) as process:
        try:
            out, errors = process.communicate(data, limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise WorkspaceError(ErrorCode.WORKSPACE_UNAVAILABLE, f"git {arguments[0]} took too long") from None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    text = errors.decode(errors="replace")
    if process.returncode and ("No space left on device" in text or "Disk quota exceeded" in text):
        raise WorkspaceError(ErrorCode.DISK_FULL, f"git {arguments[0]}")
    if process.returncode:
        raise GitError(arguments[0], text)
    return out


def _environment(repo: Repo | None, git_dir: Path | None) -> dict[str, str]:
    base = {
        "HOME": "/nonexistent",
        "PATH": _PLACES,
        "LANG": "C",
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
    }
    certificates = {name: os.environ[name] for name in ("GIT_SSL_CAINFO", "SSL_CERT_FILE") if name in os.environ}
    if repo is not None:
        base |= {
            "GIT_DIR": str(repo.git_dir),
            "GIT_COMMON_DIR": str(repo.common_dir),
            "GIT_WORK_TREE": str(repo.worktree),
        }
    elif git_dir is not None:
        base["GIT_DIR"] = str(git_dir)
    return base | certificates


def check_branch(name: str) -> str:
    """The name if it is a plain branch name.

    Raises:
        WorkspaceError: publish_refused.
    """
    if _BRANCH.fullmatch(name) is None:
        raise WorkspaceError(ErrorCode.PUBLISH_REFUSED, f"not a branch name: {name[:80]!r}")
    return name


def check_sha(text: str) -> str:
    """The text if it is a full object id.

    Raises:
        WorkspaceError: workspace_unavailable.
    """
    if _SHA.fullmatch(text) is None:
        raise WorkspaceError(ErrorCode.WORKSPACE_UNAVAILABLE, f"not a commit: {text[:80]!r}")
    return text


def word(arguments: Sequence[str], *, repo: Repo | None = None, git_dir: Path | None = None) -> str:
    """One line of output, stripped."""
    return run(arguments, repo=repo, git_dir=git_dir).decode().strip()


def resolve(git_dir: Path, revision: str) -> str | None:
    """The commit of a ref or revision in a clone, if there is one."""
    try:
        return word(
            ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"], git_dir=git_dir
        )
    except GitError:
        return None


def clone(remote: Remote, path: Path, limit: float) -> None:
    """Makes a bare clone with all branches; complete or not there at all.

    Raises:
        WorkspaceError: workspace_auth_failed, workspace_unavailable, disk_full.
    """
    fresh = path.with_name(path.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.parent.mkdir(parents=True, exist_ok=True)
    run(["init", "--quiet", "--bare", str(fresh)])
    fetch(remote, fresh, ALL_BRANCHES, limit)
    fresh.replace(path)


def fetch(remote: Remote, git_dir: Path, refspecs: Sequence[str], limit: float) -> None:
    """Fetches refspecs; deleted branches of the remote go away here too.

    Raises:
        WorkspaceError: workspace_auth_failed, workspace_unavailable, disk_full.
    """
    quietly = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--prune"]
    _ask(remote, git_dir, [*quietly, remote.url, *refspecs], limit)


def pack(git_dir: Path, limit: float) -> None:
    """Packs a clone when many objects lie about, as git would by itself; nothing is dropped, reachable or not.

    Raises:
        WorkspaceError: workspace_unavailable, disk_full.
    """
    packs = sum(1 for _ in git_dir.glob("objects/pack/*.pack"))
    loose = 256 * sum(1 for _ in git_dir.glob("objects/17/*"))  # a sample: names are spread evenly
    if packs > _MANY_PACKS or loose > _MANY_LOOSE:
        run(["repack", "--geometric=2", "-d", "-q"], git_dir=git_dir, limit=limit)


def remote_sha(remote: Remote, git_dir: Path, ref: str, limit: float) -> str | None:
    """What a ref of the remote points to now.

    Raises:
        WorkspaceError: as `fetch`.
    """
    lines = _ask(remote, git_dir, ["ls-remote", remote.url, ref], limit).decode().splitlines()
    return next((line.split("\t")[0] for line in lines if line.endswith(f"\t{ref}")), None)


def _ask(remote: Remote, git_dir: Path, arguments: Sequence[str], limit: float) -> bytes:
    try:
        return run(arguments, git_dir=git_dir, extra=remote.environment(), limit=limit)
    except GitError as error:
        raise _network_error(error) from error


_AWAY = (
    "Failed to connect",
    "Could not connect",
    "Could not resolve host",
    "Connection refused",
    "Connection reset",
    "Empty reply",
    "RPC failed",
    "unexpected disconnect",
    "hung up unexpectedly",
    "early EOF",
    "returned error: 5",
)


def _network_error(error: GitError) -> WorkspaceError:
    """Which of our codes a refused clone, fetch or look-up means (Gitea's texts)."""
    signs = ("Authentication failed", "could not read Username", "could not read Password", "error: 403", "not found")
    refused = any(sign in error.text for sign in signs)
    away = any(sign in error.text for sign in _AWAY)
    other = ErrorCode.GITEA_UNAVAILABLE if away else ErrorCode.WORKSPACE_UNAVAILABLE
    code = ErrorCode.WORKSPACE_AUTH_FAILED if refused else other
    return WorkspaceError(code, error.text.strip().splitlines()[-1][:300] if error.text.strip() else "git failed")


def push(remote: Remote, repo: Repo, commit: str, branch: str, limit: float) -> None:
    """Pushes a recorded commit, never a ref that somebody could move.

    Raises:
        WorkspaceError: publish_conflict, publish_refused, workspace_auth_failed, workspace_unavailable.
    """
    refspec = f"{check_sha(commit)}:refs/heads/{check_branch(branch)}"
    try:
        run(["push", "--no-verify", remote.url, refspec], repo=repo,
            extra=remote.environment(), limit=limit)  # fmt: skip
    except GitError as error:
        raise _push_error(error) from error


_MOVED = ("non-fast-forward", "fetch first", "stale info", "cannot lock ref")
_REFUSED = ("pre-receive hook declined", "error: 403", "permission denied", "[remote rejected]")


def _push_error(error: GitError) -> WorkspaceError:
    text = error.text
    if any(sign in text for sign in _MOVED):
        return WorkspaceError(ErrorCode.PUBLISH_CONFLICT, "the branch moved in Gitea")
    if any(sign in text for sign in _REFUSED):
        return WorkspaceError(ErrorCode.PUBLISH_REFUSED, _remote_words(text))
    return _network_error(error)


def _remote_words(text: str) -> str:
    said = [line.removeprefix("remote:").strip() for line in text.splitlines() if line.startswith("remote:")]
    return (" ".join(word for word in said if word) or text.strip().splitlines()[-1])[:300]


def publish(
    repo: Repo,
    branch: str,
    message: str,
    url: str,
    token: str,
    bot: str,
    limits: Limits,
    before_push: Callable[[], None],
    limit: float,
) -> Published:
    """Commits the worktree on top of its HEAD and pushes the branch; HEAD moves only after the push.

    All of it up to the push ends within `limit` seconds, with an error if need be. `before_push` runs right
    before the push and may refuse by raising. Doing it again is safe: content that is on the branch already is
    found there, not committed anew.

    Raises:
        WorkspaceError: nothing_to_publish, nested_repository, special_file, file_too_large, too_many_files,
            publish_conflict, publish_refused, workspace_auth_failed, workspace_unavailable, disk_full.
    """
    from clients import git_tree  # noqa: PLC0415  # it builds on this module

    remote = Remote(url, bot, token)
    with within(limit):
        there = remote_sha(remote, repo.common_dir, f"refs/heads/{check_branch(branch)}", limit)
        cut = there is not None and there == pushed(repo) != word(["rev-parse", "HEAD"], repo=repo)
        if there is not None and cut:
            move_head(repo, there)
        head = word(["rev-parse", "HEAD"], repo=repo)
        tree = git_tree.snapshot(repo, limits)
        if tree == word(["rev-parse", f"{head}^{{tree}}"], repo=repo):
            if cut:
                return Published(head, created=False)
            raise WorkspaceError(ErrorCode.NOTHING_TO_PUBLISH, head)
        if there not in {None, head}:
            raise WorkspaceError(ErrorCode.PUBLISH_CONFLICT, _moved(remote, repo, branch, tree, limit))
        commit = commit_tree(repo, head, tree, message, bot)
        run(["update-ref", _PUSHED, commit], repo=repo)
        before_push()
        push(remote, repo, commit, branch, limit)
    move_head(repo, commit)
    run(["update-ref", f"refs/remotes/origin/{branch}", commit], git_dir=repo.common_dir)
    return Published(commit, created=True)


def pushed(repo: Repo) -> str | None:
    """The last commit that `publish` pushed, or was about to push, from this worktree."""
    try:
        return word(["rev-parse", "--verify", "--quiet", _PUSHED], repo=repo)
    except GitError:
        return None


def _moved(remote: Remote, repo: Repo, branch: str, tree: str, limit: float) -> str:
    """What the agent can do about a branch that others moved or rewrote."""
    from clients import git_move  # noqa: PLC0415  # it builds on this module

    ref = f"refs/remotes/origin/{branch}"
    fetch(remote, repo.common_dir, [f"+refs/heads/{branch}:{ref}"], limit)
    theirs = word(["rev-parse", ref], repo=repo)
    conflicts = git_move.plan(repo, theirs, tree).conflicts
    if not conflicts:
        return (
            f"{branch} moved in Gitea since this work began; nothing was pushed. Nobody else changed your files: "
            "reply that your changes are kept; the next turn takes over the new version together with them"
        )
    return (
        f"{branch} moved in Gitea since this work began; nothing was pushed. Others changed too: "
        f"{git_move.shown(conflicts)}. Their version: `git show {theirs[:12]}:PATH`. Undo yours in these files "
        "(`git show HEAD:PATH > PATH`), and reply what is to be done again; the next turn starts from their version"
    )


def commit_tree(repo: Repo, head: str, tree: str, message: str, bot: str) -> str:
    """A commit object of `tree` on `head`, on no branch; `head` itself when nothing changed."""
    if tree == word(["rev-parse", f"{head}^{{tree}}"], repo=repo):
        return head
    person = {"NAME": bot, "EMAIL": f"{bot}@noreply.localhost"}
    extra = {f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in person.items()}
    text = message.replace("\0", "").strip() or "Changes by the agent"
    return run(["commit-tree", tree, "-p", head], repo=repo, data=text.encode() + b"\n", extra=extra).decode().strip()


def move_head(repo: Repo, commit: str) -> None:
    """Moves the detached HEAD and gives the worktree an index of that commit; no file is touched."""
    run(["update-ref", "--no-deref", "HEAD", check_sha(commit)], repo=repo)
    index_head(repo)


def index_head(repo: Repo, index: Mapping[str, str] | None = None) -> frozenset[bytes]:
    """Gives the worktree's index (or the one that `index` names) what HEAD has; the paths of its gitlinks.

    What the index knows of files that stay the same is kept, so they need not be read again. Each gitlink is
    marked so that no git ever looks into its folder, which the agent can fill.
    """
    try:
        run(["read-tree", "-m", "-i", "HEAD"], repo=repo, extra=index)
    except GitError:  # an index that a power cut left unreadable
        run(["read-tree", "HEAD"], repo=repo, extra=index)
    entries = run(["ls-files", "-s", "-z"], repo=repo, extra=index).split(b"\0")
    links = frozenset(entry.split(b"\t", 1)[1] for entry in entries if entry.startswith(b"160000 "))
    if links:
        data = b"".join(link + b"\0" for link in links)
        run(["update-index", "-z", "--skip-worktree", "--stdin"], repo=repo, data=data, extra=index)
    return links
