"""Merging pull requests, with Gitea's many refusals in its order."""

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.gitea import access, edits, git_data, pushes, shapes_pulls
from simulators.gitea.access import Caller, message
from simulators.gitea.calls import REPO, deliveries_of, enter, not_found, pull_of
from simulators.gitea.state import LEVELS, Doc, State, now

_STYLES = frozenset({"merge", "rebase", "rebase-merge", "squash", "fast-forward-only", "manually-merged"})
_CLOSES = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):? #(\d+)", re.IGNORECASE)


async def merge(request: Request) -> Response:
    """GET: 204 if it is merged. POST merges: 200 with an empty body."""
    state, who, repo = enter(request, "repository", write=request.method == "POST")
    found = pull_of(state, repo, request)
    if request.method == "GET":
        if found["pull"]["merged_at"]:
            return Response(status_code=204)
        raise not_found()
    access.need_not_archived(repo)
    body = await access.body_of(request)
    if body.get("Do") not in _STYLES:
        raise message(422, "[Do]: In" if body.get("Do") else "[Do]: Required")
    _check(state, repo, found, who, body)
    _merge(request, state, repo, found, body, str(who.login))
    return Response(status_code=200)


def _check(state: State, repo: Doc, found: Doc, who: Caller, body: Doc) -> None:
    if found["state"] == "closed":
        raise message(405, "")
    if state.level(repo, who.user) < LEVELS["write"]:
        raise message(405, "User not allowed to merge PR")
    if shapes_pulls.is_draft(found):
        raise message(405, "Work in progress PRs cannot be merged")
    if not shapes_pulls.mergeable(state, repo, found):
        raise message(405, "Please try again later")
    _check_rule(state, repo, found)
    wanted = body.get("head_commit_id")
    if wanted and wanted != shapes_pulls.head_sha(state, repo, found):
        raise message(409, "head out of date")


def _check_rule(state: State, repo: Doc, found: Doc) -> None:
    rule = next((one["shown"] for one in repo["rules"] if one["name"] == found["pull"]["base"]), None)
    if rule is None:
        return
    head = shapes_pulls.head_sha(state, repo, found)
    passed = {one["context"] for one in state.docs["statuses"] if one["sha"] == head and one["state"] == "success"}
    if rule["enable_status_check"] and not set(rule["status_check_contexts"]) <= passed:
        raise message(405, "not allowed to merge [reason: Not all required status checks successful]")
    approvals = [one for one in shapes_pulls.submitted(state, repo, found) if one["state"] == "APPROVED"]
    if len([one for one in approvals if one["official"]]) < rule["required_approvals"]:
        raise message(405, "not allowed to merge [reason: Does not have enough approvals]")


def _merge(request: Request, state: State, repo: Doc, found: Doc, body: Doc, login: str) -> None:
    """Deliveries: the push, the pull request, the issues its text closes."""
    out, git_dir, pull = deliveries_of(request), state.git_dir(repo), found["pull"]
    pull["merge_base"] = shapes_pulls.merge_base(state, repo, found)
    before = git_data.refs(git_dir)
    commit = git_data.merge(
        git_dir, pull["base"], shapes_pulls.head_sha(state, repo, found), _text(found, body), login
    )
    pull |= {"merged_at": now(), "merged_by": login, "merge_commit": commit}
    found |= {"state": "closed"}  # no longer open when the push looks for pull requests to follow
    pushes.after(out, repo, before, login)
    edits.set_state(out, repo, found, "closed", login)
    if body.get("delete_branch_after_merge") and pull["head_repo"] == repo["id"]:
        before = git_data.refs(git_dir)
        git_data.git(git_dir, "update-ref", "-d", f"refs/heads/{pull['head']}")
        pushes.after(out, repo, before, login)
    for number in _CLOSES.findall(found["body"]):
        issue = state.issue(repo, int(number))
        if issue is not None and not issue["pull"] and issue["state"] == "open":
            edits.set_state(out, repo, issue, "closed", login, commit)
    state.save()


def _text(found: Doc, body: Doc) -> str:
    pull = found["pull"]
    usual = f"Merge pull request '{found['title']}' (#{found['number']}) from {pull['head']} into {pull['base']}"
    if body["Do"] == "squash":
        usual = f"{found['title']} (#{found['number']})"
    return "\n\n".join(part for part in (body.get("MergeTitleField") or usual, body.get("MergeMessageField")) if part)


ROUTES = [Route(f"{REPO}/pulls/{{number}}/merge", merge, methods=["GET", "POST"])]
