"""Bodies of commits and branches as Gitea 1.22 writes them."""

from simulators.gitea import git_data, shapes
from simulators.gitea.state import Doc, State

_UNSIGNED = {
    "verified": False,
    "reason": "gpg.error.not_signed_commit",
    "signature": "",
    "signer": None,
    "payload": "",
}


def _person(state: State, one: Doc) -> Doc:
    """`username` is filled when the address is that of a user."""
    login = str(one["email"]).partition("@")[0]
    known = one["email"] == f"{login}@example.test" and state.user(login)
    return {"name": one["name"], "email": one["email"], "username": known["login"] if known else ""}


def _commit(state: State, repo: Doc, sha: str) -> Doc:
    found = git_data.commit(state.git_dir(repo), sha)
    return {
        "id": found["sha"],
        "message": found["message"],
        "url": f"{state.url}/{repo['full_name']}/commit/{found['sha']}",
        "author": _person(state, found["author"]),
        "committer": _person(state, found["committer"]),
        "verification": None,
        "timestamp": found["author"]["date"],
        "added": None,
        "removed": None,
        "modified": None,
    }


def pushed_commit(state: State, repo: Doc, sha: str) -> Doc:
    """A commit of a push: with its files, its signature was not looked at."""
    changes = git_data.commit_files(state.git_dir(repo), sha)
    files = {
        name: [path for kind, path in changes if kind == letter]
        for name, letter in (("added", "A"), ("removed", "D"), ("modified", "M"))
    }
    return {**_commit(state, repo, sha), **files}


def branch_commit(state: State, repo: Doc, sha: str) -> Doc:
    return {**_commit(state, repo, sha), "verification": _UNSIGNED}


def branch(state: State, repo: Doc, name: str, sha: str) -> Doc:
    protected = name in repo["protected"]
    return {
        "name": name,
        "commit": branch_commit(state, repo, sha),
        "protected": protected,
        "required_approvals": 0,
        "enable_status_check": False,
        "status_check_contexts": [],
        "user_can_push": not protected,
        "user_can_merge": not protected,
        "effective_branch_protection_name": name if protected else "",
    }


def changed_file(state: State, repo: Doc, head: str, one: Doc) -> Doc:
    page = f"{state.url}/{repo['full_name']}"
    return {
        "filename": one["path"],
        "status": one["status"],
        "additions": one["additions"],
        "deletions": one["deletions"],
        "changes": one["additions"] + one["deletions"],
        "html_url": f"{page}/src/commit/{head}/{one['path']}",
        "contents_url": f"{state.url}/api/v1/repos/{repo['full_name']}/contents/{one['path']}?ref={head}",
        "raw_url": f"{page}/raw/commit/{head}/{one['path']}",
    }


def api_commit(state: State, repo: Doc, sha: str) -> Doc:
    found = git_data.commit(state.git_dir(repo), sha)
    api = f"{state.url}/api/v1/repos/{repo['full_name']}/git"
    created = found["committer"]["date"]
    changes = git_data.commit_files(state.git_dir(repo), sha)
    added, removed = git_data.commit_lines(state.git_dir(repo), sha)
    words = {"A": "added", "D": "removed", "M": "modified"}
    return {
        "url": f"{api}/commits/{sha}",
        "sha": sha,
        "created": created,
        "html_url": f"{state.url}/{repo['full_name']}/commit/{sha}",
        "commit": {
            "url": f"{api}/commits/{sha}",
            "author": found["author"],
            "committer": found["committer"],
            "message": found["message"],
            # the sha of the commit, not of its tree: as measured
            "tree": {"url": f"{api}/trees/{sha}", "sha": sha, "created": created},
            "verification": _UNSIGNED,
        },
        "author": None,
        "committer": None,
        "parents": [
            {"url": f"{api}/commits/{one}", "sha": one, "created": "0001-01-01T00:00:00Z"} for one in found["parents"]
        ],
        "files": [{"filename": path, "status": words.get(letter, "modified")} for letter, path in changes],
        "stats": {"total": added + removed, "additions": added, "deletions": removed},
    }


def status(state: State, repo: Doc, one: Doc) -> Doc:
    return {
        "id": one["id"],
        "status": one["state"],
        "target_url": one["target_url"],
        "description": one["description"],
        "url": f"{state.url}/api/v1/repos/{repo['full_name']}/statuses/{one['sha']}",
        "context": one["context"],
        "creator": shapes.user(state, one["creator"]),
        "created_at": one["created_at"],
        "updated_at": one["created_at"],
    }
