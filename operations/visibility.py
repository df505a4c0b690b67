"""Temporal's lists and descriptions, as they are without any worker (design section 13).

By the raw calls: the SDK's own `list_workflows` and `describe` fail on states that it does not know (paused).
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.api.common.v1 import Payload, SearchAttributes, WorkflowExecution
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    CountWorkflowExecutionsRequest,
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    ListWorkflowExecutionsRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from domain.errors import CcwebError, ErrorCode

DEADLINE = 10.0
"""Seconds for everything that one call of an operator asks of Temporal."""
_RPC = timedelta(seconds=5)
_STATUS = "WORKFLOW_EXECUTION_STATUS_"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a workflow; `attributes` and `memo` are decoded."""

    workflow_id: str
    run_id: str
    workflow_type: str
    status: str
    started_at: datetime
    closed_at: datetime | None
    attributes: dict[str, Any]
    memo: dict[str, Any]

    @property
    def is_open(self) -> bool:
        """Also true of a run that somebody paused with Temporal's own command."""
        return self.status in {"running", "paused"}


@asynccontextmanager
async def asking(seconds: float = DEADLINE) -> AsyncIterator[None]:
    """One limit for what is asked of Temporal inside.

    Raises:
        CcwebError: `temporal_unavailable`, it did not answer in time or refused; may be retried.
            `invalid_request`, it did not understand the question.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise CcwebError(ErrorCode.TEMPORAL_UNAVAILABLE, f"no answer within {seconds:g} s") from None
    except RPCError as error:
        refused = error.status is RPCStatusCode.INVALID_ARGUMENT
        code = ErrorCode.INVALID_REQUEST if refused else ErrorCode.TEMPORAL_UNAVAILABLE
        raise CcwebError(code, f"{error.status.name}: {error.message}"[:200]) from None
    except RuntimeError as error:  # What the SDK raises when it cannot connect at all.
        raise CcwebError(ErrorCode.TEMPORAL_UNAVAILABLE, str(error)[:200]) from None


async def page(client: Client, query: str, size: int, token: bytes = b"") -> tuple[list[Run], bytes]:
    """Some runs, open ones before closed ones, newest first; and the token of the rest, empty at the end."""
    request = ListWorkflowExecutionsRequest(
        namespace=client.namespace, page_size=size, query=query, next_page_token=token
    )
    found = await client.workflow_service.list_workflow_executions(request, retry=True, timeout=_RPC)
    return [_run(info) for info in found.executions], found.next_page_token


async def runs(client: Client, query: str, limit: int) -> list[Run]:
    """At most `limit` runs."""
    found: list[Run] = []
    token = b""
    while len(found) < limit:
        more, token = await page(client, query, min(limit - len(found), 500), token)
        found += more
        if not token:
            break
    return found


async def count(client: Client, query: str) -> int:
    request = CountWorkflowExecutionsRequest(namespace=client.namespace, query=query)
    return (await client.workflow_service.count_workflow_executions(request, retry=True, timeout=_RPC)).count


async def described(client: Client, workflow_id: str) -> DescribeWorkflowExecutionResponse | None:
    """The newest run in full; None when there is no such workflow."""
    request = DescribeWorkflowExecutionRequest(
        namespace=client.namespace, execution=WorkflowExecution(workflow_id=workflow_id)
    )
    try:
        return await client.workflow_service.describe_workflow_execution(request, retry=True, timeout=_RPC)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


async def newest(client: Client, workflow_id: str) -> Run | None:
    """The newest run of a workflow, which lists may not show yet."""
    found = await described(client, workflow_id)
    return _run(found.workflow_execution_info) if found else None


def quoted(text: str) -> str:
    """A value of a query; nothing in it can end it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _run(info: WorkflowExecutionInfo) -> Run:
    return Run(
        workflow_id=info.execution.workflow_id,
        run_id=info.execution.run_id,
        workflow_type=info.type.name,
        status=WorkflowExecutionStatus.Name(info.status).removeprefix(_STATUS).lower(),
        started_at=info.start_time.ToDatetime(tzinfo=UTC),
        closed_at=info.close_time.ToDatetime(tzinfo=UTC) if info.HasField("close_time") else None,
        attributes=_decoded(info.search_attributes),
        memo={name: value_of(payload) for name, payload in info.memo.fields.items()},
    )


def _decoded(attributes: SearchAttributes) -> dict[str, Any]:
    return {name: value_of(payload) for name, payload in attributes.indexed_fields.items()}


def value_of(payload: Payload) -> Any:
    """A JSON payload's value; None for any other."""
    try:
        return json.loads(payload.data)
    except ValueError:
        return None
