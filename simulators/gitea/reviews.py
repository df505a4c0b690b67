"""Reviews of pull requests and their inline comments."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.gitea import access, events, git_data, shapes, shapes_pulls
from simulators.gitea.access import Json, message
from simulators.gitea.calls import REPO, deliveries_of, enter, not_found, paged, pull_of
from simulators.gitea.state import LEVELS, Doc, State, now

_VERDICTS = frozenset({"APPROVED", "REQUEST_CHANGES", "COMMENT"})
_ONE = f"{REPO}/pulls/{{number}}/reviews"


async def reviews(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method == "POST")
    pull = pull_of(state, repo, request)
    if request.method == "POST":
        return await _create(request, state, repo, pull)
    found = [one for one in shapes_pulls.reviews(state, repo, pull) if _visible(one, who.login)]
    return paged(request, [shapes_pulls.review(state, repo, pull, one) for one in found])


def _visible(review: Doc, login: str | None) -> bool:
    """A pending review is its author's alone."""
    return bool(review["state"] != "PENDING" or review["author"] == login)


async def _create(request: Request, state: State, repo: Doc, pull: Doc) -> Response:
    access.need_not_archived(repo)
    login = str(access.caller(state, request).login)
    body = await access.body_of(request)
    event, remarks = body.get("event", ""), body.get("comments") or []
    _check(pull, login, event, body.get("body", ""), bool(remarks))
    mine = _pending(state, repo, pull, login)
    if event in _VERDICTS and pull["state"] == "closed":
        raise message(422, "can't submit review for a closed or merged PR")
    commit = body.get("commit_id") or shapes_pulls.head_sha(state, repo, pull)
    review = mine or _add(state, repo, pull, login, commit)
    for remark in remarks:
        _add_inline(state, repo, pull, review, remark)
    _finish(request, state, repo, pull, review, event, body.get("body", ""))
    return Json(shapes_pulls.review(state, repo, pull, review))


def _check(pull: Doc, login: str, event: str, text: str, remarks: bool) -> None:
    if event in {"APPROVED", "REQUEST_CHANGES"} and pull["author"] == login:
        word = "approve" if event == "APPROVED" else "reject"
        raise message(422, f"{word} your own pull is not allowed")
    if event == "APPROVED" or text.strip():
        return
    if event == "COMMENT":
        if not remarks:
            raise message(422, "review event COMMENT requires a body or a comment")
        return
    raise message(422, f"review event {event} requires a body")


def _pending(state: State, repo: Doc, pull: Doc, login: str) -> Doc | None:
    found = shapes_pulls.reviews(state, repo, pull)
    return next((one for one in found if one["state"] == "PENDING" and one["author"] == login), None)


def _add(state: State, repo: Doc, pull: Doc, login: str, commit: str, kind: str = "PENDING") -> Doc:
    review = {
        "id": state.next_id("review"),
        "repository": repo["id"],
        "number": pull["number"],
        "author": login,
        "state": kind,
        "body": "",
        "commit": commit,
        "official": False,
        "dismissed": False,
        "comment_id": None,
        "created_at": now(),
        "updated_at": now(),
    }
    state.docs["reviews"].append(review)
    return review


def _add_inline(state: State, repo: Doc, pull: Doc, review: Doc, remark: Doc) -> None:
    line = -remark["old_position"] if remark.get("old_position") else remark.get("new_position", 0)
    git_dir, path = state.git_dir(repo), remark.get("path", "")
    base, head = shapes_pulls.merge_base(state, repo, pull), shapes_pulls.head_sha(state, repo, pull)
    state.docs["inline_comments"].append(
        {
            "id": state.next_id("comment"),
            "review": review["id"],
            "repository": repo["id"],
            "author": review["author"],
            "body": remark.get("body", ""),
            "path": path,
            "line": line,
            "hunk": git_data.hunk_around(git_dir, base, head, path, line),
            "commit": git_data.blamed(git_dir, head, path, line) if line > 0 else head,
            "created_at": now(),
            "updated_at": now(),
        }
    )


def _finish(request: Request, state: State, repo: Doc, pull: Doc, review: Doc, event: str, text: str) -> None:
    """Gives a review its verdict and tells of it; without one it stays pending and nobody hears."""
    review |= {"body": text, "updated_at": now()}
    if event in _VERDICTS:
        if event != "COMMENT":
            _supersede(state, repo, pull, review)
        official = event != "COMMENT" and shapes_pulls.is_official(state, repo, review["author"])
        review |= {"state": event, "official": official, "comment_id": state.next_id("comment")}
        pull["updated_at"] = now()
        events.review(deliveries_of(request), repo, pull, review)
    state.save()


def _supersede(state: State, repo: Doc, pull: Doc, review: Doc) -> None:
    """A new verdict dismisses the earlier ones of its author."""
    for one in shapes_pulls.submitted(state, repo, pull):
        if one["author"] == review["author"] and one["state"] != "COMMENT":
            one |= {"dismissed": True, "official": False}


def _review_of(state: State, repo: Doc, pull: Doc, request: Request, login: str | None) -> Doc:
    wanted = request.path_params["id"]
    for one in shapes_pulls.reviews(state, repo, pull):
        if str(one["id"]) == wanted and _visible(one, login):
            return one
    raise not_found()


async def review(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=request.method != "GET")
    pull = pull_of(state, repo, request)
    found = _review_of(state, repo, pull, request, who.login)
    if request.method == "DELETE":
        if found["author"] != who.login:
            raise access.RefusedError(Response(status_code=403))
        state.docs["reviews"].remove(found)
        state.save()
        return Response(status_code=204)
    if request.method == "POST":
        body = await access.body_of(request)
        _submit(request, state, repo, pull, found, body)
    return Json(shapes_pulls.review(state, repo, pull, found))


def _submit(request: Request, state: State, repo: Doc, pull: Doc, found: Doc, body: Doc) -> None:
    event, text = body.get("event", ""), body.get("body", "")
    if found["state"] != "PENDING":
        raise message(422, "only a pending review can be submitted")
    _check(pull, found["author"], event, text, bool(shapes_pulls.inline_comments(state, found)))
    if event not in _VERDICTS:
        raise message(422, "review stay pending")
    _finish(request, state, repo, pull, found, event, text)


async def review_comments(request: Request) -> Response:
    """All at once, and without a count."""
    state, who, repo = enter(request, "repository")
    pull = pull_of(state, repo, request)
    found = shapes_pulls.inline_comments(state, _review_of(state, repo, pull, request, who.login))
    return Json([shapes_pulls.inline_comment(state, repo, pull, one) for one in found])


async def dismissals(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=True)
    pull = pull_of(state, repo, request)
    if state.level(repo, who.user) < LEVELS["admin"]:
        raise message(403, "Must be repo admin")
    found = _review_of(state, repo, pull, request, who.login)
    if found["state"] not in {"APPROVED", "REQUEST_CHANGES"}:
        raise message(403, "not need to dismiss this review because it's type is not Approve or change request")
    found |= {"dismissed": request.url.path.endswith("/dismissals"), "updated_at": now()}
    state.save()
    return Json(shapes_pulls.review(state, repo, pull, found))


async def requested_reviewers(request: Request) -> Response:
    state, who, repo = enter(request, "repository", write=True)
    pull = pull_of(state, repo, request)
    access.need_level(state, repo, who, "read")
    logins = [_known(state, login) for login in (await access.body_of(request)).get("reviewers", [])]
    if request.method == "DELETE":
        _withdraw(state, repo, pull, logins)
        return Response(status_code=204)
    made: list[Any] = []
    for login in logins:
        asked = _add(state, repo, pull, login, "", "REQUEST_REVIEW")
        asked["official"] = shapes_pulls.is_official(state, repo, login)
        made.append(asked)
        events.pull(deliveries_of(request), repo, pull, "review_requested", str(who.login), reviewer=login)
    state.save()
    return Json([shapes_pulls.review(state, repo, pull, one) for one in made], 201)


def _known(state: State, login: str) -> str:
    found = state.user(login)
    if found is None:
        raise not_found(f"user does not exist [uid: 0, name: {login}]")
    return str(found["login"])


def _withdraw(state: State, repo: Doc, pull: Doc, logins: list[str]) -> None:
    for one in shapes_pulls.reviews(state, repo, pull):
        if one["state"] == "REQUEST_REVIEW" and one["author"] in logins:
            state.docs["reviews"].remove(one)
    state.save()


async def reviewers(request: Request) -> Response:
    state, _, repo = enter(request, "repository")
    return Json([shapes.user(state, login) for login in state.writers(repo)])


ROUTES = [
    Route(f"{REPO}/reviewers", reviewers),
    Route(f"{REPO}/pulls/{{number}}/requested_reviewers", requested_reviewers, methods=["POST", "DELETE"]),
    Route(_ONE, reviews, methods=["GET", "POST"]),
    Route(f"{_ONE}/{{id}}", review, methods=["GET", "POST", "DELETE"]),
    Route(f"{_ONE}/{{id}}/comments", review_comments),
    Route(f"{_ONE}/{{id}}/dismissals", dismissals, methods=["POST"]),
    Route(f"{_ONE}/{{id}}/undismissals", dismissals, methods=["POST"]),
]
