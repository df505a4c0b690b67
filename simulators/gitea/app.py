"""The simulated Gitea: REST, git over HTTP, webhooks, and `/_sim/` to seed it and to break it."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from simulators.gitea import (
    access,
    branches,
    comments,
    contents,
    git_http,
    hooks,
    issues,
    merges,
    people,
    pulls,
    repos,
    reviews,
    web,
)
from simulators.gitea.deliveries import Deliveries
from simulators.gitea.state import Doc, State

_LONGEST_HANG = 600.0
# Comments before issues: the first route that fits is taken.
_PARTS = (people, repos, hooks, branches, contents, comments, issues, pulls, merges, reviews, git_http, web)


class Faults:
    """Middleware: logs each request, and plays the faults that tests ask for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/_sim/"):
            await self._app(scope, receive, send)
            return
        control: Control = scope["app"].state.control
        entry: Doc = {"method": scope["method"], "path": scope["path"], "status": None}
        control.requests.append(entry)
        fault = control.take(scope["method"], scope["path"])
        if fault is not None and fault["mode"] == "hold":
            await control.hold(fault)
            fault = None
        if fault is None:
            await self._app(scope, receive, _noting(entry, send))
        else:
            await self._play(fault, scope, receive, send)

    async def _play(self, fault: Doc, scope: Scope, receive: Receive, send: Send) -> None:
        match fault["mode"]:
            case "drop_after_commit":
                await self._app(scope, receive, _nowhere)
                await _lose_answer(send)
            case "hold_answer":
                await self._app(scope, receive, _nowhere)
                await scope["app"].state.control.hold(fault)
                await _lose_answer(send)
            case "hang":
                await asyncio.sleep(_LONGEST_HANG)
            case "html403":
                await HTMLResponse("<html>Forbidden</html>", 403)(scope, receive, send)
            case _:
                await JSONResponse({"message": ""}, fault.get("status", 500))(scope, receive, send)


def _noting(entry: Doc, send: Send) -> Send:
    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start":
            entry["status"] = message["status"]
        await send(message)

    return noting


async def _nowhere(_: Message) -> None:
    return None


async def _lose_answer(send: Send) -> None:
    """The connection breaks in mid-answer; before its first byte the server would say 500 instead."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]})
    raise ConnectionResetError("the answer is dropped on purpose")


class Control:
    """What tests asked for."""

    def __init__(self) -> None:
        self.faults: list[Doc] = []
        self.requests: list[Doc] = []
        self._released = asyncio.Event()

    def take(self, method: str, path: str) -> Doc | None:
        """The fault for a request; one with `skip` lets so many pass first."""
        for fault in self.faults:
            if fault["times"] > 0 and fault["method"] in {method, "*"} and re.fullmatch(fault["path"], path):
                fault["skip"] -= 1
                if fault["skip"] >= 0:
                    return None
                fault["times"] -= 1
                return fault
        return None

    async def hold(self, fault: Doc) -> None:
        """Until the faults are cleared."""
        fault["held"] += 1
        await self._released.wait()

    def clear(self) -> None:
        self.faults.clear()
        self._released.set()
        self._released = asyncio.Event()


def create_app(state: State) -> Starlette:
    deliveries = Deliveries(state)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        sending = asyncio.create_task(deliveries.run())
        yield
        sending.cancel()

    app = Starlette(
        routes=[*_CONTROL, *(route for part in _PARTS for route in part.ROUTES)],
        lifespan=lifespan,
        exception_handlers={access.RefusedError: access.refusal, 404: access.not_found},
    )
    app.add_middleware(Faults)
    app.state.gitea = state
    app.state.deliveries = deliveries
    app.state.control = Control()
    return app


async def _seed(request: Request) -> Response:
    state: State = request.app.state.gitea
    body = await request.json()
    for user in body.get("users", []):
        state.seed_user(user)
    for repository in body.get("repositories", []):
        state.seed_repository(repository)
    state.save()
    return JSONResponse({"repositories": {one["full_name"]: one["id"] for one in state.docs["repositories"]}})


async def _list_deliveries(request: Request) -> Response:
    return JSONResponse(list(request.app.state.deliveries.all.values()))


async def _redeliver(request: Request) -> Response:
    found = request.app.state.deliveries.again((await request.json())["id"])
    return Response(status_code=204 if found else 404)


async def _faults(request: Request) -> Response:
    control: Control = request.app.state.control
    if request.method == "DELETE":
        control.clear()
    elif request.method == "POST":
        control.faults.append({"times": 1, "skip": 0, "held": 0, **await request.json()})
    return JSONResponse(control.faults)


async def _list_requests(request: Request) -> Response:
    return JSONResponse(request.app.state.control.requests)


def _changing(change: Callable[[State, Doc, Doc], None]) -> Callable[[Request], Awaitable[Response]]:
    """A control call that changes the repository named `repo` ("owner/name")."""

    async def handler(request: Request) -> Response:
        state: State = request.app.state.gitea
        body = await request.json()
        repo = state.repository(*body["repo"].split("/"))
        if repo is None:
            return Response(status_code=404)
        change(state, repo, body)
        state.save()
        return JSONResponse({})

    return handler


def _archive(_: State, repo: Doc, body: Doc) -> None:
    repo["archived"] = body.get("archived", True)


def _rename(state: State, repo: Doc, body: Doc) -> None:
    state.rename(repo, repo["owner"], body["name"])


def _protect(state: State, repo: Doc, body: Doc) -> None:
    repo["rules"].append({"name": body["branch"], "shown": branches.rule({}, body["branch"])})
    branches.protect(state, repo)


def _lock(state: State, repo: Doc, body: Doc) -> None:
    issue = state.issue(repo, body["number"])
    if issue is not None:
        issue["is_locked"] = body.get("locked", True)


_CONTROL = [
    Route("/_sim/seed", _seed, methods=["POST"]),
    Route("/_sim/deliveries", _list_deliveries),
    Route("/_sim/redeliver", _redeliver, methods=["POST"]),
    Route("/_sim/faults", _faults, methods=["GET", "POST", "DELETE"]),
    Route("/_sim/requests", _list_requests),
    Route("/_sim/archive", _changing(_archive), methods=["POST"]),
    Route("/_sim/rename", _changing(_rename), methods=["POST"]),
    Route("/_sim/lock", _changing(_lock), methods=["POST"]),
    Route("/_sim/protect", _changing(_protect), methods=["POST"]),
]
