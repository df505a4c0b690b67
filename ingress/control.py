"""The operator API under `/api/gitea-workflow` (design section 13)."""

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import Message
from temporalio.client import Client

from domain.errors import CcwebError, ErrorCode
from domain.states import TaskState
from ingress import examples
from ingress.auth import allows
from ingress.openapi import example, problems
from ingress.webhook import read_body
from operations import commands, reads, trail
from operations.commands import Order
from operations.operators import Operator, Role
from operations.records import AuditPage, ControlResult, Overview, TaskDetail, TaskPage
from operations.trail import Filters

PREFIX = "/api/gitea-workflow"
_MAX_BODY = 64 * 1024
C = ErrorCode


class _Bounded(APIRoute):
    """Reads a body before the framework does, which would take any size."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                body = await read_body(request, _MAX_BODY)
            except (ClientDisconnect, TimeoutError):
                raise CcwebError(C.INVALID_REQUEST, "the body did not arrive whole and in time") from None
            if body is None:
                raise CcwebError(C.PAYLOAD_TOO_LARGE, f"more than {_MAX_BODY} bytes")

            async def replay() -> Message:
                return {"type": "http.request", "body": body, "more_body": False}

            try:
                return await inner(Request(request.scope, replay))
            except HTTPException:  # What the framework raises for a body that is no JSON at all.
                raise CcwebError(C.INVALID_REQUEST, "body: is no JSON") from None

        return handle


router = APIRouter(prefix=PREFIX, route_class=_Bounded)
_VIEWER = [Depends(allows(Role.VIEWER))]
Cursor = Annotated[str, Field(description="`nextCursor` of the page before", max_length=2000)]
Moment = Annotated[AwareDatetime, BeforeValidator(datetime.fromisoformat)]  # Else `0.25` would be a moment too.

_SWITCHED = examples.RESULT | {"action": "pause", "tasks": [], "fromState": None}
_STORED = "Stored; takes effect as soon as a worker runs"
_TASK_ID = Path(examples=[examples.TASK_ID])
_REPO_KEY = Path(description="Url-encoded or not", pattern=commands.REPO, examples=["default:acme/widget"])
TaskId = Annotated[str, _TASK_ID]
RepoKey = Annotated[str, _REPO_KEY]


def _about_repo(action: str) -> dict[str, Any]:
    tasks = [examples.TASK_ID] if action == "unblock" else []
    return _SWITCHED | {"action": action, "repoKey": "default:acme/widget", "tasks": tasks}


def _answers(result: dict[str, Any], *codes: ErrorCode) -> dict[int | str, dict[str, Any]]:
    """What a control call may answer."""
    stored = example(result | {"taken": False}, 202, _STORED)
    return {**example(result), **stored, **problems(C.PAYLOAD_TOO_LARGE, *codes)}


def temporal(request: Request) -> Client:
    """The application's client; it connects at its first use."""
    client: Client = request.app.state.temporal
    return client


Temporal = Annotated[Client, Depends(temporal)]


@router.get("/overview", dependencies=_VIEWER, responses=example(examples.OVERVIEW) | problems())
async def overview(client: Temporal) -> Overview:
    """Pause, queues, workers, and what is not as it should be. Needs no worker."""
    return await reads.overview(client)


class TasksQuery(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    repo_key: Annotated[str | None, Field(examples=["default:acme/widget"])] = None
    resource_key: Annotated[str | None, Field(examples=["default:acme/widget:issue:42"])] = None
    state: TaskState | None = None
    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=200, description="Most tasks of one page")] = 50


@router.get("/tasks", dependencies=_VIEWER, responses=example(examples.TASKS) | problems())
async def tasks(client: Temporal, wish: Annotated[TasksQuery, Query()]) -> TaskPage:
    """Tasks that match every given filter, open ones first, newest first. Needs no worker."""
    return await reads.tasks(
        client,
        repo=wish.repo_key,
        resource=wish.resource_key,
        state=wish.state,
        cursor=wish.cursor,
        limit=wish.limit,
    )


@router.get("/tasks/{task_id}", dependencies=_VIEWER, responses=example(examples.TASK) | problems(C.NOT_FOUND))
async def task(task_id: TaskId, client: Temporal) -> TaskDetail:
    """One task in full, also by the taskId of another delivery of its source. Needs no worker."""
    return await trail.task(client, task_id)


class AuditQuery(BaseModel):
    """`since` and `until` are ISO-8601 with an offset."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    task_id: str | None = None
    delivery_id: str | None = None
    resource_key: str | None = None
    repo_key: str | None = None
    thread_id: str | None = None
    turn_id: str | None = None
    comment_id: int | None = None
    actor: str | None = None
    action: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


@router.get("/audit", dependencies=_VIEWER, responses=example(examples.AUDIT) | problems(C.NOT_FOUND))
async def audit(
    request: Request,
    client: Temporal,
    wish: Annotated[AuditQuery, Query()],
) -> AuditPage:
    """Events that match every given filter. Needs no worker; journal and ingress stream are this host's."""
    filters = Filters(**wish.model_dump(exclude={"cursor", "limit"}))
    return await trail.search(client, request.app.state.settings, filters, wish.cursor, wish.limit)


class Call(BaseModel):
    """Why, and the caller's own id of this very call: repeated with it, the call gets its first answer."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        json_schema_extra={"examples": [examples.CALL]},
    )

    request_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{1,100}$")]
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


Steering = Annotated[Operator, Depends(allows(Role.OPERATOR))]
Switching = Annotated[Operator, Depends(allows(Role.ADMIN))]


@router.post(
    "/control/{action}", response_model=ControlResult, responses=_answers(_SWITCHED, C.FORBIDDEN, C.REQUEST_ID_REUSED)
)
async def control(action: Literal["pause", "resume"], call: Call, by: Switching, client: Temporal) -> JSONResponse:
    """Pause: no workspace is granted any more, running turns go on. Resume: grants go on."""
    return _answer(await commands.switch(client, action, _order(call, by)))


@router.post(
    "/repos/{repo_key:path}/disable",
    response_model=ControlResult,
    responses=_answers(_about_repo("disable"), C.FORBIDDEN, C.NOT_FOUND, C.REQUEST_ID_REUSED),
)
async def disable(repo_key: RepoKey, call: Call, by: Switching, client: Temporal) -> JSONResponse:
    """Take nothing from this repository any more; its queue stands still, a running turn goes on."""
    return _answer(await commands.switch(client, "disable", _order(call, by), repo_key))


@router.post(
    "/repos/{repo_key:path}/enable",
    response_model=ControlResult,
    responses=_answers(_about_repo("enable"), C.FORBIDDEN, C.NOT_FOUND, C.ILLEGAL_STATE, C.REQUEST_ID_REUSED),
)
async def enable(repo_key: RepoKey, call: Call, by: Switching, client: Temporal) -> JSONResponse:
    """Take work from this repository again."""
    return _answer(await commands.switch(client, "enable", _order(call, by), repo_key))


@router.post(
    "/repos/{repo_key:path}/unblock",
    response_model=ControlResult,
    responses=_answers(_about_repo("unblock"), C.FORBIDDEN, C.NOT_FOUND, C.ILLEGAL_STATE, C.REQUEST_ID_REUSED),
)
async def unblock(repo_key: RepoKey, call: Call, by: Steering, client: Temporal) -> JSONResponse:
    """Its workspaces are usable: every task in `blocked_workspace` is queued again."""
    return _answer(await commands.unblock_repo(client, repo_key, _order(call, by)))


@router.post(
    "/tasks/{task_id}/{action}",
    response_model=ControlResult,
    responses=_answers(examples.RESULT, C.FORBIDDEN, C.NOT_FOUND, C.ILLEGAL_STATE, C.REQUEST_ID_REUSED),
)
async def steer(
    task_id: TaskId, action: Literal["cancel", "abort", "retry"], call: Call, by: Steering, client: Temporal
) -> JSONResponse:
    """Cancel what does not run, abort what runs, retry now what waits for its next try."""
    return _answer(await commands.steer_task(client, task_id, action, _order(call, by)))


def _order(call: Call, by: Operator) -> Order:
    return Order(call.request_id, " ".join(call.reason.split()), f"admin:{by.name}")


def _answer(result: ControlResult) -> JSONResponse:
    """202 when it is stored but no worker has taken it yet."""
    return JSONResponse(result.shown(), 200 if result.taken else 202)
