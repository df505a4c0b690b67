"""The export of the audit trail into this host's archive (design section 10)."""

import logging

from temporalio import activity
from temporalio.client import Client

from activities.waiting import heartbeats
from domain.events import AuditExported, AuditExportStart
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
        meter = activity.metric_meter()
        meter.create_gauge("ccweb_audit_lines", "Lines in the audit archive").set(exported.seq)
        head = meter.create_gauge("ccweb_audit_head", f"First {_HEAD_DIGITS} hex digits of the newest line's hash")
        head.set(int(exported.head[:_HEAD_DIGITS], 16))
        _LOG.info("audit exported", extra={"auditSeq": exported.seq, "auditHead": exported.head, "added": done.added})
        return exported
