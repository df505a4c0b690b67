"""The REST API below /api/v1, as far as ccweb, gitea-mcp and the tests use it."""

import subprocess
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from simulators.gitea import access, git_http, shapes
from simulators.gitea.access import Caller, message
from simulators.gitea.deliveries import Deliveries
from simulators.gitea.state import LEVELS, Doc, State, now

_REACTIONS = frozenset({"+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"})
_PAGE, _LONGEST_PAGE = 30, 50
_REPO = "/api/v1/repos/{owner}/{repo}"


def _state(request: Request) -> State:
    found: State = request.app.state.gitea
    return found


def _deliveries(request: Request) -> Deliveries:
    found: Deliveries = request.app.state.deliveries
    return found


def _enter(request: Request, area: str, *, write: bool = False, login: bool = False) -> tuple[State, Caller, Doc]:
    """State, caller and repository of a call, after token, scope and visibility were checked in Gitea's order."""
    state = _state(request)
    who = access.caller(state, request)
    if login or write:
        access.need_login(who)
    access.need_scope(who, area, write=write)
    return state, who, access.repository_of(state, who, request)


async def version(_: Request) -> Response:
    return JSONResponse({"version": "1.22.0"})


async def current_user(request: Request) -> Response:
    state = _state(request)
    who = access.caller(state, request)
    login = access.need_login(who)["login"]
    access.need_scope(who, "user", write=False)
    return JSONResponse(shapes.user(state, login))


async def user_by_name(request: Request) -> Response:
    state = _state(request)
    who = access.caller(state, request)
    access.need_scope(who, "user", write=False)
    found = state.user(request.path_params["name"])
    if found is None:
        raise message(404, f"user does not exist [uid: 0, name: {request.path_params['name']}]")
    return JSONResponse(shapes.user(state, found["login"]))


async def get_repo(request: Request) -> Response:
    state, who, repo = _enter(request, "repository")
    return JSONResponse(shapes.repository(state, repo, who.login))


async def assignees(request: Request) -> Response:
    state, _, repo = _enter(request, "repository")
    writers = [name for name, level in repo["collaborators"].items() if LEVELS[level] >= LEVELS["write"]]
    return JSONResponse([shapes.user(state, login) for login in sorted({*writers, repo["owner"]})])


async def collaborator(request: Request) -> Response:
    _, _, repo = _enter(request, "repository", login=True)
    if request.path_params["name"] in repo["collaborators"]:
        return Response(status_code=204)
    raise message(404, "The target couldn't be found.")


async def permission(request: Request) -> Response:
    state, who, repo = _enter(request, "repository", login=True)
    if state.level(repo, who.user) < LEVELS["admin"]:
        raise message(403, "Must be admin")
    user = state.user(request.path_params["name"])
    if user is None:
        raise message(404, "user does not exist")
    level = state.level(repo, user)
    name = next(word for word in ("owner", "admin", "write", "read") if level >= LEVELS[word])
    return JSONResponse({"permission": name, "role_name": name, "user": shapes.user(state, user["login"])})


async def issues(request: Request) -> Response:
    state, who, repo = _enter(request, "issue", write=request.method == "POST")
    if request.method == "POST":
        access.need_not_archived(repo)
        body = await access.body_of(request)
        if not body.get("title"):
            raise message(422, "[Title]: Required")
        made = state.add_issue(repo, str(who.login), body["title"], body.get("body", ""))
        state.save()
        _deliveries(request).issue(repo, made, "opened", str(who.login))
        return JSONResponse(shapes.issue(state, repo, made), 201)
    wanted, kind = request.query_params.get("state", "open"), request.query_params.get("type", "")
    found = [
        one
        for one in reversed(repo["issues"])
        if wanted in {"all", one["state"]} and kind in {"", "pulls" if one["pull"] else "issues"}
    ]
    return _paged(request, [shapes.issue(state, repo, one) for one in found])


def _issue(state: State, repo: Doc, request: Request) -> Doc:
    """The issue of the path; an index that is no number is a 500, as measured."""
    number = request.path_params["number"]
    if not number.isdecimal():
        raise message(500, "")
    found = state.issue(repo, int(number))
    if found is None:
        raise message(404, "The target couldn't be found.")
    return found


async def issue(request: Request) -> Response:
    state, who, repo = _enter(request, "issue", write=request.method == "PATCH")
    found = _issue(state, repo, request)
    if request.method == "PATCH":
        access.need_not_archived(repo)
        if found["author"] != who.login:
            access.need_level(state, repo, who, "write")
        await _patch_issue(request, repo, found, str(who.login))
        return JSONResponse(shapes.issue(state, repo, found), 201)
    return JSONResponse(shapes.issue(state, repo, found))


async def _patch_issue(request: Request, repo: Doc, found: Doc, login: str) -> None:
    body = await access.body_of(request)
    wanted = body.get("state")
    action = {"closed": "closed", "open": "reopened"}.get(str(wanted))
    changed = action is not None and wanted != found["state"]
    found |= {name: body[name] for name in ("title", "body") if name in body}
    if changed:
        found |= {"state": wanted, "closed_at": now() if wanted == "closed" else None}
    _state(request).save()
    if changed:
        _deliveries(request).issue(repo, found, str(action), login)


async def issue_comments(request: Request) -> Response:
    """No pages here, and 500 for an issue that does not exist: both as measured."""
    state, who, repo = _enter(request, "issue", write=request.method == "POST")
    number = request.path_params["number"]
    target = state.issue(repo, int(number)) if number.isdecimal() else None
    if request.method == "POST":
        return await _post_comment(request, who, repo, target)
    if target is None:
        raise message(500, "")
    found = _between(request, state.comments(repo, target["number"]))
    shown = [shapes.comment(state, repo, one) for one in found]
    return JSONResponse(shown, headers={"X-Total-Count": str(len(shown))})


async def _post_comment(request: Request, who: Caller, repo: Doc, target: Doc | None) -> Response:
    state = _state(request)
    body = await access.body_of(request)
    if not body.get("body"):
        raise message(422, "[Body]: Required")
    if target is None:
        raise message(500, "")
    access.need_not_archived(repo)
    if target["is_locked"] and state.level(repo, who.user) < LEVELS["write"]:
        raise message(403, "Comment is locked")
    made = {
        "id": state.next_id("comment"),
        "repository": repo["id"],
        "number": target["number"],
        "author": who.login,
        "body": body["body"],
        "created_at": now(),
        "updated_at": now(),
    }
    state.docs["comments"].append(made)
    state.save()
    _deliveries(request).comment(repo, target["number"], made, "created", str(who.login))
    return JSONResponse(shapes.comment(state, repo, made), 201)


async def repo_comments(request: Request) -> Response:
    state, _, repo = _enter(request, "issue")
    found = _between(request, state.comments(repo))
    shown = [shapes.comment(state, repo, one) for one in found]
    return _paged(request, shown) if "page" in request.query_params else _all(shown)


async def comment(request: Request) -> Response:
    state, who, repo = _enter(request, "issue", write=request.method != "GET")
    wanted = request.path_params["id"]
    found = next((one for one in state.comments(repo) if str(one["id"]) == wanted), None)
    if found is None:
        raise message(404, "The target couldn't be found.")
    if request.method == "GET":
        return JSONResponse(shapes.comment(state, repo, found))
    if found["author"] != who.login and state.level(repo, who.user) < LEVELS["write"]:
        raise access.RefusedError(Response(status_code=403))
    return await _change_comment(request, repo, found, str(who.login))


async def _change_comment(request: Request, repo: Doc, found: Doc, login: str) -> Response:
    state = _state(request)
    if request.method == "DELETE":
        state.docs["comments"].remove(found)
        state.save()
        _deliveries(request).comment(repo, found["number"], found, "deleted", login)
        return Response(status_code=204)
    body = await access.body_of(request)
    if not body.get("body"):
        raise message(422, "[Body]: Required")
    was, found["body"], found["updated_at"] = found["body"], body["body"], now()
    state.save()
    _deliveries(request).comment(repo, found["number"], found, "edited", login, was)
    return JSONResponse(shapes.comment(state, repo, found))


async def reactions(request: Request) -> Response:
    state, who, repo = _enter(request, "issue", write=request.method != "GET")
    on = f"{repo['id']}/{request.path_params.get('id') or 'issue-' + request.path_params.get('number', '')}"
    known = [one for one in state.docs["reactions"] if one["on"] == on]
    if request.method == "GET":
        return JSONResponse([_reaction(state, one) for one in known])
    content = (await access.body_of(request)).get("content")
    if content not in _REACTIONS:
        raise message(403, f"'{content}' is not an allowed reaction")
    mine = next((one for one in known if one["content"] == content and one["user"] == who.login), None)
    if mine is not None:
        return JSONResponse(_reaction(state, mine), 200)
    made = {"on": on, "content": content, "user": who.login, "created_at": now()}
    state.docs["reactions"].append(made)
    state.save()
    return JSONResponse(_reaction(state, made), 201)


def _reaction(state: State, one: Doc) -> Doc:
    return {"user": shapes.user(state, one["user"]), "content": one["content"], "created_at": one["created_at"]}


async def branches(request: Request) -> Response:
    state, _, repo = _enter(request, "repository")
    shas = git_http.branches(state.git_dir(repo))
    return JSONResponse([shapes.branch(name, sha) for name, sha in shas.items()])


async def branch(request: Request) -> Response:
    state, who, repo = _enter(request, "repository", write=request.method == "DELETE")
    name = request.path_params["branch"]
    sha = git_http.branches(state.git_dir(repo)).get(name)
    if sha is None:
        raise message(404, "The target couldn't be found.")
    if request.method == "DELETE":
        access.need_level(state, repo, who, "write")
        git_http.git(state.git_dir(repo), "update-ref", "-d", f"refs/heads/{name}")
        return Response(status_code=204)
    return JSONResponse(shapes.branch(name, sha))


async def pulls(request: Request) -> Response:
    state, who, repo = _enter(request, "repository", write=request.method == "POST")
    shas = git_http.branches(state.git_dir(repo))
    if request.method == "POST":
        return await _post_pull(request, who, repo, shas)
    wanted = request.query_params.get("state", "open")
    found = [one for one in reversed(repo["issues"]) if one["pull"] and wanted in {"all", one["state"]}]
    return _paged(request, [shapes.pull(state, repo, one, shas) for one in found])


async def _post_pull(request: Request, who: Caller, repo: Doc, shas: dict[str, str]) -> Response:
    state = _state(request)
    access.need_not_archived(repo)
    body = await access.body_of(request)
    head, base = body.get("head", ""), body.get("base", "")
    if head not in shas or base not in shas:
        raise message(404, "The target couldn't be found.")
    if shas[head] == shas[base]:
        raise message(422, "There are no changes between the head and the base")
    if any(one["pull"] == {"head": head, "base": base} and one["state"] == "open" for one in repo["issues"]):
        raise message(409, "pull request already exists for these targets")
    made = state.add_issue(
        repo, str(who.login), body.get("title", ""), body.get("body", ""), {"head": head, "base": base}
    )
    git_http.git(state.git_dir(repo), "update-ref", f"refs/pull/{made['number']}/head", shas[head])
    state.save()
    _deliveries(request).issue(repo, made, "opened", str(who.login))
    return JSONResponse(shapes.pull(state, repo, made, shas), 201)


async def pull(request: Request) -> Response:
    state, _, repo = _enter(request, "repository")
    found = _issue(state, repo, request)
    if not found["pull"]:
        raise message(404, "The target couldn't be found.")
    return JSONResponse(shapes.pull(state, repo, found, git_http.branches(state.git_dir(repo))))


async def contents(request: Request) -> Response:
    state, _, repo = _enter(request, "repository")
    path, ref = request.path_params["path"], request.query_params.get("ref") or repo["default_branch"]
    try:
        content = git_http.git(state.git_dir(repo), "cat-file", "blob", f"{ref}:{path}")
    except subprocess.CalledProcessError:
        raise message(404, "The target couldn't be found.") from None
    return JSONResponse({"name": path.rsplit("/", 1)[-1], "path": path, "type": "file", "content": content})


async def hooks(request: Request) -> Response:
    state, who, repo = _enter(request, "repository", write=request.method == "POST")
    access.need_level(state, repo, who, "admin")
    if request.method == "GET":
        return JSONResponse([shapes.hook(one) for one in state.docs["hooks"] if one["repository"] == repo["id"]])
    body = await access.body_of(request)
    config = body.get("config", {})
    made = state.add_hook(repo, {**body, "url": config.get("url", ""), "secret": config.get("secret", "")})
    state.save()
    return JSONResponse(shapes.hook(made), 201)


def _between(request: Request, found: list[Doc]) -> list[Doc]:
    """`since` and `before` compare with `updated_at` and include the second itself."""
    since, before = request.query_params.get("since", ""), request.query_params.get("before", "9")
    if since and not since[:4].isdecimal():
        raise message(422, f'parsing time "{since}" as "2006-01-02T15:04:05Z07:00"')
    return [one for one in found if since <= one["updated_at"] <= before]


def _paged(request: Request, shown: list[Any]) -> Response:
    page = max(int(request.query_params.get("page", 1)), 1)
    limit = min(int(request.query_params.get("limit", _PAGE)), _LONGEST_PAGE)
    part = shown[(page - 1) * limit : page * limit]
    return JSONResponse(part, headers={"X-Total-Count": str(len(shown))})


def _all(shown: list[Any]) -> Response:
    return JSONResponse(shown, headers={"X-Total-Count": str(len(shown))})


ROUTES = [
    Route("/api/v1/version", version),
    Route("/api/v1/user", current_user),
    Route("/api/v1/users/{name}", user_by_name),
    Route(_REPO, get_repo),
    Route(f"{_REPO}/assignees", assignees),
    Route(f"{_REPO}/collaborators/{{name}}", collaborator),
    Route(f"{_REPO}/collaborators/{{name}}/permission", permission),
    Route(f"{_REPO}/issues", issues, methods=["GET", "POST"]),
    Route(f"{_REPO}/issues/comments", repo_comments),
    Route(f"{_REPO}/issues/comments/{{id}}", comment, methods=["GET", "PATCH", "DELETE"]),
    Route(f"{_REPO}/issues/comments/{{id}}/reactions", reactions, methods=["GET", "POST"]),
    Route(f"{_REPO}/issues/{{number}}", issue, methods=["GET", "PATCH"]),
    Route(f"{_REPO}/issues/{{number}}/comments", issue_comments, methods=["GET", "POST"]),
    Route(f"{_REPO}/issues/{{number}}/reactions", reactions, methods=["GET", "POST"]),
    Route(f"{_REPO}/branches", branches),
    Route(f"{_REPO}/branches/{{branch:path}}", branch, methods=["GET", "DELETE"]),
    Route(f"{_REPO}/pulls", pulls, methods=["GET", "POST"]),
    Route(f"{_REPO}/pulls/{{number}}", pull),
    Route(f"{_REPO}/contents/{{path:path}}", contents),
    Route(f"{_REPO}/hooks", hooks, methods=["GET", "POST"]),
]
