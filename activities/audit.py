"""The export of the audit trail into this host's archive (design section 10)."""

import logging

from temporalio import activity
from temporalio.client import Client

import metrics
from activities.waiting import heartbeats
from domain.events import AuditExported, AuditExportStart
from domain.metrics import AUDIT_HEAD, AUDIT_LINES
from operations.export import export
from settings import Settings

_LOG = logging.getLogger(__name__)
_HEAD_DIGITS = 12


class AuditActivities:
    def __init__(self, settings: Settings, client: Client) -> None:
        self._settings = settings
        self._client = client

    @activity.defn
    async def export_audit(self, start: AuditExportStart) -> AuditExported:
        """Appends what the archive lacks; safe to repeat. The head goes to the log, the metrics and the history,
        so that a chain that was made anew, or cut at its end, is found.
        """
        async with heartbeats(self._settings):
            done = await export(self._client, self._settings)
        exported = AuditExported(seq=done.head.seq, head=done.head.hash, added=done.added)
        metrics.record(AUDIT_LINES, exported.seq)
        metrics.record(AUDIT_HEAD, int(exported.head[:_HEAD_DIGITS], 16))
        _LOG.info("audit exported", extra={"auditSeq": exported.seq, "auditHead": exported.head, "added": done.added})
        return exported
