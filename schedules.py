"""The Schedules that ccweb keeps in Temporal; each worker makes sure of them at its start."""

import contextlib
import uuid
from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)

from domain import ids
from domain.events import AuditExportStart, ReconcileReport, ReconcileStart, ReconcileState
from settings import Settings
from workflows.audit_export import AuditExport
from workflows.reconcile import Reconcile

_AUDIT_EVERY = timedelta(minutes=10)


async def ensure(client: Client, settings: Settings) -> None:
    """Makes or updates the Schedule of the reconciler, and has it look at once.

    A pause by an operator stays: it is the kill switch.
    """
    wanted = _reconcile(settings)
    try:
        await client.create_schedule(ids.RECONCILE_SCHEDULE_ID, wanted, trigger_immediately=True)
    except ScheduleAlreadyRunningError:
        handle = client.get_schedule_handle(ids.RECONCILE_SCHEDULE_ID)
        await handle.update(lambda found: _with_spec(found, wanted))
        if not (await handle.describe()).schedule.state.paused:
            await handle.trigger()


async def ensure_audit_export(client: Client, host: str) -> None:
    """Makes the Schedule of the audit export unless it is there. The archive stays on the host that made it."""
    wanted = Schedule(
        action=ScheduleActionStartWorkflow(
            AuditExport.run,
            AuditExportStart(host=host),
            id=ids.AUDIT_SCHEDULE_ID,
            task_queue=ids.TASK_QUEUE,
            static_summary="append to the audit archive",
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=_AUDIT_EVERY)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP),
    )
    with contextlib.suppress(ScheduleAlreadyRunningError):
        await client.create_schedule(ids.AUDIT_SCHEDULE_ID, wanted)


async def reconcile_now(client: Client) -> None:
    """Has the Schedule look now, besides its interval; the next run shows what it found."""
    await client.get_schedule_handle(ids.RECONCILE_SCHEDULE_ID).trigger()


async def reconcile_dry_run(client: Client) -> ReconcileReport:
    """What a look would find and do now, going on from the last one; needs a worker."""
    start = ReconcileStart(state=await _last_state(client), dry_run=True)
    run = f"{ids.RECONCILE_SCHEDULE_ID}/dry-run-{uuid.uuid4().hex[:8]}"
    return await client.execute_workflow(Reconcile.run, start, id=run, task_queue=ids.TASK_QUEUE)


async def _last_state(client: Client) -> ReconcileState | None:
    """What the last completed look of the Schedule left."""
    query = f'TemporalScheduledById="{ids.RECONCILE_SCHEDULE_ID}" AND ExecutionStatus="Completed"'
    async for found in client.list_workflows(query, limit=1):
        handle = client.get_workflow_handle_for(Reconcile.run, found.id, run_id=found.run_id)
        return (await handle.result()).state
    return None


def _reconcile(settings: Settings) -> Schedule:
    return Schedule(
        action=ScheduleActionStartWorkflow(
            Reconcile.run,
            None,
            id=ids.RECONCILE_SCHEDULE_ID,
            task_queue=ids.TASK_QUEUE,
            static_summary="what did nobody deliver?",
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(seconds=settings.reconcile_interval))]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP),
    )


def _with_spec(found: ScheduleUpdateInput, wanted: Schedule) -> ScheduleUpdate:
    schedule = found.description.schedule
    schedule.spec, schedule.action, schedule.policy = wanted.spec, wanted.action, wanted.policy
    return ScheduleUpdate(schedule=schedule)
