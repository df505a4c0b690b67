"""Git over HTTP by `git upload-pack` and `git receive-pack`, with Gitea's refusals."""

import asyncio
import gzip
import os
import subprocess
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.gitea import access
from simulators.gitea.access import Caller, RefusedError
from simulators.gitea.state import LEVELS, Doc, State

_SERVICES = frozenset({"git-upload-pack", "git-receive-pack"})
_PROTECTED_HOOK = """#!/bin/sh
while read -r _ _ ref; do
    case "$ref" in {refs})
        echo "Gitea: Not allowed to push to protected branch ${{ref#refs/heads/}}" >&2
        exit 1 ;;
    esac
done
"""


def git(git_dir: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], env=_environment(git_dir), capture_output=True, check=True)
    return done.stdout.decode()


def branches(git_dir: Path) -> dict[str, str]:
    out = git(git_dir, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads")
    return dict(line.split(" ", 1) for line in out.splitlines())


def protect(git_dir: Path, names: list[str]) -> None:
    hook = git_dir / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(_PROTECTED_HOOK.format(refs="|".join(f"refs/heads/{name}" for name in names)), encoding="utf-8")
    hook.chmod(0o755)


def _environment(git_dir: Path, protocol: str = "") -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_DIR": str(git_dir),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_PROTOCOL": protocol,
    }


def _authorize(request: Request, *, write: bool) -> tuple[State, Doc, Caller]:
    state: State = request.app.state.gitea
    try:
        who = access.caller(state, request)
    except RefusedError:
        raise RefusedError(_challenge()) from None
    repo = state.repository(request.path_params["owner"], request.path_params["repo"].removesuffix(".git"))
    if repo is None or state.level(repo, who.user) == 0:
        raise RefusedError(_challenge() if who.user is None else Response("not found\n", 404))
    if write and who.user is None:
        raise RefusedError(_challenge())
    scopes = set(who.scopes)
    if write and (repo["archived"] or not scopes & {"all", "write:repository"}):
        raise RefusedError(Response("forbidden\n", 403))
    if not write and repo["private"] and not scopes & {"all", "write:repository", "read:repository"}:
        raise RefusedError(Response("forbidden\n", 403))
    return state, repo, who


def _challenge() -> Response:
    return Response("Unauthorized\n", 401, {"WWW-Authenticate": 'Basic realm="Gitea"'})


async def info_refs(request: Request) -> Response:
    service = request.query_params.get("service", "")
    if service not in _SERVICES:
        raise RefusedError(Response("dumb protocol is off\n", 403))
    state, repo, _ = _authorize(request, write=service == "git-receive-pack")
    out = await _serve(state.git_dir(repo), service, b"", request, "--advertise-refs")
    line = f"# service={service}\n".encode()
    content = f"{len(line) + 4:04x}".encode() + line + b"0000" + out
    return Response(content, media_type=f"application/x-{service}-advertisement")


async def service_rpc(request: Request) -> Response:
    service = request.path_params["service"]
    state, repo, who = _authorize(request, write=service == "git-receive-pack")
    data = await request.body()
    if request.headers.get("content-encoding") == "gzip":
        data = gzip.decompress(data)
    git_dir = state.git_dir(repo)
    if service == "git-receive-pack" and state.level(repo, who.user) < LEVELS["write"]:
        raise RefusedError(Response("User permission denied for writing.\n", 403))
    before = branches(git_dir)
    out = await _serve(git_dir, service, data, request)
    if service == "git-receive-pack":
        _after_push(request, repo, before, str(who.login))
    return Response(out, media_type=f"application/x-{service}-result")


async def _serve(git_dir: Path, service: str, data: bytes, request: Request, *flags: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        "git",
        service.removeprefix("git-"),
        "--stateless-rpc",
        *flags,
        str(git_dir),
        env=_environment(git_dir, request.headers.get("git-protocol", "")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await process.communicate(data)
    return out


def _after_push(request: Request, repo: Doc, before: dict[str, str], login: str) -> None:
    state: State = request.app.state.gitea
    after = branches(state.git_dir(repo))
    for name, sha in after.items():
        if before.get(name) != sha:
            request.app.state.deliveries.push(repo, f"refs/heads/{name}", before.get(name, "0" * 40), sha, login)
    for one in repo["issues"]:
        if one["pull"] and one["state"] == "open" and one["pull"]["head"] in after:
            ref = f"refs/pull/{one['number']}/head"
            git(state.git_dir(repo), "update-ref", ref, after[one["pull"]["head"]])
    state.save()


ROUTES = [
    Route("/{owner}/{repo}/info/refs", info_refs),
    Route("/{owner}/{repo}/{service:str}", service_rpc, methods=["POST"]),
]
