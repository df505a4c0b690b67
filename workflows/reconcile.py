"""Looks for what no delivery told us about; started by a Schedule (design section 5, Reconciler).

Its result holds the watermarks, and the Schedule hands the last result to the next run: a run that fails
leaves the watermarks as they were. The Schedule is the kill switch: pause it.
"""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from domain.events import Notice, ReconcileReport, ReconcileRequest, ReconcileStart, ReconcileState

from workflows import calls


@workflow.defn(name="Reconcile")
class Reconcile:
    @workflow.run
    async def run(self, start: ReconcileStart | None = None) -> ReconcileReport:
        """One look; a dry run changes nothing, its watermarks neither."""
        start = start or ReconcileStart()
        state = start.state or _last() or ReconcileState(installed_at=workflow.now())
        report = await calls.reconcile(ReconcileRequest(state=state, now=workflow.now(), dry_run=start.dry_run))
        workflow.set_current_details(_page(report))
        if (found := _finds(report)) and not report.dry_run:
            await calls.notify(Notice(kind="found", count=found))
        return report


def _last() -> ReconcileState | None:
    last = workflow.get_last_completion_result(ReconcileReport)
    return last.state if last else None


def _finds(report: ReconcileReport) -> int:
    """What was really missing; a delivery that came late after all was not."""
    return sum(find.kind in {"delivered", "answer_posted"} for find in report.finds)


def _page(report: ReconcileReport) -> str:
    finds = [f"- {find.kind}: `{find.task_id}` {find.session_key}" for find in report.finds[:50]]
    errors = [f"- error: {error}" for error in report.errors]
    head = f"{report.repositories} repositories, {report.looked_at} texts, {len(report.finds)} finds"
    return "\n".join([f"## {head}", "", *finds, *errors])
