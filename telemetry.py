"""Logs, traces and metrics of every process (design section 10).

Logs are JSON lines on stderr with the ids given as `extra`. Traces go to the OTLP endpoint of the standard
`OTEL_EXPORTER_OTLP_ENDPOINT`, and are off without it.
"""

import functools
import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_COLOURED = "color_message"  # uvicorn's message again, with escape codes of terminals
# Temporal's loggers add these whole mappings to each record; their useful parts are in `_FLATTENED`.
_MAPPINGS = ("temporal_workflow", "temporal_activity")
_FLATTENED = {
    "workflow_id": "workflowId",
    "run_id": "runId",
    "workflow_type": "workflowType",
    "activity_type": "activityType",
    "attempt": "attempt",
}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the ids."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_ids(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _ids(record: logging.LogRecord) -> dict[str, Any]:
    extras = {name: value for name, value in record.__dict__.items() if name not in {*_STANDARD, _COLOURED}}
    for mapping in _MAPPINGS:
        temporal = extras.pop(mapping, None)
        if isinstance(temporal, dict):
            extras |= {ours: temporal[theirs] for theirs, ours in _FLATTENED.items() if theirs in temporal}
    return extras


def configure_logging() -> None:
    """Makes the root logger write JSON lines; `CCWEB_LOG_LEVEL` sets the level."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=os.environ.get("CCWEB_LOG_LEVEL", "INFO").upper(), handlers=[handler], force=True)
    for chatty in ("httpx", "httpcore", "uvicorn", "websockets"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def tracing_enabled() -> bool:
    return bool(os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))


@functools.cache
def configure_tracing(service: str) -> list[Any]:
    """Sets the process's tracer provider and returns the plugins of the Temporal client; none when off."""
    if not tracing_enabled():
        return []
    # Imported here: without an endpoint no process pays for the exporter.
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from temporalio.contrib.opentelemetry import OpenTelemetryPlugin, create_tracer_provider  # noqa: PLC0415

    provider = create_tracer_provider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return [OpenTelemetryPlugin(add_temporal_spans=True)]
