"""Branches, their protection, and commit statuses (which no delivery tells of)."""

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.gitea import access, git_data, git_repos, pushes, shapes, shapes_git
from simulators.gitea.access import Json, message
from simulators.gitea.calls import REPO, deliveries_of, enter, not_found, paged
from simulators.gitea.state import Doc, State, now

_BAD_NAME = re.compile(r"\.\.|[\x00-\x20~^:?*\[\\]|^/|/$|//|\.lock$|@\{|^-|\.$")
_WORST_FIRST = ("error", "failure", "warning", "pending", "success")


async def branches(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method == "POST")
    shas = git_data.branches(state.git_dir(repo))
    if request.method == "GET":
        return paged(request, [shapes_git.branch(state, repo, name, sha) for name, sha in shas.items()])
    access.need_not_archived(repo)
    access.need_writer(state, repo, who)
    body = await access.body_of(request)
    name, start = str(body.get("new_branch_name", "")), body.get("old_ref_name") or body.get("old_branch_name")
    if not name or _BAD_NAME.search(name):
        raise message(422, "[BranchName]: GitRefName" if name else "[BranchName]: Required")
    sha = git_data.sha_of(state.git_dir(repo), start or repo["default_branch"])
    if not sha:
        raise message(404, "The old branch does not exist")
    if name in shas:
        raise message(409, "The branch already exists.")
    before = git_data.refs(state.git_dir(repo))
    git_data.git(state.git_dir(repo), "update-ref", f"refs/heads/{name}", sha)
    pushes.after(deliveries_of(request), repo, before, str(who.login))
    return Json(shapes_git.branch(state, repo, name, sha), 201)


async def branch(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method == "DELETE")
    name = request.path_params["branch"]
    before = git_data.refs(state.git_dir(repo))
    sha = before.get(f"refs/heads/{name}")
    if sha is None:
        raise not_found(f"branch does not exist [name: {name}]")
    if request.method == "GET":
        return Json(shapes_git.branch(state, repo, name, sha))
    access.need_not_archived(repo)
    access.need_writer(state, repo, who)
    if name == repo["default_branch"] or name in repo["protected"]:
        raise message(403, "branch is protected" if name in repo["protected"] else "can not delete default branch")
    git_data.git(state.git_dir(repo), "update-ref", "-d", f"refs/heads/{name}")
    pushes.after(deliveries_of(request), repo, before, str(who.login))
    return Response(status_code=204)


async def protections(request: Request) -> Response:
    """Only `enable_push: false`, the usual one, is played: nobody may push to such a branch."""
    state, who, repo = enter(request, "repository", write=request.method == "POST")
    access.need_admin(state, repo, who)
    if request.method == "GET":
        return Json([one["shown"] for one in repo["rules"]])
    body = await access.body_of(request)
    name = body.get("rule_name") or body.get("branch_name") or ""
    if not name:
        raise message(400, "both rule_name and branch_name are empty")
    if any(one["name"] == name for one in repo["rules"]):
        raise message(403, "Branch protection already exist")
    shown = rule(body, name)
    repo["rules"].append({"name": name, "shown": shown})
    protect(state, repo)
    return Json(shown, 201)


async def protection(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method == "DELETE")
    access.need_admin(state, repo, who)
    name = request.path_params["name"]
    found = next((one for one in repo["rules"] if one["name"] == name), None)
    if found is None:
        raise not_found()
    if request.method == "GET":
        return Json(found["shown"])
    repo["rules"].remove(found)
    protect(state, repo)
    return Response(status_code=204)


def protect(state: State, repo: Doc) -> None:
    repo["protected"] = [one["name"] for one in repo["rules"] if not one["shown"]["enable_push"]]
    git_repos.write_hook(state.git_dir(repo), repo["protected"])
    state.save()


def rule(body: Doc, name: str) -> Doc:
    def flag(word: str) -> bool:
        return bool(body.get(word, False))

    return {
        "branch_name": name,
        "rule_name": name,
        "enable_push": flag("enable_push"),
        "enable_push_whitelist": False,
        "push_whitelist_usernames": [],
        "push_whitelist_teams": [],
        "push_whitelist_deploy_keys": False,
        "enable_merge_whitelist": False,
        "merge_whitelist_usernames": [],
        "merge_whitelist_teams": [],
        "enable_status_check": flag("enable_status_check"),
        "status_check_contexts": body.get("status_check_contexts") or [],
        "required_approvals": int(body.get("required_approvals", 0)),
        "enable_approvals_whitelist": False,
        "approvals_whitelist_username": [],
        "approvals_whitelist_teams": [],
        "block_on_rejected_reviews": flag("block_on_rejected_reviews"),
        "block_on_official_review_requests": False,
        "block_on_outdated_branch": False,
        "dismiss_stale_approvals": False,
        "ignore_stale_approvals": False,
        "require_signed_commits": False,
        "protected_file_patterns": "",
        "unprotected_file_patterns": "",
        "created_at": now(),
        "updated_at": now(),
    }


async def statuses(request: Request) -> Response:
    """Any word is taken as a state; a missing commit is a 500: both as measured."""
    state, who, repo = enter(request, "repository", write=request.method == "POST")
    sha = git_data.sha_of(state.git_dir(repo), request.path_params["sha"])
    if request.method == "GET":
        if not sha:
            raise not_found()
        return paged(request, [shapes_git.status(state, repo, one) for one in _newest(state, repo, sha)])
    access.need_writer(state, repo, who)
    body = await access.body_of(request)
    if not sha:
        raise message(500, "")
    made = {
        "id": state.next_id("status"),
        "repository": repo["id"],
        "sha": sha,
        "creator": who.login,
        "created_at": now(),
        **{key: body.get(key, "") for key in ("state", "context", "description", "target_url")},
    }
    state.docs["statuses"].append(made)
    state.save()
    return Json(shapes_git.status(state, repo, made), 201)


def _newest(state: State, repo: Doc, sha: str) -> list[Doc]:
    found = [one for one in state.docs["statuses"] if one["repository"] == repo["id"] and one["sha"] == sha]
    return list(reversed(found))


async def combined_status(request: Request) -> Response:
    """The newest status of each context, and the worst of them."""
    state, who, repo = enter(request, "repository")
    sha = git_data.sha_of(state.git_dir(repo), request.path_params["sha"])
    if not sha:
        raise not_found()
    latest = {one["context"]: one for one in reversed(_newest(state, repo, sha))}
    words = {one["state"] for one in latest.values()}
    shown = {
        "state": next((word for word in _WORST_FIRST if word in words), "pending"),
        "sha": sha,
        "total_count": len(latest),
        "statuses": [shapes_git.status(state, repo, one) for one in latest.values()] or None,
        "repository": shapes.repository(state, repo, who.login),
        "commit_url": "",
        "url": "",
    }
    return Json(shown, headers={"X-Total-Count": str(len(latest))})


ROUTES = [
    Route(f"{REPO}/branches", branches, methods=["GET", "POST"]),
    Route(f"{REPO}/branches/{{branch:path}}", branch, methods=["GET", "DELETE"]),
    Route(f"{REPO}/branch_protections", protections, methods=["GET", "POST"]),
    Route(f"{REPO}/branch_protections/{{name:path}}", protection, methods=["GET", "DELETE"]),
    Route(f"{REPO}/statuses/{{sha}}", statuses, methods=["GET", "POST"]),
    Route(f"{REPO}/commits/{{sha}}/statuses", statuses),
    Route(f"{REPO}/commits/{{sha}}/status", combined_status),
]
