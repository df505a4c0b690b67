"""Comments of the conversation, and reactions."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.gitea import access, edits, events, shapes
from simulators.gitea.access import Caller, Json, message
from simulators.gitea.calls import REPO, between, deliveries_of, enter, issue_of, not_found, paged, state_of, whole
from simulators.gitea.state import LEVELS, Doc, State, now

_REACTIONS = frozenset({"+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"})


async def issue_comments(request: Request) -> Response:
    """No pages here, and 500 for an issue that does not exist: both as measured."""
    state, who, repo = enter(request, "issue", write=request.method == "POST")
    access.need_issues(state, repo, who)
    number = request.path_params["number"]
    target = state.issue(repo, int(number)) if number.isdecimal() else None
    if request.method == "POST":
        return await _create(request, who, repo, target)
    if target is None:
        raise message(500, "")
    found = between(request, state.comments(repo, target["number"]))
    return whole([shapes.comment(state, repo, one) for one in found])


async def _create(request: Request, who: Caller, repo: Doc, target: Doc | None) -> Response:
    state = state_of(request)
    access.need_not_archived(repo)
    body = await access.body_of(request)
    if not body.get("body"):
        raise message(422, "[Body]: Required")
    if target is None:
        raise message(500, "")
    if target["is_locked"] and state.level(repo, who.user) < LEVELS["write"]:
        raise message(403, "You cannot comment on a locked issue.")
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
    edits.touch(target)
    state.save()
    events.comment(deliveries_of(request), repo, made, "created", str(who.login))
    return Json(shapes.comment(state, repo, made), 201)


async def repo_comments(request: Request) -> Response:
    """In pages only if `page` is given."""
    state, _, repo = enter(request, "issue")
    shown = [shapes.comment(state, repo, one) for one in between(request, state.comments(repo))]
    return paged(request, shown) if "page" in request.query_params else whole(shown)


async def comment(request: Request) -> Response:
    state, who, repo = enter(request, "issue", write=request.method != "GET")
    found = _comment_of(state, repo, request)
    if request.method == "GET":
        return Json(shapes.comment(state, repo, found))
    access.need_not_archived(repo)
    if request.method == "PATCH" and not (await access.body_of(request)).get("body"):
        raise message(422, "[Body]: Required")
    if found["author"] != who.login and state.level(repo, who.user) < LEVELS["write"]:
        raise access.RefusedError(Response(status_code=403))
    return await _change(request, repo, found, str(who.login))


def _comment_of(state: State, repo: Doc, request: Request) -> Doc:
    wanted = request.path_params["id"]
    for one in state.comments(repo):
        if str(one["id"]) == wanted:
            return one
    raise not_found(f"comment does not exist [id: {wanted}, issue_id: 0]")


async def _change(request: Request, repo: Doc, found: Doc, login: str) -> Response:
    """An edit with the same text is told too."""
    state = state_of(request)
    if request.method == "DELETE":
        events.comment(deliveries_of(request), repo, found, "deleted", login)
        state.docs["comments"].remove(found)
        state.save()
        return Response(status_code=204)
    was, found["body"] = found["body"], (await access.body_of(request))["body"]
    found["updated_at"] = now()
    state.save()
    events.comment(deliveries_of(request), repo, found, "edited", login, was)
    return Json(shapes.comment(state, repo, found))


async def reactions(request: Request) -> Response:
    """201 for a new one, 200 for one that was there; nobody is told."""
    state, who, repo = enter(request, "issue", write=request.method != "GET")
    on = _target(state, repo, request)
    known = [one for one in state.docs["reactions"] if one["on"] == on]
    if request.method == "GET":
        counted = {"X-Total-Count": str(len(known))} if "number" in request.path_params else {}
        return Json([_reaction(state, one) for one in known] or None, headers=counted)  # null, not an empty list
    access.need_not_archived(repo)
    content = (await access.body_of(request)).get("content")
    if content not in _REACTIONS:
        raise message(403, f"'{content}' is not an allowed reaction")
    mine = next((one for one in known if one["content"] == content and one["user"] == who.login), None)
    if request.method == "DELETE":
        state.docs["reactions"] = [one for one in state.docs["reactions"] if one is not mine]
        state.save()
        return Response(status_code=200)
    if mine is not None:
        return Json(_reaction(state, mine), 200)
    made = {"on": on, "content": content, "user": who.login, "created_at": now()}
    state.docs["reactions"].append(made)
    state.save()
    return Json(_reaction(state, made), 201)


def _target(state: State, repo: Doc, request: Request) -> str:
    """What is reacted to: an issue, a comment of it, or an inline comment of a review."""
    if "number" in request.path_params:
        return f"issue-{issue_of(state, repo, request)['id']}"
    wanted = request.path_params["id"]
    inline = [one for one in state.docs["inline_comments"] if one["repository"] == repo["id"]]
    if not any(str(one["id"]) == wanted for one in inline):
        _comment_of(state, repo, request)
    return f"comment-{wanted}"


def _reaction(state: State, one: Doc) -> Doc:
    return {"user": shapes.user(state, one["user"]), "content": one["content"], "created_at": one["created_at"]}


_ALL = ["GET", "POST", "DELETE"]
ROUTES = [
    Route(f"{REPO}/issues/comments", repo_comments),
    Route(f"{REPO}/issues/comments/{{id}}", comment, methods=["GET", "PATCH", "DELETE"]),
    Route(f"{REPO}/issues/comments/{{id}}/reactions", reactions, methods=_ALL),
    Route(f"{REPO}/issues/{{number}}/comments", issue_comments, methods=["GET", "POST"]),
    Route(f"{REPO}/issues/{{number}}/reactions", reactions, methods=_ALL),
]
