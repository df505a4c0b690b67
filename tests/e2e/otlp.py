"""A collector that OTLP exporters send to, and what it got."""

import concurrent.futures
import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import Message
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


@dataclass(frozen=True)
class Span:
    name: str
    trace: bytes
    id: bytes
    parent: bytes
    service: str
    attributes: dict[str, str]


@dataclass
class Received:
    spans: list[Span] = field(default_factory=list)
    metrics: set[str] = field(default_factory=set)

    def trace_of(self, name: str, **attributes: str) -> list[Span]:
        """The spans of the trace that holds a span of this name and these attributes."""
        roots = [one for one in self.spans if one.name == name and attributes.items() <= one.attributes.items()]
        return [one for one in self.spans if roots and one.trace == roots[0].trace]


def _take_spans(received: Received, request: traces.ExportTraceServiceRequest) -> traces.ExportTraceServiceResponse:
    for resource in request.resource_spans:
        service = {one.key: one.value.string_value for one in resource.resource.attributes}["service.name"]
        for one in (span for scope in resource.scope_spans for span in scope.spans):
            named = {each.key: _text(each.value) for each in one.attributes}
            received.spans.append(Span(one.name, one.trace_id, one.span_id, one.parent_span_id, service, named))
    return traces.ExportTraceServiceResponse()


def _take_metrics(
    received: Received, request: metrics.ExportMetricsServiceRequest
) -> metrics.ExportMetricsServiceResponse:
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            received.metrics.update(one.name for one in scope.metrics)
    return metrics.ExportMetricsServiceResponse()


def _text(value: AnyValue) -> str:
    return str(getattr(value, value.WhichOneof("value") or "string_value"))


def _service(signal: str, request: type[Message], take: Callable[[Any], Message]) -> Any:
    handler = grpc.unary_unary_rpc_method_handler(
        lambda asked, _: take(asked), request.FromString, lambda answer: answer.SerializeToString()
    )
    name = f"opentelemetry.proto.collector.{signal.lower()}.v1.{signal}Service"
    return grpc.method_handlers_generic_handler(name, {"Export": handler})


@contextlib.contextmanager
def collector() -> Iterator[tuple[str, Received]]:
    """Its address, and what comes."""
    received = Received()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    services = (
        _service("Trace", traces.ExportTraceServiceRequest, functools.partial(_take_spans, received)),
        _service("Metrics", metrics.ExportMetricsServiceRequest, functools.partial(_take_metrics, received)),
    )
    server.add_generic_rpc_handlers(services)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", received
    finally:
        server.stop(None).wait()
