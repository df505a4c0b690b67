"""The bodies of deliveries. Whose permissions `repository` tells differs from event to event, as measured."""

from typing import Any

from simulators.gitea import git_data, shapes, shapes_git, shapes_pulls
from simulators.gitea.deliveries import Deliveries
from simulators.gitea.state import Doc, State

Changes = dict[str, str]
NOTHING = "0" * 40
# action -> (X-Gitea-Event-Type suffix, whether the permissions are the sender's and not the author's)
_KINDS = {
    "assigned": ("assign", True),
    "unassigned": ("assign", True),
    "label_updated": ("label", False),
    "label_cleared": ("label", False),
    "milestoned": ("milestone", True),
    "demilestoned": ("milestone", True),
}
_REVIEWS = {"APPROVED": "approved", "REQUEST_CHANGES": "rejected", "COMMENT": "comment"}


def comment(out: Deliveries, repo: Doc, one: Doc, action: str, sender: str, was: str | None = None) -> None:
    """`was` is the text before an edit. `X-Gitea-Event` is `issue_comment` on pull requests too."""
    issue = out.state.issue(repo, one["number"])
    if issue is None:
        return
    is_pull = bool(issue["pull"])
    body: dict[str, Any] = {
        "action": action,
        "issue": shapes.issue(out.state, repo, issue),
        "comment": shapes.comment(out.state, repo, one),
        **({} if was is None else {"changes": {"body": {"from": was}}}),
        "repository": shapes.repository(out.state, repo, sender),
        "sender": shapes.user(out.state, sender),
        "is_pull": is_pull,
    }
    out.add(repo, "issue_comment", "pull_request_comment" if is_pull else "issue_comment", body)


def changed(
    out: Deliveries, repo: Doc, one: Doc, action: str, sender: str, changes: Changes | None = None, commit: str = ""
) -> None:
    """Something happened to an issue or a pull request; `changes` holds title or body before an edit."""
    if one["pull"]:
        pull(out, repo, one, action, sender, changes)
        return
    suffix, by_sender = _KINDS.get(action, ("", False))
    body = {
        "action": action,
        "number": one["number"],
        **_changes(changes),
        "issue": shapes.issue(out.state, repo, one),
        "repository": shapes.repository(out.state, repo, sender if by_sender else one["author"]),
        "sender": shapes.user(out.state, sender),
        "commit_id": commit,
    }
    out.add(repo, "issues", f"issue_{suffix}" if suffix else "issues", body)


def _changes(changes: Changes | None) -> Doc:
    return {} if not changes else {"changes": {name: {"from": was} for name, was in changes.items()}}


def pull(
    out: Deliveries,
    repo: Doc,
    one: Doc,
    action: str,
    sender: str,
    changes: Changes | None = None,
    reviewer: str | None = None,
) -> None:
    """Event `pull_request`; which kind it is only `X-Gitea-Event-Type` says."""
    suffix, by_sender = _KINDS.get(action, ("", False))
    kind = {"review_requested": "pull_request_review_request", "synchronized": "pull_request_sync"}.get(action)
    viewer = out.state.owners(repo)[0] if action == "synchronized" else one["author"]
    if by_sender or reviewer or one["pull"]["merged_at"]:
        viewer = sender
    body = {
        **_pull_body(out.state, repo, one, action, sender, changes),
        "requested_reviewer": reviewer and shapes.user(out.state, reviewer),
        "repository": shapes.repository(out.state, repo, viewer),
        "sender": shapes.user(out.state, sender),
        "commit_id": "",
        "review": None,
    }
    out.add(repo, "pull_request", kind or (f"pull_request_{suffix}" if suffix else "pull_request"), body)


def _pull_body(state: State, repo: Doc, one: Doc, action: str, _: str, changes: Changes | None) -> Doc:
    return {
        "action": action,
        "number": one["number"],
        **_changes(changes),
        "pull_request": shapes_pulls.pull(state, repo, one, None),
    }


def review(out: Deliveries, repo: Doc, one: Doc, given: Doc) -> None:
    """Neither the review's id nor its inline comments are told; the permissions are a stranger's."""
    word = _REVIEWS[given["state"]]
    body = {
        **_pull_body(out.state, repo, one, "reviewed", given["author"], None),
        "requested_reviewer": None,
        "repository": shapes.repository(out.state, repo, None),
        "sender": shapes.user(out.state, given["author"]),
        "commit_id": "",
        "review": {"type": f"pull_request_review_{word}", "content": given["body"]},
    }
    out.add(repo, f"pull_request_{word}", f"pull_request_review_{word}", body)


def push(out: Deliveries, repo: Doc, ref: str, before: str, after: str, sender: str) -> None:
    """`commits` are those new on the branch; a branch made of known commits has none."""
    git_dir = out.state.git_dir(repo)
    main = git_data.sha_of(git_dir, repo["default_branch"])
    base = before if before != NOTHING else main
    new = git_data.commits_between(git_dir, base, after) if base and ref.startswith("refs/heads/") else []
    body = {
        "ref": ref,
        "before": before,
        "after": after,
        "compare_url": f"{out.state.url}/{repo['full_name']}/compare/{base or NOTHING}...{after}",
        "commits": [shapes_git.pushed_commit(out.state, repo, sha) for sha in new],
        "total_commits": len(new),
        "head_commit": shapes_git.pushed_commit(out.state, repo, after),
        "repository": shapes.repository(out.state, repo, out.state.owners(repo)[0]),
        "pusher": shapes.user(out.state, sender),
        "sender": shapes.user(out.state, sender),
    }
    out.add(repo, "push", "push", body)


def created(out: Deliveries, repo: Doc, ref: str, sha: str, sender: str) -> None:
    """A branch or a tag; nobody's permissions are told."""
    body = {
        "sha": sha,
        "ref": ref.split("/", 2)[2],
        "ref_type": "tag" if ref.startswith("refs/tags/") else "branch",
        "repository": shapes.repository(out.state, repo, None, told=False),
        "sender": shapes.user(out.state, sender),
    }
    out.add(repo, "create", "create", body)


def deleted(out: Deliveries, repo: Doc, ref: str, sender: str) -> None:
    body = {
        "ref": ref.split("/", 2)[2],
        "ref_type": "tag" if ref.startswith("refs/tags/") else "branch",
        "pusher_type": "user",
        "repository": shapes.repository(out.state, repo, out.state.owners(repo)[0]),
        "sender": shapes.user(out.state, sender),
    }
    out.add(repo, "delete", "delete", body)


def repository(out: Deliveries, repo: Doc, action: str, sender: str) -> None:
    """Made or deleted; `organization` is the owner, whatever it is."""
    body = {
        "action": action,
        "repository": shapes.repository(out.state, repo, out.state.owners(repo)[0]),
        "organization": shapes.user(out.state, repo["owner"]),
        "sender": shapes.user(out.state, sender),
    }
    out.add(repo, "repository", "repository", body)


def forked(out: Deliveries, repo: Doc, fork: Doc, sender: str) -> None:
    body = {
        "forkee": shapes.repository(out.state, repo, sender),
        "repository": shapes.repository(out.state, fork, sender),
        "sender": shapes.user(out.state, sender),
    }
    out.add(repo, "fork", "fork", body)


def test(out: Deliveries, repo: Doc, hook: Doc, sha: str, sender: str) -> None:
    """What the test button sends to one webhook: a push in which nothing changed."""
    commit = shapes_git.branch_commit(out.state, repo, sha)
    body = {
        "ref": f"refs/heads/{repo['default_branch']}",
        "before": sha,
        "after": sha,
        "compare_url": f"{out.state.url}/{repo['full_name']}/compare/{sha}...{sha}",
        "commits": [commit],
        "total_commits": 1,
        "head_commit": commit,
        "repository": shapes.repository(out.state, repo, None, told=False),
        "pusher": shapes.user(out.state, sender),
        "sender": shapes.user(out.state, sender),
    }
    out.send(hook, "push", "push", body)
