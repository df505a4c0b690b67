"""Preparing, publishing and settling over git's real HTTP protocol."""

from pathlib import Path

import httpx
import pytest

from activities.workspace import base_instructions
from clients import git, lease
from domain.errors import ErrorCode, WorkspaceError
from domain.events import RepositoryRef
from settings import load_settings
from tests.contract.place import BOT, TOKEN
from tests.workspace.host import FIRST, SECOND, Host
from tests.workspace.place import plain


async def test_a_published_change_is_on_the_sessions_branch(host: Host) -> None:
    workspace = await host.prepare()
    (host.tree / "new.txt").write_text("new")
    published = host.publish(workspace)
    assert published.created and host.remote_branch(f"ccweb/issue-{host.number}") == published.commit
    settled = await host.settle(workspace)
    assert settled.published == published.commit and settled.wip_commit is None


async def test_publishing_again_makes_no_second_commit(host: Host) -> None:
    workspace = await host.prepare()
    (host.tree / "new.txt").write_text("new")
    host.publish(workspace)
    with pytest.raises(WorkspaceError) as caught:
        host.publish(workspace)
    assert caught.value.code == ErrorCode.NOTHING_TO_PUBLISH


async def test_a_publish_cut_after_its_push_is_found_again(host: Host) -> None:
    workspace = await host.prepare()
    (host.tree / "new.txt").write_text("new")
    first = host.publish(workspace)
    git.move_head(host.layout.repo, workspace.head)
    second = host.publish(workspace)
    assert second.commit == first.commit and not second.created


async def test_head_moves_only_after_the_push(host: Host) -> None:
    workspace = await host.prepare()
    (host.tree / "new.txt").write_text("new")
    with pytest.raises(WorkspaceError) as caught:
        git.publish(
            host.layout.repo, workspace.branch, "m", f"{host.forge.url}/alice/demo.git", "0" * 40, BOT,
            git.Limits(1000, 10), lambda: None, 30,
        )  # fmt: skip
    assert caught.value.code == ErrorCode.WORKSPACE_AUTH_FAILED
    assert git.word(["rev-parse", "HEAD"], repo=host.layout.repo) == workspace.head


async def test_a_branch_that_moved_is_a_conflict_that_says_what_to_do(host: Host, state_dir: Path) -> None:
    other = host.elsewhere(state_dir / "other")
    workspace, theirs = await host.prepare(), await other.prepare(SECOND)
    (other.tree / "new.txt").write_text("theirs")
    (other.tree / "more.txt").write_text("theirs")
    pushed = other.publish(theirs)
    (host.tree / "new.txt").write_text("ours")
    with pytest.raises(WorkspaceError) as caught:
        host.publish(workspace)
    assert caught.value.code == ErrorCode.PUBLISH_CONFLICT
    assert "'new.txt'" in caught.value.detail and "more.txt" not in caught.value.detail
    assert f"git show {pushed.commit[:12]}:PATH" in caught.value.detail
    assert plain("show", f"{pushed.commit}:new.txt", cwd=host.tree) == "theirs"
    assert host.remote_branch(workspace.branch) == pushed.commit


async def test_more_work_after_a_publish_that_was_cut_goes_on_top_of_it(host: Host) -> None:
    workspace = await host.prepare()
    (host.tree / "new.txt").write_text("new")
    first = host.publish(workspace)
    git.move_head(host.layout.repo, workspace.head)
    (host.tree / "new.txt").write_text("newer")
    second = host.publish(workspace)
    assert plain("rev-parse", f"{second.commit}^", cwd=host.tree).strip() == first.commit


async def test_a_branch_that_was_taken_back_is_not_pushed_forward_again(host: Host) -> None:
    workspace = await host.prepare()
    for name in ("one", "two"):
        (host.tree / name).write_text(name)
        host.publish(workspace)
    back = plain("rev-parse", "HEAD^", cwd=host.tree).strip()
    host.force(workspace.branch, back)
    (host.tree / "three").write_text("three")
    with pytest.raises(WorkspaceError) as caught:
        host.publish(workspace)
    assert caught.value.code == ErrorCode.PUBLISH_CONFLICT and host.remote_branch(workspace.branch) == back


async def test_a_protected_branch_refuses_with_giteas_words(host: Host) -> None:
    workspace = await host.prepare()
    (host.tree / "new.txt").write_text("new")
    rule = {"repo": host.forge.full_name, "branch": workspace.branch}
    httpx.post(f"{host.forge.url}/_sim/protect", json=rule).raise_for_status()
    with pytest.raises(WorkspaceError) as caught:
        host.publish(workspace)
    assert caught.value.code == ErrorCode.PUBLISH_REFUSED
    assert "Not allowed to push to protected branch" in caught.value.detail


async def test_leftovers_are_saved_and_the_next_task_goes_on_with_them(host: Host) -> None:
    workspace = await host.prepare()
    (host.tree / "half.txt").write_text("half done")
    settled = await host.settle(workspace)
    kept = git.run(["cat-file", "blob", f"refs/ccweb/wip/{FIRST}:half.txt"], git_dir=host.layout.clone)
    assert kept == b"half done" and settled.published is None
    again = await host.prepare(SECOND)
    assert again.resumed_wip and (host.tree / "half.txt").read_text() == "half done"


async def test_a_tree_changed_behind_our_back_blocks_and_is_never_reset(host: Host) -> None:
    await host.settle(await host.prepare())
    (host.tree / "stranger.txt").write_text("whose is this?")
    with pytest.raises(WorkspaceError) as caught:
        await host.prepare(SECOND)
    assert caught.value.code == ErrorCode.WORKSPACE_DIRTY
    assert (host.tree / "stranger.txt").read_text() == "whose is this?"


async def test_the_same_task_goes_on_after_a_crash_in_its_turn(host: Host) -> None:
    await host.prepare()
    (host.tree / "half.txt").write_text("half")
    assert (await host.prepare()).resumed_wip


async def test_work_of_a_dead_task_is_kept_under_its_own_name(host: Host) -> None:
    await host.prepare()
    (host.tree / "half.txt").write_text("half")
    await host.prepare(SECOND)
    kept = git.run(["cat-file", "blob", f"refs/ccweb/wip/{FIRST}:half.txt"], git_dir=host.layout.clone)
    assert kept == b"half"


async def test_a_pull_request_works_on_its_head_and_a_fork_on_a_branch_of_ours(host: Host) -> None:
    workspace = await host.prepare()
    (host.tree / "feature.txt").write_text("feature")
    head = host.publish(workspace).commit
    wanted = {"head": workspace.branch, "base": "main", "title": "feature"}
    number = host.forge.on_repo("POST", "/pulls", wanted).raise_for_status().json()["number"]
    pull = Host(host.forge, host.settings, number, "pull_request")
    prepared = await pull.prepare(SECOND, pull_head=workspace.branch)
    assert (prepared.branch, prepared.head) == (workspace.branch, head)
    fork = await pull.prepare(SECOND, pull_head="main", fork=True)
    assert (fork.branch, fork.head) == (f"ccweb/pull-{number}", head)


async def test_a_pull_requests_branch_may_have_any_name_that_git_allows(host: Host) -> None:
    workspace = await host.prepare()
    name = "fix/#12-größe(x)@y,z=$(id)"
    host.force(git.check_branch(name), workspace.head)
    (host.tree / "new.txt").write_text("new")
    published = host.publish(workspace.model_copy(update={"branch": name}))
    assert host.remote_sha(name) == published.commit


@pytest.mark.parametrize(
    "name", ["-x", "a..b", "a b", "a:b", "+a:b", "a*", "a/", "/a", "a.lock", ".a", "a/.b", "a@{1}"]
)
def test_what_is_no_branch_name_is_refused(name: str) -> None:
    with pytest.raises(WorkspaceError):
        git.check_branch(name)
    with pytest.raises(git.GitError):
        git.run(["check-ref-format", "--branch", name])


async def test_work_on_a_forks_pull_request_never_reaches_our_branch_of_the_same_name(
    host: Host, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = await host.prepare()
    (host.tree / "feature.txt").write_text("feature")
    host.publish(workspace)
    wanted = {"head": workspace.branch, "base": "main", "title": "feature"}
    number = host.forge.on_repo("POST", "/pulls", wanted).raise_for_status().json()["number"]
    monkeypatch.setenv("CCWEB_PUSH_TO_FORKS", "true")
    settings = load_settings(gitea_url=host.forge.url, gitea_token=TOKEN, bot_name=BOT, state_dir=state_dir)
    pull, ours = Host(host.forge, settings, number, "pull_request"), host.remote_branch("main")
    prepared = await pull.prepare(SECOND, pull_head="main", fork=True)
    (pull.tree / "work.txt").write_text("work")
    pull.publish(prepared)
    assert host.remote_branch("main") == ours and host.remote_branch(f"ccweb/pull-{number}")


async def test_instructions_come_from_the_base_branch(host: Host) -> None:
    workspace = await host.prepare()
    (host.tree / "AGENTS.md").write_text("from an untrusted head")
    assert base_instructions(host.layout, workspace.base) == ""


async def test_a_repository_made_anew_under_an_old_name_does_not_get_the_old_clone(host: Host) -> None:
    await host.prepare()
    stranger = RepositoryRef(id=99, owner="alice", name="demo")
    with pytest.raises(WorkspaceError) as caught:
        await host.prepare(SECOND, repository=stranger)
    assert caught.value.code == ErrorCode.WORKSPACE_DIRTY


async def test_a_busy_host_says_so(host: Host) -> None:
    with lease.host_lock(host.settings.lease_dir, 1), pytest.raises(WorkspaceError) as caught:
        await host.prepare()
    assert caught.value.code == ErrorCode.WORKSPACE_UNAVAILABLE


async def test_settling_revokes_the_lease(host: Host) -> None:
    workspace = await host.prepare()
    lease.grant(host.settings.lease_dir, 1, lease.Lease(f"{FIRST}/1", FIRST))
    await host.settle(workspace)
    assert lease.current(host.settings.lease_dir, 1) is None


async def test_nothing_changed_is_nothing_to_publish_and_makes_no_branch(host: Host) -> None:
    workspace = await host.prepare()
    with pytest.raises(WorkspaceError) as caught:
        host.publish(workspace)
    assert caught.value.code == ErrorCode.NOTHING_TO_PUBLISH
    assert host.remote_branch(workspace.branch) is None
