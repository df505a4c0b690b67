"""Bodies as Gitea 1.22 writes them (fields and their order from captured answers)."""

from simulators.gitea.state import LEVELS, Doc, State

# What no test changes, in Gitea's order.
_FEATURES = {
    "has_issues": True,
    "internal_tracker": {
        "enable_time_tracker": True,
        "allow_only_contributors_to_track_time": True,
        "enable_issue_dependencies": True,
    },
    "has_wiki": True,
    "has_pull_requests": True,
    "has_projects": True,
    "projects_mode": "all",
    "has_releases": True,
    "has_packages": True,
    "has_actions": False,
    "ignore_whitespace_conflicts": False,
    "allow_merge_commits": True,
    "allow_rebase": True,
    "allow_rebase_explicit": True,
    "allow_squash_merge": True,
    "allow_fast_forward_only_merge": True,
    "allow_rebase_update": True,
    "default_delete_branch_after_merge": False,
    "default_merge_style": "merge",
    "default_allow_maintainer_edit": False,
    "avatar_url": "",
    "internal": False,
    "mirror_interval": "",
    "object_format_name": "",
    "mirror_updated": "0001-01-01T00:00:00Z",
}


def _features(repo: Doc) -> Doc:
    """A switched-off tracker leaves out a whole key."""
    hidden = set() if repo["has_issues"] else {"internal_tracker"}
    return {key: value for key, value in _FEATURES.items() if key not in hidden} | {"has_issues": repo["has_issues"]}


def user(state: State, login: str) -> Doc:
    found = state.user(login) or {"id": 0, "login": login}
    return {
        "id": found["id"],
        "login": found["login"],
        "login_name": "",
        "source_id": 0,
        "full_name": "",
        "email": f"{found['login']}@noreply.127.0.0.1",
        "avatar_url": f"{state.url}/avatars/{found['id']}",
        "html_url": f"{state.url}/{found['login']}",
        "language": "",
        "is_admin": False,
        "last_login": "0001-01-01T00:00:00Z",
        "created": "2026-11-30T20:43:29Z",
        "restricted": False,
        "active": False,
        "prohibit_login": False,
        "location": "",
        "website": "",
        "description": "",
        "visibility": "public",
        "followers_count": 0,
        "following_count": 0,
        "starred_repos_count": 0,
        "username": found["login"],
    }


def repository(state: State, repo: Doc, viewer: str | None, *, told: bool = True) -> Doc:
    """`viewer` is whose permissions are told; no viewer is a stranger who may read; `told` off says none."""
    level = state.level(repo, state.user(viewer)) if viewer else LEVELS["read"]
    level = level if told else 0
    parent = state.repository_by_id(repo["fork_of"])
    issues = [one for one in repo["issues"] if one["state"] == "open" and not one["pull"]]
    pulls = [one for one in repo["issues"] if one["state"] == "open" and one["pull"]]
    path = repo["full_name"]
    return {
        "id": repo["id"],
        "owner": user(state, repo["owner"]),
        "name": repo["name"],
        "full_name": path,
        "description": repo["description"],
        "empty": False,
        "private": repo["private"],
        "fork": bool(repo["fork_of"]),
        "template": False,
        "parent": parent and repository(state, parent, viewer, told=told),
        "mirror": False,
        "size": 25,
        "language": "",
        "languages_url": f"{state.url}/api/v1/repos/{path}/languages",
        "html_url": f"{state.url}/{path}",
        "url": f"{state.url}/api/v1/repos/{path}",
        "link": "",
        "ssh_url": f"git@127.0.0.1:{path}.git",
        "clone_url": f"{state.url}/{path}.git",
        "original_url": "",
        "website": "",
        "stars_count": 0,
        "forks_count": 0,
        "watchers_count": 1,
        "open_issues_count": len(issues),
        "open_pr_counter": len(pulls),
        "release_counter": 0,
        "default_branch": repo["default_branch"],
        "archived": repo["archived"],
        "created_at": repo["created_at"],
        "updated_at": repo["created_at"],
        "archived_at": "1970-01-01T00:00:00Z",
        "permissions": {
            "admin": level >= LEVELS["admin"],
            "push": level >= LEVELS["write"],
            "pull": level >= LEVELS["read"],
        },
        **_features(repo),
        "repo_transfer": None,
    }


def issue(state: State, repo: Doc, one: Doc) -> Doc:
    path = f"{repo['full_name']}/{'pulls' if one['pull'] else 'issues'}/{one['number']}"
    assignees = [user(state, login) for login in one["assignees"]]
    pull = one["pull"] and {
        "merged": one["pull"]["merged_at"] is not None,
        "merged_at": one["pull"]["merged_at"],
        "draft": one["title"].startswith(("WIP:", "[WIP]")),
        "html_url": f"{state.url}/{path}",
    }
    return {
        "id": one["id"],
        "url": f"{state.url}/api/v1/repos/{repo['full_name']}/issues/{one['number']}",
        "html_url": f"{state.url}/{path}",
        "number": one["number"],
        "user": user(state, one["author"]),
        "original_author": "",
        "original_author_id": 0,
        "title": one["title"],
        "body": one["body"],
        "ref": "",
        "assets": [],
        "labels": [label(state, repo, known) for known in repo["labels"] if known["id"] in one["labels"]],
        "milestone": None,
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees or None,
        "state": one["state"],
        "is_locked": one["is_locked"],
        "comments": len(state.comments(repo, one["number"])),
        "created_at": one["created_at"],
        "updated_at": one["updated_at"],
        "closed_at": one["closed_at"],
        "due_date": None,
        "pull_request": pull,
        "repository": {
            "id": repo["id"],
            "name": repo["name"],
            "owner": repo["owner"],
            "full_name": repo["full_name"],
        },
        "pin_order": 0,
    }


def comment(state: State, repo: Doc, one: Doc) -> Doc:
    target = state.issue(repo, one["number"])
    is_pull = bool(target and target["pull"])
    page = f"{state.url}/{repo['full_name']}/{'pulls' if is_pull else 'issues'}/{one['number']}"
    return {
        "id": one["id"],
        "html_url": f"{page}#issuecomment-{one['id']}",
        "pull_request_url": page if is_pull else "",
        "issue_url": "" if is_pull else page,
        "user": user(state, one["author"]),
        "original_author": "",
        "original_author_id": 0,
        "body": one["body"],
        "assets": [],
        "created_at": one["created_at"],
        "updated_at": one["updated_at"],
    }


def hook(one: Doc) -> Doc:
    return {
        "id": one["id"],
        "type": "gitea",
        "branch_filter": "",
        "config": {"content_type": one["content_type"], "url": one["url"]},
        "events": one["events"],
        "authorization_header": one["authorization_header"],
        "active": one["active"],
        "updated_at": one["created_at"],
        "created_at": one["created_at"],
    }


def label(state: State, repo: Doc, one: Doc) -> Doc:
    return {
        "id": one["id"],
        "name": one["name"],
        "exclusive": False,
        "is_archived": False,
        "color": one["color"],
        "description": one["description"],
        "url": f"{state.url}/api/v1/repos/{repo['full_name']}/labels/{one['id']}",
    }


def organisation(state: State, one: Doc) -> Doc:
    return {
        "id": one["id"],
        "name": one["login"],
        "full_name": "",
        "email": "",
        "avatar_url": f"{state.url}/avatars/{one['id']}",
        "description": "",
        "website": "",
        "location": "",
        "visibility": "public",
        "repo_admin_change_team_access": False,
        "username": one["login"],
    }


def timeline_entry(state: State, repo: Doc, found: Doc, one: Doc) -> Doc:
    shown = comment(state, repo, one)
    known = next((known for known in repo["labels"] if known["id"] == one.get("label")), None)
    return {
        "id": one["id"],
        "type": one["kind"],
        **{key: shown[key] for key in ("html_url", "pull_request_url", "issue_url", "user", "body")},
        **{key: shown[key] for key in ("created_at", "updated_at")},
        "old_project_id": 0,
        "project_id": 0,
        "old_milestone": None,
        "milestone": None,
        "tracked_time": None,
        "old_title": one.get("old_title", ""),
        "new_title": one.get("new_title", ""),
        "old_ref": "",
        "new_ref": "",
        "ref_issue": None,
        "ref_comment": None,
        "ref_action": "none",
        "ref_commit_sha": "",
        "review_id": 0,
        "label": known and label(state, repo, known),
        "assignee": one.get("assignee") and user(state, one["assignee"]),
        "assignee_team": None,
        "removed_assignee": one.get("removed_assignee", False),
        "resolve_doer": None,
        "dependent_issue": None,
    }
