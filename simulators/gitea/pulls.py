"""Pull requests."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.gitea import access, edits, events, git_data, shapes_git, shapes_pulls
from simulators.gitea.access import Caller, Json, message
from simulators.gitea.calls import REPO, deliveries_of, enter, linked, not_found, pull_of
from simulators.gitea.state import Doc, State


async def pulls(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method == "POST")
    if request.method == "POST":
        return await _create(request, state, who, repo)
    wanted = request.query_params.get("state", "open")
    found = [one for one in reversed(repo["issues"]) if one["pull"] and wanted in {"all", one["state"]}]
    return linked(request, [shapes_pulls.pull(state, repo, one, who.login) for one in found])


async def _create(request: Request, state: State, who: Caller, repo: Doc) -> Response:
    access.need_not_archived(repo)
    body = await access.body_of(request)
    base, (head_repo, head) = body.get("base", ""), _head(state, repo, body.get("head", ""))
    shas = git_data.branches(state.git_dir(repo))
    head_sha = git_data.branches(state.git_dir(head_repo)).get(head)
    if head_sha is None or base not in shas:
        raise not_found()
    _refuse_second(repo, head_repo, head, base)
    if head_sha == shas[base]:
        raise message(422, "Invalid PullRequest: There are no changes between the head and the base")
    made = _add(state, repo, str(who.login), body, head_repo, head)
    shown = shapes_pulls.pull(state, repo, made, who.login)
    events.pull(deliveries_of(request), repo, made, "opened", str(who.login))
    if head_repo["id"] != repo["id"]:
        events.pull(deliveries_of(request), repo, made, "synchronized", str(who.login))
    return Json(shown, 201)


def _head(state: State, repo: Doc, text: str) -> tuple[Doc, str]:
    """`branch` or `owner:branch`; the latter means a fork."""
    owner, colon, branch = text.rpartition(":")
    if not colon or owner.lower() == repo["owner"].lower():
        return repo, branch
    for one in state.docs["repositories"]:
        if one["owner"].lower() == owner.lower() and one.get("fork_of") == repo["id"]:
            return one, branch
    raise not_found()


def _refuse_second(repo: Doc, head_repo: Doc, head: str, base: str) -> None:
    wanted = {"head": head, "base": base, "head_repo": head_repo["id"]}
    for one in repo["issues"]:
        if one["state"] == "open" and one["pull"] and wanted.items() <= one["pull"].items():
            ids = f"id: {one['pull']['id']}, issue_id: {one['id']}"
            repos = f"head_repo_id: {head_repo['id']}, base_repo_id: {repo['id']}"
            targets = f"[{ids}, {repos}, head_branch: {head}, base_branch: {base}]"
            raise message(409, f"pull request already exists for these targets {targets}")


def _add(state: State, repo: Doc, login: str, body: Doc, head_repo: Doc, head: str) -> Doc:
    pull = {
        "id": state.next_id("pull"),
        "head": head,
        "base": body["base"],
        "head_repo": head_repo["id"],
        "merge_base": "",
        "merged_at": None,
        "merged_by": None,
        "merge_commit": None,
    }
    made = state.add_issue(repo, login, body.get("title", ""), body.get("body", ""), pull)
    source = str(state.git_dir(head_repo))
    ref = f"refs/heads/{head}:refs/pull/{made['number']}/head"
    git_data.git(state.git_dir(repo), "fetch", "--quiet", source, ref)
    state.save()
    return made


async def pull(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method == "PATCH")
    found = pull_of(state, repo, request)
    if request.method == "PATCH":
        access.need_not_archived(repo)
        edits.apply(deliveries_of(request), repo, found, await access.body_of(request), who)
        return Json(shapes_pulls.pull(state, repo, found, who.login), 201)
    return Json(shapes_pulls.pull(state, repo, found, who.login))


async def diff(request: Request) -> Response:
    state, _, repo = enter(request, "repository")
    found = pull_of(state, repo, request)
    base, head = shapes_pulls.merge_base(state, repo, found), shapes_pulls.head_sha(state, repo, found)
    if request.path_params["kind"] == "diff":
        text = git_data.git(state.git_dir(repo), "diff", "--no-renames", base, head)
    else:
        text = git_data.git(state.git_dir(repo), "format-patch", "--stdout", f"{base}..{head}")
    return Response(text, headers={"Content-Type": "text/plain; charset=utf-8"})


async def files(request: Request) -> Response:
    state, _, repo = enter(request, "repository")
    found = pull_of(state, repo, request)
    head = shapes_pulls.head_sha(state, repo, found)
    changes = git_data.file_changes(state.git_dir(repo), shapes_pulls.merge_base(state, repo, found), head)
    return _with_more(request, [shapes_git.changed_file(state, repo, head, one) for one in changes])


async def commits(request: Request) -> Response:
    state, _, repo = enter(request, "repository")
    found = pull_of(state, repo, request)
    base, head = shapes_pulls.merge_base(state, repo, found), shapes_pulls.head_sha(state, repo, found)
    shas = git_data.commits_between(state.git_dir(repo), base, head)
    return _with_more(request, [shapes_git.api_commit(state, repo, sha) for sha in shas])


def _with_more(request: Request, shown: list[Doc]) -> Response:
    answer = linked(request, shown)
    answer.headers["X-HasMore"] = "true" if 'rel="next"' in answer.headers.get("Link", "") else "false"
    return answer


ROUTES = [
    Route(f"{REPO}/pulls", pulls, methods=["GET", "POST"]),
    Route(f"{REPO}/pulls/{{number:int}}.{{kind:str}}", diff),
    Route(f"{REPO}/pulls/{{number}}", pull, methods=["GET", "PATCH"]),
    Route(f"{REPO}/pulls/{{number}}/files", files),
    Route(f"{REPO}/pulls/{{number}}/commits", commits),
]
