"""Git over HTTP by `git upload-pack` and `git receive-pack`, with Gitea's refusals."""

import asyncio
import gzip
import subprocess
from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from simulators.gitea import access, pushes
from simulators.gitea.access import Caller, RefusedError
from simulators.gitea.git_data import environment, refs
from simulators.gitea.state import LEVELS, Doc, State

_SERVICES = frozenset({"git-upload-pack", "git-receive-pack"})


def _authorize(request: Request, *, write: bool) -> tuple[State, Doc, Caller]:
    state: State = request.app.state.gitea
    try:
        who = access.caller(state, request)
    except RefusedError:
        raise RefusedError(_challenge()) from None
    owner, name = request.path_params["owner"], request.path_params["repo"].removesuffix(".git")
    repo = state.repository(owner, name)
    if repo is None and (moved := state.renamed(owner, name)):
        rest = request.url.path.split("/", 3)[3]
        raise RefusedError(RedirectResponse(f"/{moved['full_name']}/{rest}?{request.url.query}", 307))
    if repo is None or state.level(repo, who.user) == 0:
        raise RefusedError(_challenge() if who.user is None else _told("Repository not found\n", 404))
    if write and who.user is None:
        raise RefusedError(_challenge())
    scopes = set(who.scopes)
    if write and (repo["archived"] or not scopes & {"all", "write:repository"}):
        raise RefusedError(_told("Forbidden\n", 403))
    if not write and repo["private"] and not scopes & {"all", "write:repository", "read:repository"}:
        raise RefusedError(_told("Forbidden\n", 403))
    return state, repo, who


def _challenge() -> Response:
    answer = _told("Verify\n", 401)
    answer.headers["WWW-Authenticate"] = 'Basic realm="Gitea"'
    return answer


def _told(words: str, status: int) -> Response:
    """Git shows the words of plain text after "remote:"."""
    return Response(words, status, media_type="text/plain")


async def info_refs(request: Request) -> Response:
    service = request.query_params.get("service", "")
    if service not in _SERVICES:
        raise RefusedError(_told("dumb protocol is off\n", 403))
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
    if service == "git-upload-pack":
        out = await _serve(git_dir, service, data, request)
    else:
        may_write = state.level(repo, who.user) >= LEVELS["write"]
        before = refs(git_dir)
        out = await _serve(git_dir, service, data, request, reader="" if may_write else "1")
        pushes.after(request.app.state.deliveries, repo, before, str(who.login))
    return Response(out, media_type=f"application/x-{service}-result")


async def _serve(git_dir: Path, service: str, data: bytes, request: Request, *flags: str, reader: str = "") -> bytes:
    command = ["git", service.removeprefix("git-"), "--stateless-rpc", *flags, str(git_dir)]
    env = environment(git_dir, request.headers.get("git-protocol", "")) | {"GITEA_READER": reader}

    def run() -> bytes:
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            command, env=env, input=data, capture_output=True, check=False
        )
        return done.stdout

    # Not asyncio's: there git may be gone before its (empty) input is written, which is an error with uvloop.
    return await asyncio.to_thread(run)


ROUTES = [
    Route("/{owner}/{repo}/info/refs", info_refs),
    Route("/{owner}/{repo}/{service:str}", service_rpc, methods=["POST"]),
]
