"""Metrics of a process: ours and Temporal's SDK's, on one Prometheus endpoint and, where asked, by OTLP.

Temporal's SDK records into a buffer that `pumping` moves to OpenTelemetry, since it can itself export to one place
only; so do workflows, whose meter is replay-safe (docs/decisions/telemetry.md).
"""

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from opentelemetry import metrics as otel
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.semconv.schemas import Schemas
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest, start_http_server
from temporalio import runtime
from temporalio.runtime import MetricBuffer, MetricBufferDurationFormat, Runtime, TelemetryConfig

from domain import metrics
from domain.errors import ErrorCode, SettingsError
from domain.metrics import Metric

SCHEMA = Schemas.V1_44_0.value
"""The version of OpenTelemetry's semantic conventions that names of spans, metrics and attributes follow."""
CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUFFERED = 100_000
_PUMP_SECONDS = 1.0

Labels = Mapping[str, str]


def add(metric: Metric, labels: Labels | None = None, count: int = 1) -> None:
    """Counts."""
    _instrument(metric).add(count, labels)


def record(metric: Metric, value: float, labels: Labels | None = None) -> None:
    """Adds a value to a histogram, or sets a gauge."""
    instrument = _instrument(metric)
    (instrument.set if metric.kind == "gauge" else instrument.record)(value, labels)


@functools.cache
def _instrument(metric: Metric) -> Any:
    return _create(otel.get_meter("ccweb", schema_url=SCHEMA), metric)


def _create(meter: otel.Meter, metric: Metric) -> Any:
    match metric.kind:
        case "counter":
            return meter.create_counter(metric.name, metric.unit, metric.meaning)
        case "gauge":
            return meter.create_gauge(metric.name, metric.unit, metric.meaning)
        case "histogram":
            return meter.create_histogram(
                metric.name, metric.unit, metric.meaning, explicit_bucket_boundaries_advisory=metric.bounds
            )


class Pump:
    """Moves what Temporal's SDK and our workflows recorded into OpenTelemetry's instruments."""

    def __init__(self, buffer: MetricBuffer, meter: otel.Meter) -> None:
        self._buffer, self._meter = buffer, meter
        self._instruments: dict[str, Any] = {}
        self._ours = {metric.name: metric for metric in metrics.METRICS}

    def once(self) -> None:
        for update in self._buffer.retrieve_updates():
            instrument = self._of(update.metric)
            attributes = {name: str(value) for name, value in update.attributes.items()}
            match update.metric.kind:
                case runtime.BUFFERED_METRIC_KIND_COUNTER:
                    instrument.add(update.value, attributes)
                case runtime.BUFFERED_METRIC_KIND_GAUGE:
                    instrument.set(update.value, attributes)
                case _:
                    instrument.record(update.value, attributes)

    def _of(self, found: runtime.BufferedMetric) -> Any:
        if found.name not in self._instruments:
            ours = self._ours.get(found.name)
            self._instruments[found.name] = _instrument(ours) if ours else _create(self._meter, _theirs(found))
        return self._instruments[found.name]


def _theirs(found: runtime.BufferedMetric) -> Metric:
    kinds: dict[int, metrics.Kind] = {
        runtime.BUFFERED_METRIC_KIND_COUNTER: "counter",
        runtime.BUFFERED_METRIC_KIND_GAUGE: "gauge",
    }
    kind = kinds.get(found.kind, "histogram")
    return Metric(found.name, kind, found.unit or "", "worker", found.description or "", bounds=metrics.SECONDS)


@functools.cache
def configure(service: str) -> Pump:
    """Sets the process's meter provider and Temporal runtime; before the first client, once."""
    buffer = MetricBuffer(_BUFFERED, MetricBufferDurationFormat.SECONDS)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(metrics=buffer, attach_service_name=False)))
    provider = MeterProvider(_readers(), Resource.create({"service.name": service}))
    otel.set_meter_provider(provider)
    return Pump(buffer, provider.get_meter("temporalio"))


def _readers() -> list[MetricReader]:
    readers: list[MetricReader] = [PrometheusMetricReader(scope_info_enabled=False)]
    if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"):
        # Imported here: without an endpoint no process pays for the exporter.
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415

        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    return readers


@contextlib.asynccontextmanager
async def pumping(pump: Pump) -> AsyncIterator[None]:
    """Moves buffered metrics while the block runs, and the last ones at its end."""
    task = asyncio.create_task(_pump(pump))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        pump.once()


async def _pump(pump: Pump) -> None:
    while True:
        pump.once()
        await asyncio.sleep(_PUMP_SECONDS)


def exposition() -> bytes:
    """Everything of this process in Prometheus' text format; may take some milliseconds."""
    return generate_latest()


@contextlib.contextmanager
def serving(host: str, port: int) -> Iterator[None]:
    """Answers Prometheus on a port of its own, from a thread; port 0 is off.

    Raises:
        SettingsError: the port cannot be opened.
    """
    if not port:
        yield
        return
    try:
        server, _ = start_http_server(port, host)
    except OSError as error:
        detail = f"CCWEB_METRICS_PORT: cannot listen on {host}:{port}: {error.strerror or error}"
        raise SettingsError(ErrorCode.SETTINGS_INVALID, detail) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
