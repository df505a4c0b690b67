"""Logs of every process: JSON lines on stderr with the ids given as `extra` (design section 10)."""

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
