"""Users, organisations and tokens, and what the server tells of itself."""

import re
import secrets

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.gitea import access, shapes
from simulators.gitea.access import Json, message
from simulators.gitea.calls import not_found, paged, state_of
from simulators.gitea.state import Doc, State

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_AREAS = ("activitypub", "admin", "issue", "misc", "notification", "organization", "package", "repository", "user")
_SCOPES = frozenset({"all", "public-only", *(f"{verb}:{area}" for verb in ("read", "write") for area in _AREAS)})


async def version(_: Request) -> Response:
    return Json({"version": "1.22.0"})


async def api_settings(_: Request) -> Response:
    return Json(
        {
            "max_response_items": 50,
            "default_paging_num": 30,
            "default_git_trees_per_page": 1000,
            "default_max_blob_size": 10485760,
        }
    )


async def current_user(request: Request) -> Response:
    state = state_of(request)
    who = access.caller(state, request)
    login = access.need_login(who)["login"]
    access.need_scope(who, "user", write=False)
    return Json(shapes.user(state, login))


async def user_by_name(request: Request) -> Response:
    state = state_of(request)
    who = access.caller(state, request)
    access.need_scope(who, "user", write=False)
    name = request.path_params["name"]
    found = state.user(name)
    if found is None:
        raise message(404, f"user redirect does not exist [name: {name}]")
    return Json(shapes.user(state, found["login"]))


async def tokens(request: Request) -> Response:
    """With a password only. The answer tells no scopes; without any, the token may do nothing."""
    state = state_of(request)
    user = access.by_password(state, request)
    if user is None or user["login"].lower() != request.path_params["name"].lower():
        raise message(401, "auth required")
    if request.method == "GET":
        return paged(request, [_token(one) for one in reversed(user["tokens"])])
    body = await access.body_of(request)
    name, scopes = body.get("name", ""), body.get("scopes") or []
    if any(one["name"] == name for one in user["tokens"]):
        raise message(400, "access token name has been used already")
    for scope in scopes:
        if scope not in _SCOPES:
            raise message(400, f"invalid access token scope provided: invalid access token scope: {scope}")
    made = {"id": state.next_id("token"), "name": name, "token": secrets.token_hex(20), "scopes": scopes}
    user["tokens"].append(made)
    state.save()
    return Json({**_token(made), "sha1": made["token"], "scopes": None}, 201)


def _token(one: Doc) -> Doc:
    return {
        "id": one["id"],
        "name": one["name"],
        "sha1": "",
        "token_last_eight": one["token"][-8:],
        "scopes": one["scopes"] or [""],
    }


async def admin_users(request: Request) -> Response:
    state = state_of(request)
    access.need_site_admin(access.caller(state, request), write=True)
    body = await access.body_of(request)
    login = str(body.get("username", ""))
    if not _NAME.fullmatch(login):
        raise message(422, "[Username]: invalid username")
    if state.user(login) is not None:
        raise message(422, f"user already exists [name: {login}]")
    state.seed_user({"login": login, "password": body.get("password", "")})
    state.save()
    return Json(shapes.user(state, login), 201)


async def admin_user_orgs(request: Request) -> Response:
    """Makes an organisation for a user, if the server lets that user have one."""
    state = state_of(request)
    access.need_site_admin(access.caller(state, request), write=True)
    owner = state.user(request.path_params["name"])
    if owner is None:
        raise message(404, f"user redirect does not exist [name: {request.path_params['name']}]")
    if not owner["may_own_orgs"]:
        raise message(500, "user is not allowed to create organizations")
    return await _create_org(request, state, owner)


async def orgs(request: Request) -> Response:
    state = state_of(request)
    who = access.caller(state, request)
    user = access.need_login(who)
    access.need_scope(who, "organization", write=True)
    if not user["may_own_orgs"]:
        raise message(403, "%!s(<nil>)")
    return await _create_org(request, state, user)


async def _create_org(request: Request, state: State, owner: Doc) -> Response:
    name = str((await access.body_of(request)).get("username", ""))
    if not name:
        raise message(422, "[UserName]: Required")
    if state.user(name) is not None:
        raise message(422, f"user already exists [name: {name}]")
    made = state.seed_user({"login": name, "owners": [owner["login"]]})
    state.save()
    return Json(shapes.organisation(state, made), 201)


async def org(request: Request) -> Response:
    """Deletes one that owns nothing any more."""
    state = state_of(request)
    who = access.caller(state, request)
    login = access.need_login(who)["login"]
    access.need_scope(who, "organization", write=True)
    found = state.user(request.path_params["org"])
    if found is None or login not in found["owners"]:
        raise not_found()
    if any(one["owner"] == found["login"] for one in state.docs["repositories"]):
        raise message(500, "")
    state.docs["users"].remove(found)
    state.save()
    return Response(status_code=204)


ROUTES = [
    Route("/api/v1/version", version),
    Route("/api/v1/settings/api", api_settings),
    Route("/api/v1/user", current_user),
    Route("/api/v1/users/{name}", user_by_name),
    Route("/api/v1/users/{name}/tokens", tokens, methods=["GET", "POST"]),
    Route("/api/v1/orgs", orgs, methods=["POST"]),
    Route("/api/v1/orgs/{org}", org, methods=["DELETE"]),
    Route("/api/v1/admin/users", admin_users, methods=["POST"]),
    Route("/api/v1/admin/users/{name}/orgs", admin_user_orgs, methods=["POST"]),
]
