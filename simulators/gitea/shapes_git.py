"""Bodies of commits and branches as Gitea 1.22 writes them."""

from simulators.gitea import git_data
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
