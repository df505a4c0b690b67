"""What ccweb relies on in Gitea: the same against the simulator and a real one (CONTRACT_GITEA_*)."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.testing import ActivityEnvironment

from activities.gitea import GiteaActivities
from activities.replies import ReplyActivities
from clients import git
from clients.gitea import GiteaClient
from domain import ids, marker
from domain.errors import ErrorCode, GiteaError, WorkspaceError
from domain.events import CommentRequest, FallbackRequest, ReactionTarget, RepositoryRef, VerifyRequest
from domain.states import TaskState
from tests.conftest import scratch_dir
from tests.contract.forge import Forge, forge, settings_for

TASK = ids.task_id("default:contract")


@pytest.fixture(scope="module")
def gitea() -> Iterator[Forge]:
    with scratch_dir() as directory, forge(directory) as found:
        yield found


@pytest_asyncio.fixture
async def client(gitea: Forge, state_dir: Path) -> AsyncIterator[GiteaClient]:
    async with GiteaClient(settings_for(gitea, state_dir)) as found:
        yield found


def ref(gitea: Forge) -> RepositoryRef:
    return RepositoryRef(id=1, owner=gitea.owner, name=gitea.repo)


async def test_the_bot_sees_the_repository_and_who_may_write(gitea: Forge, client: GiteaClient) -> None:
    repository = await client.repository(gitea.full_name)
    assert (repository.full_name, repository.default_branch) == (gitea.full_name, "main")
    assert {gitea.owner, gitea.bot} <= {user.login for user in await client.assignees(gitea.full_name)}


async def test_a_comment_is_found_after_it_was_posted(gitea: Forge, client: GiteaClient) -> None:
    number = gitea.new_issue()
    posted = await client.create_comment(gitea.full_name, number, "hello <b>&")
    (found,) = await client.comments(gitea.full_name, number)
    assert (found.id, found.body, found.user.login) == (posted.id, "hello <b>&", gitea.bot)


async def test_reacting_twice_is_once(gitea: Forge, client: GiteaClient) -> None:
    number = gitea.new_issue()
    comment = await client.create_comment(gitea.full_name, number, "x")
    for _ in range(2):
        await client.react(gitea.full_name, f"comments/{comment.id}", "eyes")
        await client.react(gitea.full_name, str(number), "eyes")
    shown = gitea.on_repo("GET", f"/issues/comments/{comment.id}/reactions").json()
    assert [one["content"] for one in shown] == ["eyes"]


async def test_comments_of_a_missing_issue_are_no_outage(gitea: Forge, client: GiteaClient) -> None:
    with pytest.raises(GiteaError) as caught:
        await client.comments(gitea.full_name, 999999)
    assert caught.value.code == ErrorCode.REPOSITORY_UNAVAILABLE


async def test_a_hidden_or_missing_repository_is_unavailable(gitea: Forge, client: GiteaClient) -> None:
    with pytest.raises(GiteaError) as caught:
        await client.repository(f"{gitea.owner}/there-is-none")
    assert caught.value.code == ErrorCode.REPOSITORY_UNAVAILABLE


async def test_a_wrong_token_is_refused_on_public_repositories_too(gitea: Forge, state_dir: Path) -> None:
    async with GiteaClient(settings_for(gitea, state_dir, "0" * 40)) as client:
        with pytest.raises(GiteaError) as caught:
            await client.repository(gitea.full_name)
    assert caught.value.code == ErrorCode.GITEA_AUTH_FAILED


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/issues/999999", None, 404),
        ("GET", "/issues/999999/comments", None, 500),
        ("POST", "/issues/999999/comments", {"body": "x"}, 500),
        ("GET", "/branches/none", None, 404),
        ("GET", "/issues/comments/999999999", None, 404),
        ("POST", "/pulls", {"head": "none", "base": "main", "title": "x"}, 404),
    ],
)
def test_refusals_have_gitea_s_status(gitea: Forge, method: str, path: str, body: object, status: int) -> None:
    assert gitea.on_repo(method, path, body).status_code == status


@pytest.fixture
def renamed(gitea: Forge) -> Iterator[tuple[str, str]]:
    """Old and new full name of a repository with issue 1, in which the bot may write."""
    name = f"ccweb-contract-{secrets.token_hex(4)}"
    old, new = f"{gitea.owner}/{name}", f"{gitea.owner}/{name}-new"
    gitea.ask("POST", "/user/repos", {"name": name, "auto_init": True}).raise_for_status()
    gitea.ask("PUT", f"/repos/{old}/collaborators/{gitea.bot}", {"permission": "write"}).raise_for_status()
    gitea.ask("POST", f"/repos/{old}/issues", {"title": "t"}).raise_for_status()
    gitea.ask("PATCH", f"/repos/{old}", {"name": f"{name}-new"}).raise_for_status()
    yield old, new
    gitea.ask("DELETE", f"/repos/{new}").raise_for_status()


async def test_the_old_name_of_a_renamed_repository_still_takes_reads_and_comments(
    gitea: Forge, client: GiteaClient, renamed: tuple[str, str]
) -> None:
    """Gitea 1.22 redirects with 307, 1.27 with 301: a comment has to arrive as one either way."""
    old, new = renamed
    assert (await client.repository(old)).full_name == new
    posted = await client.create_comment(old, 1, "still here")
    assert [one.id for one in await client.comments(new, 1)] == [posted.id]


def test_git_follows_a_renamed_repository(gitea: Forge, renamed: tuple[str, str], state_dir: Path) -> None:
    remote = git.Remote(f"{gitea.url}/{renamed[0]}.git", gitea.bot, gitea.bot_token)
    clone = state_dir / "clone.git"
    git.clone(remote, clone, 60)
    commit = git.resolve(clone, "refs/remotes/origin/main")
    assert commit is not None
    git.push(remote, git.Repo(clone, clone, state_dir), commit, "ccweb/moved", 60)
    branch = gitea.ask("GET", f"/repos/{renamed[1]}/branches/ccweb/moved").raise_for_status().json()
    assert branch["commit"]["id"] == commit


def test_an_empty_comment_is_refused(gitea: Forge) -> None:
    assert gitea.on_repo("POST", f"/issues/{gitea.new_issue()}/comments", {"body": ""}).status_code == 422


async def test_a_receipt_is_posted_once(gitea: Forge, client: GiteaClient, state_dir: Path) -> None:
    activities = GiteaActivities(settings_for(gitea, state_dir), client)
    number = gitea.new_issue()
    comment = gitea.on_repo("POST", f"/issues/{number}/comments", {"body": "please"}).json()["id"]
    request = CommentRequest(
        repository=ref(gitea),
        number=number,
        comment_key=ids.status_comment_key(TASK, "received"),
        source_key=f"1:comment:{comment}",
        state=TaskState.QUEUED,
        react_to=ReactionTarget(source_kind="comment", source_id=str(comment)),
    )
    first = await ActivityEnvironment().run(activities.post_receipt, request)
    second = await ActivityEnvironment().run(activities.post_receipt, request)
    assert first.created and not second.created and first.comment_id == second.comment_id
    (_, receipt) = await client.comments(gitea.full_name, number)
    assert receipt.body.startswith("giteabot: received")
    assert marker.parse(receipt.body) == marker.ReceiptMarker(request.comment_key, request.source_key)


async def test_the_fallback_posts_once_and_is_read_back(gitea: Forge, client: GiteaClient, state_dir: Path) -> None:
    activities = ReplyActivities(settings_for(gitea, state_dir), client)
    number = gitea.new_issue()
    look = VerifyRequest(repository=ref(gitea), number=number, task_id=TASK, round=1, budget=1)
    assert (await ActivityEnvironment().run(activities.verify_reply, look)).found == "missing"
    request = FallbackRequest(
        repository=ref(gitea),
        number=number,
        task_id=TASK,
        round=1,
        turn_id="turn-1",
        source_key="1:comment:1",
        text="The answer. <!-- ccweb kind=final taskId=forged -->",
        budget=1,
    )
    first = await ActivityEnvironment().run(activities.post_fallback, request)
    second = await ActivityEnvironment().run(activities.post_fallback, request)
    assert first.found == "rest_fallback" and first == second
    assert len(await client.comments(gitea.full_name, number)) == 1


async def test_a_marker_of_somebody_else_counts_for_nothing(
    gitea: Forge, client: GiteaClient, state_dir: Path
) -> None:
    number = gitea.new_issue()
    forged = marker.stamp("mine", marker.ReplyMarker("final", TASK, "t", 1, "1:comment:1"))
    gitea.on_repo("POST", f"/issues/{number}/comments", {"body": forged}).raise_for_status()
    look = VerifyRequest(repository=ref(gitea), number=number, task_id=TASK, round=1, budget=1)
    found = await ActivityEnvironment().run(
        ReplyActivities(settings_for(gitea, state_dir), client).verify_reply, look
    )
    assert found.found == "missing"


def test_a_clone_is_pushed_by_sha_and_a_wrong_token_is_refused(gitea: Forge, state_dir: Path) -> None:
    remote = git.Remote(f"{gitea.url}/{gitea.full_name}.git", gitea.bot, gitea.bot_token)
    clone = state_dir / "clone.git"
    git.clone(remote, clone, 60)
    commit = git.resolve(clone, "refs/remotes/origin/main")
    assert commit is not None
    repo = git.Repo(clone, clone, state_dir)
    git.push(remote, repo, commit, "ccweb/contract", 60)
    assert git.remote_sha(remote, clone, "refs/heads/ccweb/contract", 60) == commit
    with pytest.raises(WorkspaceError) as caught:
        git.push(git.Remote(remote.url, gitea.bot, "0" * 40), repo, commit, "ccweb/other", 60)
    assert caught.value.code == ErrorCode.WORKSPACE_AUTH_FAILED


def test_nothing_is_left_in_the_clones_configuration(gitea: Forge, state_dir: Path) -> None:
    remote = git.Remote(f"{gitea.url}/{gitea.full_name}.git", gitea.bot, gitea.bot_token)
    git.clone(remote, state_dir / "clone.git", 60)
    written = [path for path in (state_dir / "clone.git").rglob("*") if path.is_file()]
    assert not any(gitea.bot_token.encode() in path.read_bytes() for path in written)
