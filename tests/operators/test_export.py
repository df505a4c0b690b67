"""The archive's export from the real Temporal: whole, once, whatever is killed, beyond retention."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

import embedded
import schedules
from activities.audit import AuditActivities
from activities.failures import FailureInterceptor
from clients import journal
from domain import ids
from domain.audit import AuditEvent
from domain.audit_chain import chain
from domain.events import AuditExported, AuditExportStart
from domain.states import TaskState
from operations import archive, export, trail
from operations.heads import exported_heads
from settings import Settings, load_settings
from tests.workflows.conftest import dev_server
from tests.workflows.fakes import found
from tests.workflows.world import World, eventually
from workflows.audit_export import AuditExport


@pytest.fixture
def settings(state_dir: Path) -> Settings:
    return load_settings(state_dir=state_dir)


def archived(settings: Settings) -> list[AuditEvent]:
    folder = settings.state_dir / archive.FOLDER
    return [AuditEvent.model_validate(line.event) for line in archive.read(folder)]


async def export_all(client: Client, settings: Settings) -> export.Exported:
    done = await export.export(client, settings)
    assert archive.verify(settings.state_dir / archive.FOLDER, {done.head.seq: done.head.hash}).ok
    return done


async def in_lists(client: Client, world: World, tasks: int) -> None:
    """Lists are a little late."""

    async def there() -> bool:
        query = f'TaskQueue="{world.queue}" AND WorkflowType="AgentTask" AND ExecutionStatus="Completed"'
        return (await client.count_workflows(query)).count == tasks

    await eventually(there)


async def test_an_export_holds_the_whole_trail_once(client: Client, world: World, settings: Settings) -> None:
    await world.end(await world.deliver(world.event()))
    await in_lists(client, world, 1)
    first = await export_all(client, settings)
    assert first.added == first.head.seq > 20
    again = await export_all(client, settings)
    await world.end(await world.deliver(world.event()))
    await in_lists(client, world, 2)
    await export_all(client, settings)

    events = archived(settings)
    places = [event.event_id for event in events]
    assert len(places) == len(set(places))
    assert again.added < first.added
    for delivery in (f"{world.repo}-1", f"{world.repo}-2"):
        proven = chain(events, delivery)
        assert proven.thread_id and proven.turn_id and proven.comment_id == 7


async def test_a_running_task_is_exported_as_far_as_it_is_and_goes_on_later(
    client: Client, world: World, settings: Settings
) -> None:
    world.fakes.plan("verify_reply", found("question"))
    task = await world.deliver(world.event())
    await world.reaches(task, TaskState.WAITING_USER)
    await export_all(client, settings)
    moves = [
        event.to_state for event in archived(settings) if event.task_id == task.id and event.action == "task.move"
    ]
    assert moves[-1:] == ["waiting_user"]
    await world.deliver(world.event("an answer"))
    await world.end(task)
    await in_lists(client, world, 1)
    await export_all(client, settings)
    moves = [
        event.to_state for event in archived(settings) if event.task_id == task.id and event.action == "task.move"
    ]
    assert moves.count("waiting_user") == 1 and moves[-1] == "succeeded"


async def test_a_lost_or_stale_memory_changes_nothing(client: Client, world: World, settings: Settings) -> None:
    task = await world.deliver(world.event())
    await world.end(task)
    journal.append(
        settings.journal_dir, journal.JournalLine(time.time(), 1, "c", "intent", "reply", task.id, "t", 1, "l", {})
    )
    (settings.state_dir / trail.INGRESS_FILE).write_text(
        AuditEvent(event_id="aa", action="webhook", timestamp="2026-12-01T00:00:00Z").model_dump_json(by_alias=True)
        + "\n",
        encoding="utf-8",
    )
    await in_lists(client, world, 1)
    await export_all(client, settings)
    whole = [event.event_id for event in archived(settings)]
    folder = settings.state_dir / archive.FOLDER
    stale = (folder / "state.json").read_bytes()
    (folder / "state.json").unlink()
    assert {"aa", "journal/c/intent"} <= set(whole)
    await export_all(client, settings)
    (folder / "state.json").write_bytes(stale[:-20])
    await export_all(client, settings)
    assert [event.event_id for event in archived(settings)][: len(whole)] == whole
    assert len(archived(settings)) == len({event.event_id for event in archived(settings)})


async def test_an_export_killed_in_the_middle_is_finished_by_the_next(
    client: Client, world: World, settings: Settings, address: str
) -> None:
    for issue in range(1, 4):
        await world.end(await world.deliver(world.event(issue=issue)))
    await in_lists(client, world, 3)
    folder = settings.state_dir / archive.FOLDER
    environment = {**embedded.python_env(), "TEMPORAL_ADDRESS": address, "CCWEB_STATE_DIR": str(settings.state_dir)}
    for wait in (0.0, 0.02, 0.05):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "cli.py", "audit", "export", cwd=embedded.ROOT, env=environment,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        while process.returncode is None and not any(folder.glob("*.jsonl")):
            await asyncio.sleep(0.005)
        await asyncio.sleep(wait)
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        for path in folder.glob("*.jsonl"):
            os.truncate(path, max(0, path.stat().st_size - 11))
        (folder / "state.json").unlink(missing_ok=True)
    await export_all(client, settings)
    places = [event.event_id for event in archived(settings)]
    assert len(places) == len(set(places))
    ours = archived(settings)
    assert all(chain(ours, f"{world.repo}-{n}").comment_id == 7 for n in (1, 2, 3))


async def test_the_archive_outlives_the_histories(client: Client, world: World, settings: Settings) -> None:
    await world.end(await world.deliver(world.event()))
    await in_lists(client, world, 1)
    before = await export_all(client, settings)
    with dev_server() as empty:
        done = await export_all(await Client.connect(empty, data_converter=pydantic_data_converter), settings)
    assert done.head.seq == before.head.seq
    assert chain(archived(settings), f"{world.repo}-1").comment_id == 7


async def test_the_schedule_exports_and_its_head_is_in_temporal(client: Client, settings: Settings) -> None:
    host = f"h-{settings.state_dir.name}"
    await schedules.ensure_audit_export(client, host)
    await schedules.ensure_audit_export(client, "another host, later")
    schedule = client.get_schedule_handle(ids.AUDIT_SCHEDULE_ID)
    audit = AuditActivities(settings, client)
    shared = Worker(client, task_queue=ids.TASK_QUEUE, workflows=[AuditExport])
    own = Worker(
        client,
        task_queue=ids.host_queue(host),
        activities=[audit.export_audit],
        interceptors=[FailureInterceptor()],
    )
    try:
        async with shared, own:
            await schedule.trigger()

            async def exported() -> bool:
                return bool(await exported_heads(client))

            await eventually(exported)
    finally:
        await schedule.delete()
    assert archive.verify(settings.state_dir / archive.FOLDER, await exported_heads(client)).ok


async def test_an_export_beside_another_is_tried_again(client: Client, settings: Settings) -> None:
    host = f"h2-{settings.state_dir.name}"
    audit = AuditActivities(settings, client)
    shared = Worker(client, task_queue=host, workflows=[AuditExport])
    own = Worker(client, task_queue=ids.host_queue(host), activities=[audit.export_audit])
    async with shared, own:
        with archive.locked(settings.state_dir / archive.FOLDER):
            handle = await client.start_workflow(
                AuditExport.run, AuditExportStart(host=host), id=f"export-{host}", task_queue=host
            )

            async def tried() -> bool:
                pending = (await handle.describe()).raw_description.pending_activities
                return any(one.attempt > 1 for one in pending)

            await eventually(tried)
        result: AuditExported = await handle.result()
    assert result.seq > 0
