"""`ccweb doctor`: Temporal. The namespace, what it must know, who works, and what is stuck."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    GetSystemInfoRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from domain import ids, search_attributes
from domain.errors import CcwebError
from operations import reads, visibility
from operations.findings import Finding, fail, ok, warn
from operations.records import Overview, QueuePollers
from settings import Settings

AREA = "temporal"
_RPC = timedelta(seconds=5)
_LEAST_RETENTION = timedelta(days=3)
_KINDS = {
    IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD: "Keyword",
    IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST: "KeywordList",
    IndexedValueType.INDEXED_VALUE_TYPE_DOUBLE: "Double",
}


async def examine(client: Client, settings: Settings) -> list[Finding]:
    """What cannot be asked ends the list."""
    findings: list[Finding] = []
    try:
        async with visibility.asking():
            findings.append(await server(client))
            namespace = await _namespace(client)
            if namespace is None:
                return [*findings, _no_namespace(client)]
            findings += [retention(namespace), *await attributes(client)]
            if all(finding.verdict != "fail" for finding in findings):
                findings += await work(client, settings)
    except CcwebError as error:
        fix = "start Temporal, or set TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE (or temporal.toml)"
        findings.append(fail(AREA, "server", error.detail, fix))
    return findings


async def server(client: Client) -> Finding:
    info = await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=_RPC)
    address = client.service_client.config.target_host
    return ok(AREA, "server", f"{address} answers, version {info.server_version}")


async def _namespace(client: Client) -> DescribeNamespaceResponse | None:
    try:
        return await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace), timeout=_RPC
        )
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


def _no_namespace(client: Client) -> Finding:
    fix = f"temporal operator namespace create --namespace {client.namespace} --retention 720h"
    return fail(AREA, "namespace", f"{client.namespace!r} does not exist", fix)


def retention(namespace: DescribeNamespaceResponse) -> Finding:
    """How long closed workflows last: audit, and that no source ever makes two tasks."""
    kept = namespace.config.workflow_execution_retention_ttl.ToTimedelta()
    name, told = namespace.namespace_info.name, f"closed workflows are kept {kept}"
    if kept < _LEAST_RETENTION:
        fix = f"temporal operator namespace update --namespace {name} --retention 720h (fine as it is for a trial)"
        return warn(AREA, "retention", told, fix)
    return ok(AREA, "retention", told)


async def attributes(client: Client) -> list[Finding]:
    """Without them every workflow task fails."""
    request = ListSearchAttributesRequest(namespace=client.namespace)
    found = await client.operator_service.list_search_attributes(request, timeout=_RPC)
    known = {name: _KINDS.get(kind, "?") for name, kind in found.custom_attributes.items()}
    wrong = list(_wrong_attributes(known))
    return wrong or [ok(AREA, "search attributes", f"all {len(search_attributes.TYPES)} are registered")]


def _wrong_attributes(known: dict[str, str]) -> Iterator[Finding]:
    for name, kind in search_attributes.TYPES.items():
        if name not in known:
            fix = f"temporal operator search-attribute create --name {name} --type {kind}"
            yield fail(AREA, "search attributes", f"{name} is not registered", fix)
        elif known[name] != kind:
            fix = "remove it with temporal operator search-attribute remove, then create it anew"
            yield fail(AREA, "search attributes", f"{name} is {known[name]}, must be {kind}", fix)


async def work(client: Client, settings: Settings) -> list[Finding]:
    """Who polls, what is paused, what is wedged, and whether the clocks agree."""
    host = _host_queue(settings)
    overview, ours = await asyncio.gather(reads.overview(client), reads.pollers_of(client, host, activities=True))
    shared = overview.workers[0]
    return [
        polled(shared, "the worker takes workflows"),
        polled(ours, "this host's worker takes turns"),
        clock(shared),
        switches(overview),
        wedged(overview),
        *[await scheduled(client, schedule) for schedule in (ids.RECONCILE_SCHEDULE_ID, ids.AUDIT_SCHEDULE_ID)],
        await exported(client),
    ]


def _host_queue(settings: Settings) -> str:
    path = settings.state_dir / "host-id"
    return ids.host_queue(path.read_text(encoding="utf-8").strip() if path.exists() else "unknown")


def polled(queue: QueuePollers, what: str) -> Finding:
    if queue.workers:
        return ok(AREA, "workers", f"{what}: {queue.workers} at {queue.task_queue!r}")
    return fail(AREA, "workers", f"nobody polls {queue.task_queue!r}", "start the worker: ccweb worker")


def clock(queue: QueuePollers, now: datetime | None = None) -> Finding:
    """The server notes when a worker polled: that cannot lie in the future."""
    ahead = (queue.last_seen_at - (now or datetime.now(UTC))).total_seconds() if queue.last_seen_at else 0.0
    if ahead > 5:
        return warn(AREA, "clock", f"the server's clock is at least {ahead:.0f} s ahead of this host's", "use NTP")
    return ok(AREA, "clock", "not behind the server's")


async def scheduled(client: Client, schedule_id: str) -> Finding:
    """The first worker makes it; a pause is an operator's."""
    try:
        found = await client.get_schedule_handle(schedule_id).describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return warn(AREA, "schedules", f"{schedule_id} is missing", "a worker makes it at its start: ccweb worker")
    if found.schedule.state.paused:
        fix = f"temporal schedule toggle --schedule-id {schedule_id} --unpause --reason ..."
        return warn(AREA, "schedules", f"{schedule_id} is paused", fix)
    return ok(AREA, "schedules", f"{schedule_id} is on")


async def exported(client: Client) -> Finding:
    """The archive lies with one host; while that is away nothing outlives Temporal's retention."""
    runs, _ = await visibility.page(client, 'WorkflowType="AuditExport" AND ExecutionStatus!="Running"', 1)
    if runs and runs[0].status != "completed":
        fix = "start the worker that keeps the archive, or move it (docs/decisions/audit-from-history.md)"
        return warn(AREA, "audit export", f"the last one {runs[0].status}", fix)
    return ok(AREA, "audit export", f"line {runs[0].memo.get('seq')}" if runs else "none was due yet")


def switches(overview: Overview) -> Finding:
    control = overview.control
    if control.global_paused:
        why = f"paused by {control.updated_by}: {control.pause_reason}"
        return warn(AREA, "switches", why, "ccweb resume --reason ...")
    disabled = ", ".join(control.disabled)
    return ok(AREA, "switches", f"disabled: {disabled}" if disabled else "nothing is paused or disabled")


def wedged(overview: Overview) -> Finding:
    if overview.wedged_workflows:
        told = " ".join(overview.wedged_workflows[:5])
        return fail(AREA, "wedged workflows", told, "the worker's log says why; mend that, they go on by themselves")
    return ok(AREA, "wedged workflows", "none")
