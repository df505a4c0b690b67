"""Bodies of pull requests, reviews and their inline comments as Gitea 1.22 writes them."""

from simulators.gitea import git_data, shapes
from simulators.gitea.state import LEVELS, Doc, State

_OFFICIAL = frozenset({"REQUEST_REVIEW", "APPROVED", "REQUEST_CHANGES"})


def page(state: State, repo: Doc, one: Doc) -> str:
    return f"{state.url}/{repo['full_name']}/pulls/{one['number']}"


def head_sha(state: State, repo: Doc, one: Doc) -> str:
    """The head as the base repository keeps it: it outlives branch and fork."""
    return git_data.sha_of(state.git_dir(repo), f"refs/pull/{one['number']}/head")


def merge_base(state: State, repo: Doc, one: Doc) -> str:
    known: str = one["pull"]["merge_base"]
    return known or git_data.merge_base(
        state.git_dir(repo), f"refs/heads/{one['pull']['base']}", f"refs/pull/{one['number']}/head"
    )


def pull(state: State, repo: Doc, one: Doc, viewer: str | None) -> Doc:
    """`viewer` is who asks; a webhook has none and tells the permissions of a stranger."""
    base, shown = shapes.issue(state, repo, one), one["pull"]
    changes = git_data.file_changes(state.git_dir(repo), merge_base(state, repo, one), head_sha(state, repo, one))
    head_repo = state.repository_by_id(shown["head_repo"])
    return {
        "id": shown["id"],
        "url": page(state, repo, one),
        **{name: base[name] for name in ("number", "user", "title", "body", "labels", "milestone")},
        **{name: base[name] for name in ("assignee", "assignees")},
        "requested_reviewers": [shapes.user(state, login) for login in requested(repo, one, state)] or None,
        "state": base["state"],
        "draft": is_draft(one),
        "is_locked": base["is_locked"],
        "comments": base["comments"],
        "review_comments": len(submitted(state, repo, one)),
        "additions": sum(change["additions"] for change in changes),
        "deletions": sum(change["deletions"] for change in changes),
        "changed_files": len(changes),
        "html_url": base["html_url"],
        "diff_url": f"{base['html_url']}.diff",
        "patch_url": f"{base['html_url']}.patch",
        "mergeable": mergeable(state, repo, one),
        "merged": shown["merged_at"] is not None,
        "merged_at": shown["merged_at"],
        "merge_commit_sha": shown["merge_commit"],
        "merged_by": shown["merged_by"] and shapes.user(state, shown["merged_by"]),
        "allow_maintainer_edit": False,
        "base": _side(state, repo, shown["base"], git_data.sha_of(state.git_dir(repo), shown["base"]), viewer),
        "head": _side(state, head_repo, shown["head"], head_sha(state, repo, one), viewer),
        "merge_base": merge_base(state, repo, one),
        "due_date": None,
        **{name: base[name] for name in ("created_at", "updated_at", "closed_at", "pin_order")},
    }


def _side(state: State, repo: Doc | None, ref: str, sha: str, viewer: str | None) -> Doc:
    shown = repo and shapes.repository(state, repo, viewer)
    return {"label": ref, "ref": ref, "sha": sha, "repo_id": repo["id"] if repo else 0, "repo": shown}


def is_draft(one: Doc) -> bool:
    return str(one["title"]).startswith(("WIP:", "[WIP]"))


def mergeable(state: State, repo: Doc, one: Doc) -> bool:
    """No draft, and no conflict; true after the merge too."""
    return not is_draft(one) and git_data.can_merge(
        state.git_dir(repo), f"refs/heads/{one['pull']['base']}", head_sha(state, repo, one)
    )


def reviews(state: State, repo: Doc, one: Doc) -> list[Doc]:
    return [
        review
        for review in state.docs["reviews"]
        if review["repository"] == repo["id"] and review["number"] == one["number"]
    ]


def submitted(state: State, repo: Doc, one: Doc) -> list[Doc]:
    return [review for review in reviews(state, repo, one) if review["state"] not in {"REQUEST_REVIEW", "PENDING"}]


def requested(repo: Doc, one: Doc, state: State) -> list[str]:
    """Who was asked for a review, and who gave a verdict that counts: both are in `requested_reviewers`."""
    found = [review for review in reviews(state, repo, one) if review["state"] in _OFFICIAL and review["official"]]
    return list(dict.fromkeys(review["author"] for review in found))


def inline_comments(state: State, review: Doc) -> list[Doc]:
    return [one for one in state.docs["inline_comments"] if one["review"] == review["id"]]


def review(state: State, repo: Doc, one: Doc, shown: Doc) -> Doc:
    where = page(state, repo, one)
    return {
        "id": shown["id"],
        "user": shapes.user(state, shown["author"]),
        "team": None,
        "state": shown["state"],
        "body": shown["body"],
        "commit_id": shown["commit"],
        "stale": shown["commit"] != head_sha(state, repo, one),
        "official": shown["official"],
        "dismissed": shown["dismissed"],
        "comments_count": len(inline_comments(state, shown)),
        "submitted_at": shown["created_at"],
        "updated_at": shown["updated_at"],
        "html_url": f"{where}#issuecomment-{shown['comment_id']}" if shown["comment_id"] else "",
        "pull_request_url": where,
    }


def inline_comment(state: State, repo: Doc, one: Doc, shown: Doc) -> Doc:
    where = page(state, repo, one)
    return {
        "id": shown["id"],
        "body": shown["body"],
        "user": shapes.user(state, shown["author"]),
        "resolver": None,
        "pull_request_review_id": shown["review"],
        "created_at": shown["created_at"],
        "updated_at": shown["updated_at"],
        "path": shown["path"],
        "commit_id": shown["commit"],
        "original_commit_id": "",
        "diff_hunk": shown["hunk"],
        "position": max(shown["line"], 0),
        "original_position": max(-shown["line"], 0),
        "html_url": f"{where}#issuecomment-{shown['id']}",
        "pull_request_url": where,
    }


def is_official(state: State, repo: Doc, login: str) -> bool:
    return state.level(repo, state.user(login)) >= LEVELS["write"]
