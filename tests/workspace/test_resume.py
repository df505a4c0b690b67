"""What a task, a stranger or a crash leaves in a worktree, and what the next one finds."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from activities import worktree
from activities.codex import CodexActivities
from activities.workspace import prepare
from clients import git, git_move, git_tree, lease
from domain.errors import ErrorCode, WorkspaceError
from domain.events import SessionClose
from tests.workspace.host import FIRST, SECOND, Host
from tests.workspace.place import nest, plain

# What cannot be saved.


async def test_all_but_a_nested_repository_is_saved_and_an_operator_makes_the_rest_usable(host: Host) -> None:
    workspace = await host.prepare()
    nest(host.tree / "nested")
    (host.tree / "half.txt").write_text("half")
    settled = await host.settle(workspace)
    assert settled.wip_commit and "'nested'" in settled.unsaved[0] and host.kept("half.txt") == "half"
    said = await host.refused()
    assert said.startswith("'nested'") and f"refs/ccweb/wip/{FIRST}" in said and "then unblock" in said
    assert (host.tree / "nested" / "inner.txt").exists()
    (host.tree / "nested").rename(host.layout.root / "looked-at")
    assert (await host.prepare(SECOND)).resumed_wip and (host.tree / "half.txt").read_text() == "half"


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", "fifo"])
async def test_a_special_file_blocks_only_until_it_is_gone(host: Host, name: str) -> None:
    workspace = await host.prepare()
    (host.tree / "half.txt").write_text("half")
    os.mkfifo(host.tree / name)
    assert name in (await host.settle(workspace)).unsaved[0]
    assert name in await host.refused()
    (host.tree / name).unlink()
    assert (await host.prepare(SECOND)).resumed_wip and host.kept("half.txt") == "half"


async def test_a_huge_file_is_named_and_all_else_is_saved(host: Host) -> None:
    workspace = await host.prepare()
    (host.tree / "half.txt").write_text("half")
    with (host.tree / "huge").open("wb") as file:
        file.truncate(host.settings.max_file_bytes + 1)
    assert "'huge'" in (await host.settle(workspace)).unsaved[0] and host.kept("half.txt") == "half"
    assert "'huge'" in await host.refused()


async def test_the_same_task_may_tidy_up_what_it_left(host: Host) -> None:
    workspace = await host.prepare()
    nest(host.tree / "nested")
    await host.settle(workspace)
    assert (await host.prepare(FIRST)).resumed_wip
    with pytest.raises(WorkspaceError) as caught:
        host.publish(workspace)
    assert caught.value.code == ErrorCode.NESTED_REPOSITORY


async def test_what_a_dead_task_left_is_saved_even_when_not_all_of_it_can_be(host: Host) -> None:
    await host.prepare()
    nest(host.tree / "nested")
    (host.tree / "half.txt").write_text("half")
    assert "all else is saved" in await host.refused() and host.kept("half.txt") == "half"


async def test_what_was_saved_before_can_be_found_again(host: Host) -> None:
    workspace = await host.prepare()
    for text in ("first", "second"):
        (host.tree / "half.txt").write_text(text)
        await host.settle(workspace)
    assert host.kept("half.txt") == "second" and host.kept("half.txt", f"{FIRST}@{{1}}") == "first"


# A worktree whose own files are lost.


async def test_a_worktree_without_its_git_file_loses_nothing_when_git_prunes_it(host: Host) -> None:
    await host.prepare()
    (host.tree / "half.txt").write_text("half")
    (host.tree / ".git").unlink()
    git.run(["worktree", "prune"], git_dir=host.layout.clone)
    assert not host.layout.git_dir.exists()
    assert (await host.prepare(SECOND)).resumed_wip
    assert (host.tree / "half.txt").read_text() == host.kept("half.txt") == "half"
    assert plain("status", "--porcelain", cwd=host.tree) == "?? half.txt\n"


async def test_another_session_prunes_nothing(host: Host) -> None:
    await host.prepare()
    (host.tree / ".git").unlink()
    other = Host(host.forge, host.settings, host.forge.new_issue())
    await other.prepare(SECOND)
    other.close()
    assert host.layout.git_dir.exists() and not other.tree.exists()


@pytest.mark.parametrize("target", ["/etc/passwd", "gitdir: /nowhere"])
async def test_a_false_git_file_is_written_again(host: Host, target: str) -> None:
    await host.prepare()
    (host.tree / ".git").unlink()
    if target.startswith("/"):
        (host.tree / ".git").symlink_to(target)
    else:
        (host.tree / ".git").write_text(target)
    await host.prepare(SECOND)
    assert plain("status", "--porcelain", cwd=host.tree) == ""


async def test_a_repository_in_place_of_the_git_file_is_an_operators_to_look_at(host: Host) -> None:
    workspace = await host.prepare()
    (host.tree / ".git").unlink()
    plain("init", "-q", cwd=host.tree)
    (host.tree / "half.txt").write_text("half")
    await host.settle(workspace)
    assert host.kept("half.txt") == "half" and "'.git'" in await host.refused()
    (host.tree / ".git").rename(host.layout.root / "looked-at")
    assert (await host.prepare(SECOND)).resumed_wip


async def test_a_worktree_that_was_cut_while_it_was_made_is_made_anew(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(git, "index_head", cut)
        with pytest.raises(KeyboardInterrupt):
            worktree_of(host)
    assert host.tree.exists() and not (host.tree / "README.md").exists()
    assert not (await host.prepare()).resumed_wip and (host.tree / "README.md").exists()


def worktree_of(host: Host) -> None:
    prepare(host.settings, host.layout, host.request(FIRST))


async def test_locks_of_a_git_that_died_with_its_host_are_cleared_in_time(host: Host) -> None:
    await host.prepare()
    fresh = host.layout.clone / "packed-refs.lock"
    stale = [host.layout.clone / "refs" / "remotes" / "origin" / "main.lock", host.layout.git_dir / "index.lock"]
    for lock in stale:
        lock.touch()
        os.utime(lock, (1, 1))
    fresh.touch()
    await host.prepare()
    assert fresh.exists() and not any(lock.exists() for lock in stale)


@pytest.mark.parametrize("lost", ["settled", "head"])
async def test_a_file_of_ours_that_a_power_cut_emptied_blocks_nothing(host: Host, lost: str) -> None:
    await host.settle(await host.prepare())
    (host.layout.settled if lost == "settled" else host.layout.git_dir / "HEAD").write_bytes(b"")
    assert not (await host.prepare(SECOND)).resumed_wip


async def test_a_clone_full_of_loose_objects_is_packed_and_loses_none(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loose() -> list[Path]:
        return list(host.layout.clone.glob("objects/??/*"))

    await host.prepare()
    write("half.txt", "half")(host.tree)
    unreachable = git_tree.snapshot(host.layout.repo, git.Limits(1000, 10))
    monkeypatch.setattr(git, "_MANY_LOOSE", -1)
    assert loose()
    await host.prepare()
    assert plain("cat-file", "blob", f"{unreachable}:half.txt", cwd=host.layout.clone) == "half"
    assert len(loose()) <= 3  # what the second prepare saw of the worktree


# Following the branch.


async def publish_elsewhere(host: Host, directory: Path, change: Callable[[Path], None]) -> str:
    """Somebody else changes the session's branch; its new commit."""
    other = host.elsewhere(directory)
    theirs = await other.prepare(SECOND)
    change(other.tree)
    return other.publish(theirs).commit


def write(name: str, text: str) -> Callable[[Path], None]:
    def change(tree: Path) -> None:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)

    return change


async def published(host: Host, *names: str, ignore: str = "") -> None:
    """The session's branch with some files, settled."""
    workspace = await host.prepare()
    write(".gitignore", ignore)(host.tree)
    for name in names:
        write(name, f"{name} of ours\n")(host.tree)
    host.publish(workspace)
    await host.settle(workspace)


async def test_a_clean_worktree_follows_what_others_pushed_and_keeps_what_is_ignored(
    host: Host, state_dir: Path
) -> None:
    await published(host, "one.txt", "gone.txt", "old/gone.txt", "kept/same.txt", ignore="cache/\n")
    write("cache/built", "slow to make")(host.tree)
    same = (host.tree / "kept" / "same.txt").stat()

    def change(tree: Path) -> None:
        (tree / "gone.txt").unlink()
        (tree / "old" / "gone.txt").unlink()
        (tree / "one.txt").unlink()
        write("one.txt/now/deep", "deep")(tree)
        (tree / "link").symlink_to("kept")
        write("run.sh", "#!/bin/sh\n")(tree)
        (tree / "run.sh").chmod(0o755)

    commit = await publish_elsewhere(host, state_dir / "other", change)
    again = await host.prepare(SECOND)
    assert again.head == commit and not again.resumed_wip
    assert (host.tree / "cache" / "built").read_text() == "slow to make"
    assert (host.tree / "kept" / "same.txt").stat() == same
    assert not (host.tree / "gone.txt").exists() and not (host.tree / "old").exists()
    assert (host.tree / "one.txt" / "now" / "deep").read_text() == "deep"
    assert (host.tree / "link").is_symlink() and os.access(host.tree / "run.sh", os.X_OK)
    assert plain("status", "--porcelain", cwd=host.tree) == ""


async def test_unpublished_work_goes_along_when_others_changed_other_files(host: Host, state_dir: Path) -> None:
    await published(host, "one.txt", "two.txt")
    workspace = await host.prepare()
    write("two.txt", "half")(host.tree)
    await host.settle(workspace)
    commit = await publish_elsewhere(host, state_dir / "other", write("one.txt", "theirs"))
    again = await host.prepare(SECOND)
    assert again.head == commit and again.resumed_wip
    assert (host.tree / "one.txt").read_text() == "theirs" and (host.tree / "two.txt").read_text() == "half"
    assert host.remote_branch(again.branch) == commit and host.publish(again).created


@pytest.mark.parametrize(("ours", "named"), [("one.txt", "one.txt"), ("new/file", "new")])
async def test_a_file_that_both_changed_stays_as_it_is_until_the_agent_gives_it_up(
    host: Host, state_dir: Path, ours: str, named: str
) -> None:
    await published(host, "one.txt")
    workspace = await host.prepare()
    write(ours, "ours")(host.tree)
    await host.settle(workspace)

    def change(tree: Path) -> None:
        write("one.txt", "theirs")(tree)
        write("new", "a file where we have a folder")(tree)

    commit = await publish_elsewhere(host, state_dir / "other", change)
    again = await host.prepare(SECOND)
    assert again.head == workspace.head and (host.tree / ours).read_text() == "ours"
    with pytest.raises(WorkspaceError) as caught:
        host.publish(again)
    assert caught.value.code == ErrorCode.PUBLISH_CONFLICT and f"'{named}'" in caught.value.detail
    if ours == "one.txt":
        write(ours, "one.txt of ours\n")(host.tree)
    else:
        (host.tree / ours).unlink()
        (host.tree / ours).parent.rmdir()
    await host.settle(again, SECOND)
    assert (await host.prepare(SECOND)).head == commit


async def test_a_rewritten_branch_is_followed_when_nothing_unpublished_is_lost(host: Host) -> None:
    await published(host, "one.txt")
    workspace = await host.prepare()
    write("two.txt", "two")(host.tree)
    host.publish(workspace)
    await host.settle(workspace)
    host.force(workspace.branch, workspace.head)
    again = await host.prepare(SECOND)
    assert again.head == workspace.head and not (host.tree / "two.txt").exists()
    write("three.txt", "three")(host.tree)
    assert host.publish(again).created


async def test_a_branch_deleted_after_its_merge_starts_anew_from_the_base(host: Host) -> None:
    await published(host, "one.txt")
    host.forge.on_repo("DELETE", f"/branches/ccweb/issue-{host.number}").raise_for_status()
    again = await host.prepare(SECOND)
    assert again.head == again.base and not (host.tree / "one.txt").exists()


async def test_work_after_a_publish_that_was_cut_is_not_in_conflict_with_itself(host: Host) -> None:
    workspace = await host.prepare()
    write("new.txt", "new")(host.tree)
    commit = host.publish(workspace).commit
    git.move_head(host.layout.repo, workspace.head)
    write("new.txt", "newer")(host.tree)
    await host.settle(workspace)
    again = await host.prepare(SECOND)
    assert again.head == commit and again.resumed_wip
    assert host.publish(again).created


async def test_a_move_that_was_cut_is_ended_by_the_next_task(
    host: Host, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await published(host, "one.txt", "two.txt")

    def change(tree: Path) -> None:
        write("one.txt", "theirs")(tree)
        write("two.txt", "theirs")(tree)

    commit = await publish_elsewhere(host, state_dir / "other", change)
    put = git_move._put
    done: list[bytes] = []

    def cut(root: Path, name: bytes, copies: Path) -> None:
        if done:
            raise KeyboardInterrupt
        done.append(name)
        put(root, name, copies)

    with monkeypatch.context() as patch:
        patch.setattr(git_move, "_put", cut)
        with pytest.raises(KeyboardInterrupt):
            worktree_of(host)
    assert {(host.tree / name).read_text() for name in ("one.txt", "two.txt")} == {"theirs", "two.txt of ours\n"}
    again = await host.prepare(SECOND)
    assert again.head == commit and not again.resumed_wip


async def test_a_move_does_not_leave_the_worktree_by_a_link(host: Host, state_dir: Path) -> None:
    await published(host, "one.txt", ignore="out\n")
    outside = state_dir / "outside"
    outside.mkdir()
    (host.tree / "out").symlink_to(outside)

    def change(tree: Path) -> None:
        write(".gitignore", "")(tree)
        write("out/planted", "x")(tree)

    await publish_elsewhere(host, state_dir / "other", change)
    await host.prepare(SECOND)
    assert list(outside.iterdir()) == [] and (host.tree / "out" / "planted").read_text() == "x"


async def test_an_ignored_folder_in_the_way_of_a_file_is_an_operators_to_move(host: Host, state_dir: Path) -> None:
    await published(host, "one.txt", ignore="out/\n")
    write("out/precious", "x")(host.tree)
    commit = await publish_elsewhere(host, state_dir / "other", write("out", "a file"))
    assert "'out'" in await host.refused()
    (host.tree / "out").rename(host.layout.root / "looked-at")
    assert (await host.prepare(SECOND)).head == commit and (host.tree / "out").read_text() == "a file"


# Closing a session.


async def test_a_closed_session_leaves_only_its_saved_work(host: Host) -> None:
    workspace = await host.prepare()
    write("half.txt", "half")(host.tree)
    await host.settle(workspace)
    host.close()
    assert not host.tree.exists() and not host.layout.git_dir.exists()
    assert host.kept("half.txt") == "half"
    assert not (await host.prepare(SECOND)).resumed_wip


async def test_a_session_closed_before_it_settled_loses_nothing(host: Host) -> None:
    await host.prepare()
    write("half.txt", "half")(host.tree)
    host.close()
    assert not host.tree.exists() and host.kept("half.txt") == "half"


async def test_changes_made_behind_our_back_are_saved_too_when_a_session_closes(host: Host) -> None:
    workspace = await host.prepare()
    write("half.txt", "half")(host.tree)
    await host.settle(workspace)
    write("half.txt", "of a stranger")(host.tree)
    host.close()
    refs = plain(
        "for-each-ref", "--format=%(refname)", f"refs/ccweb/wip/{host.layout.session}-*", cwd=host.layout.clone
    )
    assert plain("cat-file", "blob", f"{refs.strip()}:half.txt", cwd=host.layout.clone) == "of a stranger"
    assert host.kept("half.txt") == "half"


async def test_a_session_closed_with_what_cannot_be_saved_keeps_its_worktree(host: Host) -> None:
    workspace = await host.prepare()
    nest(host.tree / "nested")
    await host.settle(workspace)
    with pytest.raises(WorkspaceError) as caught:
        host.close()
    assert caught.value.code == ErrorCode.WORKSPACE_DIRTY and (host.tree / "nested" / "inner.txt").exists()


async def test_a_locked_and_very_deep_folder_is_removed_too(host: Host) -> None:
    write(".gitignore", "build/\n")(await prepared(host))
    deep = os.open(host.tree, os.O_RDONLY)
    for name in ["build", *["d"] * 1500]:
        os.mkdir(name, dir_fd=deep)
        deeper = os.open(name, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = deeper
    os.fchmod(deep, 0)
    os.close(deep)
    host.close()
    assert not host.tree.exists()


async def prepared(host: Host) -> Path:
    await host.prepare()
    return host.tree


async def test_closing_waits_for_the_hosts_lock(host: Host) -> None:
    await host.prepare()
    settings = host.settings.model_copy(update={"stop_budget": 0.2, "heartbeat_timeout": 0.2})
    close = SessionClose.model_validate(host.request(FIRST).model_dump())
    activities = CodexActivities(settings)
    with lease.host_lock(settings.lease_dir, 1), pytest.raises(WorkspaceError) as caught:
        await ActivityEnvironment().run(activities.close_session, close)
    assert caught.value.code == ErrorCode.WORKSPACE_UNAVAILABLE and host.tree.exists()
    await ActivityEnvironment().run(activities.close_session, close)
    assert not host.tree.exists()


async def test_a_worktree_that_cannot_be_removed_is_told(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    await host.prepare()
    monkeypatch.setattr("clients.folders._PLACES", "/nowhere")
    with pytest.raises((WorkspaceError, FileNotFoundError)):
        worktree.erase(host.layout)
