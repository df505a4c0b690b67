"""Changes of an issue or a pull request by PATCH, one delivery for each thing that changed."""

from typing import Any

from starlette.responses import Response

from simulators.gitea import events
from simulators.gitea.access import Caller, RefusedError, message
from simulators.gitea.deliveries import Deliveries
from simulators.gitea.state import LEVELS, Doc, State, now


def apply(out: Deliveries, repo: Doc, found: Doc, body: Doc, who: Caller) -> None:
    """Title, text, assignees, state; unknown states are ignored, and assigning needs write permission."""
    login = str(who.login)
    may_write = out.state.level(repo, who.user) >= LEVELS["write"]
    if found["author"] != login and not may_write:
        raise RefusedError(Response(status_code=403))
    for field in ("title", "body"):
        if body.get(field) is not None and body[field] != found[field]:
            _edit(out, repo, found, field, body[field], login)
    wanted = body.get("assignees") or ([body["assignee"]] if body.get("assignee") else body.get("assignees"))
    if wanted is not None and may_write:
        assign(out, repo, found, wanted, login)
    if body.get("state") in {"open", "closed"} and body["state"] != found["state"]:
        set_state(out, repo, found, body["state"], login)
    out.state.save()


def touch(found: Doc) -> None:
    found["updated_at"] = now()


def _edit(out: Deliveries, repo: Doc, found: Doc, field: str, value: str, login: str) -> None:
    was, found[field] = found[field], value
    touch(found)
    if field == "title":
        note(out.state, repo, found, "change_title", login, old_title=was, new_title=value)
    events.changed(out, repo, found, "edited", login, {field: was})


def set_state(out: Deliveries, repo: Doc, found: Doc, wanted: str, login: str, commit: str = "") -> None:
    found |= {"state": wanted, "closed_at": now() if wanted == "closed" else None}
    touch(found)
    note(out.state, repo, found, "close" if wanted == "closed" else "reopen", login)
    events.changed(out, repo, found, "closed" if wanted == "closed" else "reopened", login, commit=commit)


def assign(out: Deliveries, repo: Doc, found: Doc, wanted: list[str], login: str) -> None:
    """One delivery for each who is added or removed; none of them names whom."""
    logins = [_assignable(out.state, repo, one) for one in wanted]
    gone = [one for one in found["assignees"] if one not in logins]
    new = [one for one in logins if one not in found["assignees"]]
    for one in [*gone, *new]:
        removed = one in gone
        found["assignees"] = [known for known in found["assignees"] if known != one] + ([] if removed else [one])
        touch(found)
        note(out.state, repo, found, "assignees", login, assignee=one, removed_assignee=removed)
        events.changed(out, repo, found, "unassigned" if removed else "assigned", login)


def _assignable(state: State, repo: Doc, login: str) -> str:
    user = state.user(login)
    if user is None:
        raise message(422, f"Assignee does not exist: [name: {login}]")
    if state.level(repo, user) < LEVELS["write"]:
        raise message(422, f"user does not have access to the repo [user: {user['login']}]")
    return str(user["login"])


def note(state: State, repo: Doc, found: Doc, kind: str, login: str, **more: Any) -> None:
    """An entry of the timeline; it takes an id from the row of the comments."""
    entry = {
        "id": state.next_id("comment"),
        "issue": found["id"],
        "repository": repo["id"],
        "number": found["number"],
        "kind": kind,
        "author": login,
        "body": "",
        "created_at": now(),
        "updated_at": now(),
    }
    state.docs["timeline"].append(entry | more)
