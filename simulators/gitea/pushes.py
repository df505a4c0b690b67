"""What a change of branches and tags brings about, however it came: deliveries, and the heads of pull requests."""

from simulators.gitea import events, git_data
from simulators.gitea.deliveries import Deliveries
from simulators.gitea.state import Doc, State

Refs = dict[str, str]


def after(out: Deliveries, repo: Doc, before: Refs, login: str) -> None:
    """Compares with the refs from before and tells what changed."""
    now = git_data.refs(out.state.git_dir(repo))
    for ref in sorted({*before, *now}):
        if before.get(ref) != now.get(ref):
            _changed(out, repo, ref, before.get(ref, events.NOTHING), now.get(ref, events.NOTHING), login)
    out.state.save()


def _changed(out: Deliveries, repo: Doc, ref: str, was: str, now: str, login: str) -> None:
    if now == events.NOTHING:
        events.deleted(out, repo, ref, login)
        return
    if was == events.NOTHING:
        events.created(out, repo, ref, now, login)
    events.push(out, repo, ref, was, now, login)
    _update_pulls(out, repo, ref, login)


def _update_pulls(out: Deliveries, source: Doc, ref: str, login: str) -> None:
    """Open pull requests from this branch, in this repository or in the one it was forked from."""
    for repo in out.state.docs["repositories"]:
        for one in repo["issues"]:
            if one["pull"] and one["state"] == "open" and _comes_from(one, source, ref):
                _follow(out.state, repo, one, source, ref)
                events.pull(out, repo, one, "synchronized", login)


def _comes_from(one: Doc, source: Doc, ref: str) -> bool:
    return bool(one["pull"]["head_repo"] == source["id"] and ref == f"refs/heads/{one['pull']['head']}")


def _follow(state: State, repo: Doc, one: Doc, source: Doc, ref: str) -> None:
    where = f"+{ref}:refs/pull/{one['number']}/head"
    git_data.git(state.git_dir(repo), "fetch", "--quiet", str(state.git_dir(source)), where)
