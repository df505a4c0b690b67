"""Log lines are JSON for machines: no colours, no mappings of Temporal's loggers."""

import json
import logging

from telemetry import JsonFormatter


def _line(**extra: object) -> dict[str, object]:
    record = logging.makeLogRecord({"name": "x", "levelname": "INFO", "msg": "said %d", "args": (1,), **extra})
    found: dict[str, object] = json.loads(JsonFormatter().format(record))
    return found


def test_uvicorns_coloured_copy_of_a_message_is_left_out() -> None:
    assert _line(color_message="said \x1b[36m1\x1b[0m").keys() == {"time", "level", "logger", "message"}


def test_ids_are_fields_of_the_line() -> None:
    assert _line(taskId="t", temporal_activity={"workflow_id": "w"}) | {"time": ""} == {
        "time": "", "level": "info", "logger": "x", "message": "said 1", "taskId": "t", "workflowId": "w",
    }  # fmt: skip
