"""The REST API below /api/v1, as far as ccweb, gitea-mcp and the tests use it."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from simulators.gitea import access, events, git_data, shapes, shapes_git
from simulators.gitea.access import Caller, message
from simulators.gitea.calls import (
    REPO,
    between,
    deliveries_of,
    enter,
    issue_of,
    linked,
    not_found,
    paged,
    state_of,
    whole,
)
from simulators.gitea.state import LEVELS, Doc, State, now

_REACTIONS = frozenset({"+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"})


async def version(_: Request) -> Response:
    return JSONResponse({"version": "1.22.0"})


async def current_user(request: Request) -> Response:
    state = state_of(request)
    who = access.caller(state, request)
    login = access.need_login(who)["login"]
    access.need_scope(who, "user", write=False)
    return JSONResponse(shapes.user(state, login))


async def user_by_name(request: Request) -> Response:
    state = state_of(request)
    who = access.caller(state, request)
    access.need_scope(who, "user", write=False)
    found = state.user(request.path_params["name"])
    if found is None:
        raise message(404, f"user does not exist [uid: 0, name: {request.path_params['name']}]")
    return JSONResponse(shapes.user(state, found["login"]))


async def get_repo(request: Request) -> Response:
    state, who, repo = enter(request, "repository")
    return JSONResponse(shapes.repository(state, repo, who.login))


async def assignees(request: Request) -> Response:
    state, _, repo = enter(request, "repository")
    return JSONResponse([shapes.user(state, login) for login in state.writers(repo)])


async def collaborator(request: Request) -> Response:
    _, _, repo = enter(request, "repository", login=True)
    if request.path_params["name"] in repo["collaborators"]:
        return Response(status_code=204)
    raise not_found()


async def permission(request: Request) -> Response:
    state, who, repo = enter(request, "repository", login=True)
    if state.level(repo, who.user) < LEVELS["admin"]:
        raise message(403, "Must be admin")
    user = state.user(request.path_params["name"])
    if user is None:
        raise message(404, "user does not exist")
    level = state.level(repo, user)
    name = next(word for word in ("owner", "admin", "write", "read") if level >= LEVELS[word])
    return JSONResponse({"permission": name, "role_name": name, "user": shapes.user(state, user["login"])})


async def issues(request: Request) -> Response:
    state, who, repo = enter(request, "issue", write=request.method == "POST")
    if request.method == "POST":
        access.need_not_archived(repo)
        body = await access.body_of(request)
        if not body.get("title"):
            raise message(422, "[Title]: Required")
        made = state.add_issue(repo, str(who.login), body["title"], body.get("body", ""))
        state.save()
        events.changed(deliveries_of(request), repo, made, "opened", str(who.login))
        return JSONResponse(shapes.issue(state, repo, made), 201)
    wanted, kind = request.query_params.get("state", "open"), request.query_params.get("type", "")
    found = [
        one
        for one in reversed(repo["issues"])
        if wanted in {"all", one["state"]} and kind in {"", "pulls" if one["pull"] else "issues"}
    ]
    return linked(request, [shapes.issue(state, repo, one) for one in found])


async def issue(request: Request) -> Response:
    state, who, repo = enter(request, "issue", write=request.method == "PATCH")
    found = issue_of(state, repo, request)
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
    state_of(request).save()
    if changed:
        events.changed(deliveries_of(request), repo, found, str(action), login)


async def issue_comments(request: Request) -> Response:
    """No pages here, and 500 for an issue that does not exist: both as measured."""
    state, who, repo = enter(request, "issue", write=request.method == "POST")
    number = request.path_params["number"]
    target = state.issue(repo, int(number)) if number.isdecimal() else None
    if request.method == "POST":
        return await _post_comment(request, who, repo, target)
    if target is None:
        raise message(500, "")
    found = between(request, state.comments(repo, target["number"]))
    shown = [shapes.comment(state, repo, one) for one in found]
    return JSONResponse(shown, headers={"X-Total-Count": str(len(shown))})


async def _post_comment(request: Request, who: Caller, repo: Doc, target: Doc | None) -> Response:
    state = state_of(request)
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
    events.comment(deliveries_of(request), repo, made, "created", str(who.login))
    return JSONResponse(shapes.comment(state, repo, made), 201)


async def repo_comments(request: Request) -> Response:
    state, _, repo = enter(request, "issue")
    found = between(request, state.comments(repo))
    shown = [shapes.comment(state, repo, one) for one in found]
    return paged(request, shown) if "page" in request.query_params else whole(shown)


async def comment(request: Request) -> Response:
    state, who, repo = enter(request, "issue", write=request.method != "GET")
    wanted = request.path_params["id"]
    found = next((one for one in state.comments(repo) if str(one["id"]) == wanted), None)
    if found is None:
        raise not_found()
    if request.method == "GET":
        return JSONResponse(shapes.comment(state, repo, found))
    if found["author"] != who.login and state.level(repo, who.user) < LEVELS["write"]:
        raise access.RefusedError(Response(status_code=403))
    return await _change_comment(request, repo, found, str(who.login))


async def _change_comment(request: Request, repo: Doc, found: Doc, login: str) -> Response:
    state = state_of(request)
    if request.method == "DELETE":
        state.docs["comments"].remove(found)
        state.save()
        events.comment(deliveries_of(request), repo, found, "deleted", login)
        return Response(status_code=204)
    body = await access.body_of(request)
    if not body.get("body"):
        raise message(422, "[Body]: Required")
    was, found["body"], found["updated_at"] = found["body"], body["body"], now()
    state.save()
    events.comment(deliveries_of(request), repo, found, "edited", login, was)
    return JSONResponse(shapes.comment(state, repo, found))


async def reactions(request: Request) -> Response:
    state, who, repo = enter(request, "issue", write=request.method != "GET")
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
    state, _, repo = enter(request, "repository")
    shas = git_data.branches(state.git_dir(repo))
    return paged(request, [shapes_git.branch(state, repo, name, sha) for name, sha in shas.items()])


async def branch(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method == "DELETE")
    name = request.path_params["branch"]
    sha = git_data.branches(state.git_dir(repo)).get(name)
    if sha is None:
        raise not_found()
    if request.method == "DELETE":
        access.need_level(state, repo, who, "write")
        git_data.git(state.git_dir(repo), "update-ref", "-d", f"refs/heads/{name}")
        return Response(status_code=204)
    return JSONResponse(shapes_git.branch(state, repo, name, sha))


async def hooks(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method == "POST")
    access.need_level(state, repo, who, "admin")
    if request.method == "GET":
        return JSONResponse([shapes.hook(one) for one in state.docs["hooks"] if one["repository"] == repo["id"]])
    body = await access.body_of(request)
    config = body.get("config", {})
    made = state.add_hook(repo, {**body, "url": config.get("url", ""), "secret": config.get("secret", "")})
    state.save()
    return JSONResponse(shapes.hook(made), 201)


ROUTES = [
    Route("/api/v1/version", version),
    Route("/api/v1/user", current_user),
    Route("/api/v1/users/{name}", user_by_name),
    Route(REPO, get_repo),
    Route(f"{REPO}/assignees", assignees),
    Route(f"{REPO}/collaborators/{{name}}", collaborator),
    Route(f"{REPO}/collaborators/{{name}}/permission", permission),
    Route(f"{REPO}/issues", issues, methods=["GET", "POST"]),
    Route(f"{REPO}/issues/comments", repo_comments),
    Route(f"{REPO}/issues/comments/{{id}}", comment, methods=["GET", "PATCH", "DELETE"]),
    Route(f"{REPO}/issues/comments/{{id}}/reactions", reactions, methods=["GET", "POST"]),
    Route(f"{REPO}/issues/{{number}}", issue, methods=["GET", "PATCH"]),
    Route(f"{REPO}/issues/{{number}}/comments", issue_comments, methods=["GET", "POST"]),
    Route(f"{REPO}/issues/{{number}}/reactions", reactions, methods=["GET", "POST"]),
    Route(f"{REPO}/branches", branches),
    Route(f"{REPO}/branches/{{branch:path}}", branch, methods=["GET", "DELETE"]),
    Route(f"{REPO}/hooks", hooks, methods=["GET", "POST"]),
]
