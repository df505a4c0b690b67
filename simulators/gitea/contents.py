"""Files of a repository: reading one, and committing one by the API."""

import base64
import subprocess

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.gitea import access, git_data, pushes, shapes_git
from simulators.gitea.access import Json, message
from simulators.gitea.calls import REPO, deliveries_of, enter, not_found
from simulators.gitea.state import LEVELS, Doc, State


async def contents(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method != "GET")
    path = request.path_params["path"]
    if request.method == "GET":
        ref = request.query_params.get("ref") or repo["default_branch"]
        return Json(_file(state, repo, ref, path))
    access.need_not_archived(repo)
    body = await access.body_of(request)
    branch = body.get("new_branch") or body.get("branch") or repo["default_branch"]
    if state.level(repo, who.user) < LEVELS["write"] or branch in repo["protected"]:
        raise message(403, f"user cannot commit to repo [user: {who.login}]")
    before = git_data.refs(state.git_dir(repo))
    _commit_file(state, repo, body, branch, path, str(who.login), known=request.method == "PUT")
    pushes.after(deliveries_of(request), repo, before, str(who.login))
    shown = _file(state, repo, branch, path)
    commit = shapes_git.branch_commit(state, repo, git_data.sha_of(state.git_dir(repo), branch))
    return Json(
        {"content": shown, "commit": commit, "verification": commit["verification"]},
        200 if request.method == "PUT" else 201,
    )


def _file(state: State, repo: Doc, ref: str, path: str) -> Doc:
    git_dir = state.git_dir(repo)
    try:
        blob = git_data.git(git_dir, "rev-parse", "--verify", "--quiet", f"{ref}:{path}").strip()
        content = git_data.git_bytes(git_dir, "cat-file", "blob", blob)
    except subprocess.CalledProcessError:
        raise not_found() from None
    api = f"{state.url}/api/v1/repos/{repo['full_name']}"
    page = f"{state.url}/{repo['full_name']}"
    links = {
        "self": f"{api}/contents/{path}?ref={ref}",
        "git": f"{api}/git/blobs/{blob}",
        "html": f"{page}/src/branch/{ref}/{path}",
    }
    return {
        "name": path.rsplit("/", 1)[-1],
        "path": path,
        "sha": blob,
        "last_commit_sha": (git_data.try_git(git_dir, "log", "-1", "--format=%H", ref, "--", path) or "").strip(),
        "type": "file",
        "size": len(content),
        "encoding": "base64",
        "content": base64.b64encode(content).decode(),
        "target": None,
        "url": links["self"],
        "html_url": links["html"],
        "git_url": links["git"],
        "download_url": f"{page}/raw/branch/{ref}/{path}",
        "submodule_git_url": None,
        "_links": links,
    }


def _commit_file(state: State, repo: Doc, body: Doc, branch: str, path: str, login: str, *, known: bool) -> None:
    git_dir = state.git_dir(repo)
    start = git_data.sha_of(git_dir, body.get("branch") or repo["default_branch"])
    there = (git_data.try_git(git_dir, "rev-parse", "--verify", "--quiet", f"{start}:{path}") or "").strip()
    if known and there != body.get("sha"):
        raise message(422, f"sha does not match [given: {body.get('sha', '')}, expected: {there}]")
    if not known and there:
        raise message(422, f"repository file already exists [path: {path}]")
    content = base64.b64decode(body.get("content", ""))
    text = body.get("message") or f"Update {path}"
    git_data.commit_blob(git_dir, start, branch, path, content, text, login)


ROUTES = [Route(f"{REPO}/contents/{{path:path}}", contents, methods=["GET", "POST", "PUT"])]
