"""Traces: one for each task, from its delivery to its comment (design section 10).

They go to the OTLP endpoint of the standard `OTEL_EXPORTER_OTLP_ENDPOINT`, and are off without it. Temporal's
plugin carries the context from call to call; `JoinTraces` does where a session serves many deliveries.
"""

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.semconv._incubating.attributes import vcs_attributes as vcs
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from temporalio import workflow
from temporalio.worker import (
    Interceptor,
    SignalExternalWorkflowInput,
    StartActivityInput,
    StartChildWorkflowInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from domain.events import Poke, RepositoryRef, ResourceKind, TaskEvent
from metrics import SCHEMA

_PROPAGATOR = TraceContextTextMapPropagator()


def enabled() -> bool:
    return bool(os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))


@functools.cache
def configure(service: str) -> list[Any]:
    """Sets the process's tracer provider and returns the plugins of the Temporal client; none when off."""
    if not enabled():
        return []
    # Imported here: without an endpoint no process pays for the exporter.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from temporalio.contrib.opentelemetry import OpenTelemetryPlugin, create_tracer_provider  # noqa: PLC0415

    provider = create_tracer_provider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return [OpenTelemetryPlugin(add_temporal_spans=True)]


def tracer(name: str) -> trace.Tracer:
    """A tracer whose attributes follow the pinned conventions."""
    return trace.get_tracer(name, schema_url=SCHEMA)


def traceparent() -> str:
    """The current span as a W3C header; empty when there is none."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier.get("traceparent", "")


def resource(repository: RepositoryRef, kind: ResourceKind, number: int) -> dict[str, str]:
    """Attributes of a span that is about an Issue or PR."""
    named = vcs.VCS_CHANGE_ID if kind == "pull_request" else "ccweb.issue.number"
    return {
        vcs.VCS_PROVIDER_NAME: vcs.VcsProviderNameValues.GITEA.value,
        vcs.VCS_OWNER_NAME: repository.owner,
        vcs.VCS_REPOSITORY_NAME: repository.name,
        named: str(number),
    }


class JoinTraces(Interceptor):
    """What a session does for a delivery belongs to the delivery's trace, not to the one that started the session."""

    def workflow_interceptor_class(self, _: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Joined(outbound))


class _Joined(WorkflowOutboundInterceptor):
    async def start_child_workflow(self, input: StartChildWorkflowInput) -> workflow.ChildWorkflowHandle[Any, Any]:
        with _in_trace_of(input.args):
            return await super().start_child_workflow(input)

    async def signal_external_workflow(self, input: SignalExternalWorkflowInput) -> None:
        with _in_trace_of(input.args):
            await super().signal_external_workflow(input)

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        with _in_trace_of(input.args):
            return super().start_activity(input)


@contextlib.contextmanager
def _in_trace_of(arguments: Sequence[Any]) -> Iterator[None]:
    """In a session: the trace of the delivery that the arguments carry, if they carry one."""
    joined = _trace_of(arguments) if workflow.info().workflow_type == "Session" else None
    if joined is None:
        yield
        return
    before = context.get_current()
    context.attach(joined)
    try:
        yield
    finally:
        # Not `detach`: an evicted workflow ends elsewhere, where its token is not valid.
        if context.get_current() is joined:
            context.attach(before)


def _trace_of(arguments: Sequence[Any]) -> Context | None:
    for argument in arguments:
        event = getattr(argument, "event", argument)
        if isinstance(event, TaskEvent | Poke):
            return _PROPAGATOR.extract({"traceparent": event.traceparent}, Context())
    return None
