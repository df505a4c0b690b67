"""What ingress ignored, rejected or refused: a bounded, append-only file of JSON lines (design section 10).

These events never reach Temporal, whose history is the audit of all others. No payload is kept, only its
hash. A full disk costs lines, never a request.
"""

import json
import logging
import os
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from domain.triggers import Decision, DecisionCode

_LOG = logging.getLogger(__name__)
MAX_BYTES = 8 * 1024 * 1024
"""The file is renamed to `<name>.1` at this size, so that at most twice this much is kept."""


class AuditStream:
    """The stream of one host, at `path`."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes

    def record(self, decision: Decision, payload_hash: str, remote: str = "") -> None:
        """Adds a decision. Never raises; a line that cannot be written is logged and lost."""
        try:
            self._append(json.dumps(_line(decision, payload_hash, remote), ensure_ascii=False) + "\n")
        except OSError as error:
            _LOG.warning("audit line lost: %s", error.strerror, extra={"deliveryId": decision.delivery_id})

    def _append(self, line: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line.encode())
            full = os.fstat(descriptor).st_size >= self._max_bytes
        finally:
            os.close(descriptor)
        if full:
            self._path.replace(self._path.with_name(self._path.name + ".1"))


def _line(decision: Decision, payload_hash: str, remote: str) -> dict[str, Any]:
    subject = decision.subject
    refused = decision.code is DecisionCode.INVALID_SIGNATURE
    return {
        "eventId": uuid.uuid4().hex,
        "taskId": decision.task_id,
        "action": "webhook",
        "actor": subject.author.login if subject else None,
        "fromState": None,
        "toState": "refused" if refused else {"ignore": "ignored", "reject": "rejected"}.get(decision.decision),
        "deliveryId": decision.delivery_id or None,
        "turnId": None,
        "commentId": subject.source_id if subject and subject.source_kind == "comment" else None,
        "errorCode": decision.code,
        "timestamp": datetime.now(UTC).isoformat(),
        "metadata": {
            "resourceKey": decision.resource_key,
            "eventType": decision.event_type,
            "payloadHash": payload_hash,
            "remote": remote,
        },
    }
