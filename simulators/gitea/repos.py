"""Repositories: made, changed, renamed, moved, forked, archived; who may work in them."""

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.gitea import access, events, git_repos, shapes
from simulators.gitea.access import Json, message
from simulators.gitea.calls import REPO, deliveries_of, enter, linked, not_found, paged, state_of
from simulators.gitea.state import LEVELS, Doc, State

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


async def create(request: Request) -> Response:
    """For the caller, or for an organisation of the path that the caller owns."""
    state = state_of(request)
    who = access.caller(state, request)
    login = str(access.need_login(who)["login"])
    org = request.path_params.get("org")
    access.need_scope(who, "organization" if org else "user", write=True)
    owner = state.user(org) if org else who.user
    if owner is None or (org and login not in owner.get("owners", [])):
        raise not_found()
    body = await access.body_of(request)
    _check_name(state, owner["login"], str(body.get("name", "")))
    made = state.add_repository({**body, "owner": owner["login"]})
    files = {"README.md": f"# {made['name']}\n"} if body.get("auto_init") else {}
    git_repos.make(state.git_dir(made), files, made["default_branch"])
    _announce(request, state, made, login)
    return Json(shapes.repository(state, made, login), 201)


def _announce(request: Request, state: State, made: Doc, login: str) -> None:
    """A new repository copies the default webhooks, and they hear of it at once."""
    for hook in [one for one in state.docs["hooks"] if one.get("default")]:
        copied = {key: value for key, value in hook.items() if key not in {"id", "default"}}
        state.docs["hooks"].append({**copied, "id": state.next_id("hook"), "repository": made["id"]})
    state.save()
    events.repository(deliveries_of(request), made, "created", login)


def _check_name(state: State, owner: str, name: str) -> None:
    if not name:
        raise message(422, "[Name]: Required")
    if not _NAME.fullmatch(name):
        raise message(422, "[Name]: AlphaDashDot")
    if name.endswith(".git") or name in {".", ".."}:
        raise message(422, "name pattern is not allowed [pattern: *.git]")
    if state.repository(owner, name) is not None:
        raise message(409, "The repository with the same name already exists.")


async def mine(request: Request) -> Response:
    """What the caller owns or was given, in pages."""
    state = state_of(request)
    who = access.caller(state, request)
    login = str(access.need_login(who)["login"])
    for scope in ("user", "repository"):
        access.need_scope(who, scope, write=False)
    given = [repo for repo in state.docs["repositories"] if _is_given(state, repo, login)]
    return linked(request, [shapes.repository(state, repo, login) for repo in given])


def _is_given(state: State, repo: Doc, login: str) -> bool:
    return login in {*state.owners(repo), *repo["collaborators"]}


async def repository(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method != "GET")
    if request.method == "GET":
        return Json(shapes.repository(state, repo, who.login))
    access.need_admin(state, repo, who)
    if request.method == "DELETE":
        access.need_owner(state, repo, who)
        state.forget(repo)
        state.save()
        events.repository(deliveries_of(request), repo, "deleted", str(who.login))
        return Response(status_code=204)
    _patch(state, repo, await access.body_of(request))
    state.save()
    return Json(shapes.repository(state, repo, who.login))


def _patch(state: State, repo: Doc, body: Doc) -> None:
    """No delivery tells of any of this."""
    name = body.get("name")
    if name and name != repo["name"]:
        _check_name(state, repo["owner"], name)
        state.rename(repo, repo["owner"], name)
    known = ("private", "archived", "has_issues", "description", "default_branch")
    repo |= {key: body[key] for key in known if body.get(key) is not None}


async def transfer(request: Request) -> Response:
    """At once where the caller owns both sides; else the new owner has to accept."""
    state, who, repo = enter(request, "repository", write=True)
    access.need_owner(state, repo, who)
    wanted = (await access.body_of(request)).get("new_owner", "")
    owner = state.user(wanted)
    if owner is None:
        raise message(404, f"The new owner does not exist or cannot be found: {wanted}")
    if state.repository(owner["login"], repo["name"]) is not None:
        raise message(422, "repository already exists")
    if who.login in owner.get("owners", []):
        state.rename(repo, owner["login"], repo["name"])
    else:
        repo["transfer_to"] = owner["login"]
    state.save()
    return Json(shapes.repository(state, repo, who.login), 201 if repo["transfer_to"] else 202)


async def accept_transfer(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=True)
    if not repo["transfer_to"]:
        raise not_found()
    if repo["transfer_to"] != who.login:
        raise message(403, "user does not have permission to accept the transfer")
    state.rename(repo, repo["transfer_to"], repo["name"])
    repo["transfer_to"] = ""
    state.save()
    return Json(shapes.repository(state, repo, who.login), 202)


async def forks(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method == "POST")
    if request.method == "GET":
        found = [one for one in state.docs["repositories"] if one["fork_of"] == repo["id"]]
        return paged(request, [shapes.repository(state, one, who.login) for one in found])
    body = await access.body_of(request)
    login, name = str(who.login), body.get("name") or repo["name"]
    if login == repo["owner"] or state.repository(login, name) is not None:
        raise message(409, "The repository with the same name already exists.")
    made = state.add_repository({"owner": login, "name": name, "fork_of": repo["id"], "has_issues": False})
    made["private"], made["default_branch"] = repo["private"], repo["default_branch"]
    git_repos.fork(state.git_dir(repo), state.git_dir(made))
    state.save()
    events.forked(deliveries_of(request), repo, made, login)
    return Json(shapes.repository(state, made, login), 202)


async def assignees(request: Request) -> Response:
    state, _, repo = enter(request, "repository")
    return Json([shapes.user(state, login) for login in state.writers(repo)])


async def collaborators(request: Request) -> Response:
    state, _, repo = enter(request, "repository", login=True)
    return paged(request, [shapes.user(state, login) for login in repo["collaborators"]])


async def collaborator(request: Request) -> Response:
    """The owner is none."""
    state, who, repo = enter(request, "repository", write=request.method != "GET", login=True)
    user = state.user(request.path_params["name"])
    if request.method == "GET":
        if user is not None and user["login"] in repo["collaborators"]:
            return Response(status_code=204)
        raise not_found()
    access.need_admin(state, repo, who)
    if user is None:
        raise message(422, f"user does not exist [uid: 0, name: {request.path_params['name']}]")
    if request.method == "PUT":
        level = (await access.body_of(request)).get("permission") or "write"
        repo["collaborators"][user["login"]] = level if level in {"read", "admin"} else "write"
    else:
        repo["collaborators"].pop(user["login"], None)
    state.save()
    return Response(status_code=204)


async def permission(request: Request) -> Response:
    """For repository admins only; a bot with write permission may not even ask for itself."""
    state, who, repo = enter(request, "repository", login=True)
    if state.level(repo, who.user) < LEVELS["admin"]:
        only = "Only admins can query all permissions, repo admins can query all repo permissions"
        raise message(403, f"{only}, collaborators can query only their own")
    user = state.user(request.path_params["name"])
    if user is None:
        raise message(404, f"user does not exist [uid: 0, name: {request.path_params['name']}]")
    level = state.level(repo, user)
    word = next((word for word in ("owner", "admin", "write", "read") if level >= LEVELS[word]), "none")
    return Json({"permission": word, "role_name": word, "user": shapes.user(state, user["login"])})


ROUTES = [
    Route("/api/v1/user/repos", mine, methods=["GET"]),
    Route("/api/v1/user/repos", create, methods=["POST"]),
    Route("/api/v1/orgs/{org}/repos", create, methods=["POST"]),
    Route(REPO, repository, methods=["GET", "PATCH", "DELETE"]),
    Route(f"{REPO}/transfer", transfer, methods=["POST"]),
    Route(f"{REPO}/transfer/accept", accept_transfer, methods=["POST"]),
    Route(f"{REPO}/forks", forks, methods=["GET", "POST"]),
    Route(f"{REPO}/assignees", assignees),
    Route(f"{REPO}/collaborators", collaborators),
    Route(f"{REPO}/collaborators/{{name}}", collaborator, methods=["GET", "PUT", "DELETE"]),
    Route(f"{REPO}/collaborators/{{name}}/permission", permission),
]
