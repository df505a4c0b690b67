"""One export of the audit trail, started by a Schedule (design sections 5 and 10)."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from domain import ids
    from domain.events import AuditExported, AuditExportStart

_RETRIES = RetryPolicy(initial_interval=timedelta(seconds=2), maximum_attempts=5)


@workflow.defn(name="AuditExport")
class AuditExport:
    @workflow.run
    async def run(self, start: AuditExportStart) -> AuditExported:
        """Fails when the host that keeps the archive is away for long; the next one catches up."""
        exported: AuditExported = await workflow.execute_activity(
            "export_audit",
            start,
            task_queue=ids.host_queue(start.host),
            result_type=AuditExported,
            schedule_to_start_timeout=timedelta(minutes=10),
            start_to_close_timeout=timedelta(hours=2),
            heartbeat_timeout=timedelta(minutes=1),
            retry_policy=_RETRIES,
            summary="append to the archive",
        )
        workflow.upsert_memo({"seq": exported.seq, "head": exported.head})
        workflow.set_current_details(f"{exported.added} lines added; line {exported.seq} is `{exported.head}`")
        return exported
