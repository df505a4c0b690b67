"""The operator API under `/api/gitea-workflow` (design section 13)."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from temporalio.client import Client

from domain.states import TaskState
from ingress.auth import allows
from operations import reads
from operations.operators import Role
from operations.records import Overview, TaskPage

PREFIX = "/api/gitea-workflow"
router = APIRouter(prefix=PREFIX, tags=["operators"])
_VIEWER = [Depends(allows(Role.VIEWER))]
_Limit = Annotated[int, Query(ge=1, le=200, description="Most tasks of one page")]


def temporal(request: Request) -> Client:
    """The application's client; it connects at its first use."""
    client: Client = request.app.state.temporal
    return client


Temporal = Annotated[Client, Depends(temporal)]


@router.get("/overview", dependencies=_VIEWER)
async def overview(client: Temporal) -> Overview:
    """Pause, queues, workers, and what is not as it should be. Needs no worker."""
    return await reads.overview(client)


@router.get("/tasks", dependencies=_VIEWER)
async def tasks(
    client: Temporal,
    repo_key: Annotated[str | None, Query(alias="repoKey", examples=["default:acme/widget"])] = None,
    resource_key: Annotated[str | None, Query(alias="resourceKey", examples=["default:acme/widget:issue:42"])] = None,
    state: TaskState | None = None,
    cursor: Annotated[str | None, Query(description="`nextCursor` of the page before", max_length=2000)] = None,
    limit: _Limit = 50,
) -> TaskPage:
    """Tasks that match every given filter, open ones first, newest first. Needs no worker."""
    return await reads.tasks(client, repo=repo_key, resource=resource_key, state=state, cursor=cursor, limit=limit)
