"""Issues: list, open, change, close, assign, label, timeline. Pull requests are issues here too."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.gitea import access, edits, events, shapes
from simulators.gitea.access import Json, message
from simulators.gitea.calls import REPO, between, deliveries_of, enter, issue_of, linked, page_of
from simulators.gitea.state import LEVELS, Doc, State


async def issues(request: Request) -> Response:
    state, who, repo = enter(request, "issue", write=request.method == "POST")
    if request.method == "POST":
        return await _create(request, state, repo, str(who.login))
    access.need_issues(state, repo, who)
    wanted, kind = request.query_params.get("state", "open"), request.query_params.get("type", "")
    found = [
        one
        for one in reversed(between(request, repo["issues"]))
        if wanted in {"all", one["state"]} and kind in {"", "pulls" if one["pull"] else "issues"}
    ]
    return linked(request, [shapes.issue(state, repo, one) for one in found])


async def _create(request: Request, state: State, repo: Doc, login: str) -> Response:
    access.need_not_archived(repo)
    body = await access.body_of(request)
    if not body.get("title"):
        raise message(422, "[Title]: Required")
    made = state.add_issue(repo, login, body["title"], body.get("body", ""))
    may_write = state.level(repo, state.user(login)) >= LEVELS["write"]
    if may_write:
        made["labels"] = [one["id"] for one in repo["labels"] if one["id"] in body.get("labels", [])]
    state.save()
    events.changed(deliveries_of(request), repo, made, "opened", login)
    if may_write and body.get("assignees"):
        edits.assign(deliveries_of(request), repo, made, body["assignees"], login)
    return Json(shapes.issue(state, repo, made), 201)


async def issue(request: Request) -> Response:
    state, who, repo = enter(request, "issue", write=request.method != "GET")
    if request.method == "GET":
        return Json(shapes.issue(state, repo, issue_of(state, repo, request)))
    access.need_not_archived(repo)
    found = issue_of(state, repo, request)
    if request.method == "DELETE":
        access.need_admin(state, repo, who)
        repo["issues"].remove(found)
        state.save()
        return Response(status_code=204)
    body = await access.body_of(request)
    edits.apply(deliveries_of(request), repo, found, body, who)
    return Json(shapes.issue(state, repo, found), 201)


async def repo_labels(request: Request) -> Response:
    state, who, repo = enter(request, "issue", write=request.method == "POST")
    if request.method == "GET":
        shown = [shapes.label(state, repo, one) for one in repo["labels"]]
        return Json(page_of(request, shown), headers={"X-Total-Count": str(len(shown))})
    access.need_level(state, repo, who, "write")
    body = await access.body_of(request)
    if not body.get("name"):
        raise message(422, "[Name]: Required")
    color, told = str(body.get("color", "")).lstrip("#"), body.get("description", "")
    made = {"id": state.next_id("label"), "name": body["name"], "color": color, "description": told}
    repo["labels"].append(made)
    state.save()
    return Json(shapes.label(state, repo, made), 201)


async def issue_labels(request: Request) -> Response:
    """GET, POST adds, PUT replaces, DELETE clears; unknown labels are ignored, as measured."""
    state, who, repo = enter(request, "issue", write=request.method != "GET")
    found = issue_of(state, repo, request)
    if request.method != "GET":
        access.need_not_archived(repo)
        access.need_level(state, repo, who, "write")
        wanted = [] if request.method == "DELETE" else await _label_ids(request, repo)
        _change_labels(request, repo, found, wanted, str(who.login))
    if request.method == "DELETE":
        return Response(status_code=204)
    return Json(shapes.issue(state, repo, found)["labels"])


async def _label_ids(request: Request, repo: Doc) -> list[int]:
    given: list[Any] = (await access.body_of(request)).get("labels") or []
    return [one["id"] for one in repo["labels"] if one["id"] in given or one["name"] in given]


def _change_labels(request: Request, repo: Doc, found: Doc, wanted: list[int], login: str) -> None:
    """The delivery of a clearing still shows the labels that are gone."""
    out = deliveries_of(request)
    if request.method == "DELETE":
        edits.touch(found)
        events.changed(out, repo, found, "label_cleared", login)
        found["labels"] = []
    else:
        kept = found["labels"] if request.method == "POST" else []
        found["labels"] = list(dict.fromkeys([*kept, *wanted]))
        edits.touch(found)
        events.changed(out, repo, found, "label_updated", login)
    for label in wanted:
        edits.note(out.state, repo, found, "label", login, body="1", label=label)
    out.state.save()


async def issue_label(request: Request) -> Response:
    state, who, repo = enter(request, "issue", write=True)
    found = issue_of(state, repo, request)
    access.need_not_archived(repo)
    access.need_level(state, repo, who, "write")
    wanted = request.path_params["id"]
    if not any(str(one["id"]) == wanted for one in repo["labels"]):
        raise message(422, f"label does not exist [label_id: {wanted}]")
    found["labels"] = [one for one in found["labels"] if str(one) != wanted]
    edits.touch(found)
    state.save()
    events.changed(deliveries_of(request), repo, found, "label_updated", str(who.login))
    return Response(status_code=204)


async def timeline(request: Request) -> Response:
    """Comments and what else happened, by age; in pages only if `page` is given.

    The count is of the page alone, and an empty page is null: both measured with Gitea 1.27.
    """
    state, _, repo = enter(request, "issue")
    found = issue_of(state, repo, request)
    comments = [{**one, "kind": "comment"} for one in state.comments(repo, found["number"])]
    noted = [one for one in state.docs["timeline"] if one["issue"] == found["id"]]
    entries = between(request, sorted([*comments, *noted], key=lambda one: one["id"]))
    shown = [shapes.timeline_entry(state, repo, found, one) for one in entries]
    part = page_of(request, shown) if "page" in request.query_params else shown
    return Json(part or None, headers={"X-Total-Count": str(len(part))})


ROUTES = [
    Route(f"{REPO}/labels", repo_labels, methods=["GET", "POST"]),
    Route(f"{REPO}/issues", issues, methods=["GET", "POST"]),
    Route(f"{REPO}/issues/{{number}}", issue, methods=["GET", "PATCH", "DELETE"]),
    Route(f"{REPO}/issues/{{number}}/labels", issue_labels, methods=["GET", "POST", "PUT", "DELETE"]),
    Route(f"{REPO}/issues/{{number}}/labels/{{id}}", issue_label, methods=["DELETE"]),
    Route(f"{REPO}/issues/{{number}}/timeline", timeline),
]
