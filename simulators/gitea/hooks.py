"""Webhooks of repositories, organisations and the whole server."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.gitea import access, events, git_data, shapes
from simulators.gitea.access import Json, message
from simulators.gitea.calls import REPO, deliveries_of, enter, not_found, paged, state_of
from simulators.gitea.state import Doc, State
from simulators.gitea.subscriptions import kinds_of


async def repo_hooks(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method == "POST")
    access.need_admin(state, repo, who)
    return await _hooks(request, state, {"repository": repo["id"]})


async def org_hooks(request: Request) -> Response:
    state = state_of(request)
    who = access.caller(state, request)
    access.need_scope(who, "organization", write=request.method == "POST")
    org = state.user(request.path_params["org"])
    if org is None or access.need_login(who)["login"] not in org.get("owners", []):
        raise not_found()
    return await _hooks(request, state, {"org": org["login"]})


async def admin_hooks(request: Request) -> Response:
    """`is_system_webhook` makes one that fires for all; without it, one that new repositories copy."""
    state = state_of(request)
    access.need_site_admin(access.caller(state, request), write=request.method == "POST")
    if request.method == "GET":
        return await _hooks(request, state, {"system": True})
    config = (await access.body_of(request)).get("config") or {}
    system = config.get("is_system_webhook") == "true"
    return await _hooks(request, state, {"system": True} if system else {"default": True})


async def _hooks(request: Request, state: State, scope: Doc) -> Response:
    if request.method == "GET":
        return paged(request, [shapes.hook(one) for one in state.docs["hooks"] if scope.items() <= one.items()])
    body = await access.body_of(request)
    config = body.get("config") or {}
    if not {"url", "content_type"} <= config.keys():
        raise message(422, "Missing config option: " + ("content_type" if "url" in config else "url"))
    made = state.add_hook(scope, {**body, **config})
    state.save()
    return Json(shapes.hook(made), 201)


async def repo_hook(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method != "GET")
    access.need_admin(state, repo, who)
    wanted = request.path_params["id"]
    mine = [one for one in state.docs["hooks"] if one.get("repository") == repo["id"]]
    found = next((one for one in mine if str(one["id"]) == wanted), None)
    if found is None:
        raise not_found()
    if request.method == "DELETE":
        state.docs["hooks"].remove(found)
        state.save()
        return Response(status_code=204)
    if request.method == "PATCH":
        body = await access.body_of(request)
        known = {"url", "secret", "content_type"}
        found |= {name: value for name, value in (body.get("config") or {}).items() if name in known}
        found["active"] = bool(body.get("active", found["active"]))
        if "events" in body:
            found["events"] = kinds_of(body["events"])
        state.save()
    return Json(shapes.hook(found))


async def hook_test(request: Request) -> Response:
    """A normal signed push in which nothing changed, to this hook alone; 500 on an empty repository."""
    state, who, repo = enter(request, "repository", write=True)
    access.need_admin(state, repo, who)
    wanted = request.path_params["id"]
    mine = [one for one in state.docs["hooks"] if one.get("repository") == repo["id"]]
    found = next((one for one in mine if str(one["id"]) == wanted), None)
    if found is None:
        raise not_found()
    sha = git_data.sha_of(state.git_dir(repo), repo["default_branch"])
    if not sha:
        raise message(500, "")
    events.test(deliveries_of(request), repo, found, sha, str(who.login))
    return Response(status_code=204)


ROUTES = [
    Route(f"{REPO}/hooks", repo_hooks, methods=["GET", "POST"]),
    Route(f"{REPO}/hooks/{{id}}", repo_hook, methods=["GET", "PATCH", "DELETE"]),
    Route(f"{REPO}/hooks/{{id}}/tests", hook_test, methods=["POST"]),
    Route("/api/v1/orgs/{org}/hooks", org_hooks, methods=["GET", "POST"]),
    Route("/api/v1/admin/hooks", admin_hooks, methods=["GET", "POST"]),
]
