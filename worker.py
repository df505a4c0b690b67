"""The worker process: workflows and light activities on the shared queue, the rest on this host's own queue.

`ccweb worker`, or `python worker.py`. Stop it with SIGTERM: a running turn goes on in the app-server and the
next worker attaches to it.
"""

import asyncio
import itertools
import logging
import secrets
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker

import metrics
import preflight
import schedules
import tracing
from activities.audit import AuditActivities
from activities.codex import CodexActivities
from activities.commands import CommandActivities
from activities.failures import FailureInterceptor
from activities.gitea import GiteaActivities
from activities.notify import NotifyActivities
from activities.reconcile import ReconcileActivities
from activities.replies import ReplyActivities
from activities.reviews import ReviewActivities
from activities.temporal import TemporalActivities
from activities.workspace import WorkspaceActivities
from clients.gitea import GiteaClient
from connection import TemporalUnavailableError, check, connect
from domain import ids
from domain.errors import GiteaError
from settings import Settings, require
from stopping import stop_signal, unless_stopped
from workflows.agent_task import AgentTask
from workflows.audit_export import AuditExport
from workflows.control import Control
from workflows.reconcile import Reconcile
from workflows.repository import Repository
from workflows.session import Session

WORKFLOWS = (Session, AgentTask, Repository, Control, Reconcile, AuditExport)
log = logging.getLogger("ccweb.worker")
_NAME = "ccweb-worker"
_BACKOFF = (1, 2, 5, 10, 30)
"""Waits between attempts to reach Temporal; seconds."""
_LONGEST_DETACH = 10.0
"""Short activities may end within this; a turn only detaches; seconds."""


def host_id(settings: Settings) -> str:
    """This host's stable id, made once and kept in the state folder (never the host name)."""
    path = settings.state_dir / "host-id"
    if not path.exists():
        settings.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(f"host-{secrets.token_hex(4)}\n", encoding="utf-8")
    return path.read_text(encoding="utf-8").strip()


def check_settings(settings: Settings) -> None:
    """Fails early on what no retry can mend.

    Raises:
        SettingsError: the bot's token is missing.
    """
    require(settings, "gitea_token")


def workers(client: Client, settings: Settings, gitea: GiteaClient) -> list[Worker]:
    """The two workers of this process, not yet running."""
    host = host_id(settings)
    admission = GiteaActivities(settings, gitea)
    temporal = TemporalActivities(settings, client, host, admission.seen_sources)
    replies = ReplyActivities(settings, gitea)
    reviews = ReviewActivities(settings, gitea)
    commands = CommandActivities(settings, gitea)
    reconciler = ReconcileActivities(settings, client, gitea)
    workspace = WorkspaceActivities(settings)
    codex = CodexActivities(settings)
    shared: list[Callable[..., Any]] = [
        temporal.recover_session,
        temporal.recover_repository,
        temporal.pick_host,
        temporal.probe_task,
        temporal.read_end,
        temporal.request_lease,
        temporal.read_control,
        temporal.terminate_stuck,
        admission.admit,
        admission.post_receipt,
        replies.verify_reply,
        replies.post_fallback,
        reviews.list_reviews,
        commands.check_command,
        commands.acknowledge,
        reconciler.reconcile,
        NotifyActivities(settings).notify,
    ]
    own: list[Callable[..., Any]] = [
        workspace.prepare_workspace,
        workspace.settle_workspace,
        codex.run_turn,
        codex.steer_turn,
        codex.close_session,
        AuditActivities(settings, client).export_audit,
    ]
    return [
        _worker(client, settings, ids.TASK_QUEUE, WORKFLOWS, shared),
        _worker(client, settings, ids.host_queue(host), (), own),
    ]


def _worker(
    client: Client,
    settings: Settings,
    task_queue: str,
    workflows: Sequence[type],
    activities: Sequence[Callable[..., Any]],
) -> Worker:
    return Worker(
        client,
        task_queue=task_queue,
        workflows=workflows,
        activities=activities,
        interceptors=[FailureInterceptor(), tracing.JoinTraces()],
        graceful_shutdown_timeout=timedelta(seconds=min(settings.stop_budget, _LONGEST_DETACH)),
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        default_heartbeat_throttle_interval=timedelta(seconds=1),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
    )


async def start_control(client: Client) -> None:
    """Starts the one Control workflow unless it runs, so that operators can signal it at any time."""
    await client.start_workflow(
        Control.run,
        None,
        id=ids.CONTROL_WORKFLOW_ID,
        task_queue=ids.TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        static_summary="pause, resume, disable, enable",
    )


async def run(settings: Settings) -> None:
    """Works until SIGTERM or SIGINT. Waits for Temporal, at the start as later: it may come up after its worker.

    Raises:
        SettingsError: a setting is missing or wrong.
        StoppedError: a signal came while it waited.
    """
    check_settings(settings)
    pump = metrics.configure(_NAME)
    with metrics.serving(settings.metrics_host, settings.metrics_port):
        async with metrics.pumping(pump):
            await _work(settings)


async def _work(settings: Settings) -> None:
    asked = stop_signal()
    client = await unless_stopped(asked, connect_when_up())
    async with GiteaClient(settings) as gitea, asyncio.TaskGroup() as running:
        ours = workers(client, settings, gitea)
        for worker in ours:
            running.create_task(worker.run())
        await start_control(client)
        await schedules.ensure(client, settings)
        await schedules.ensure_audit_export(client, host_id(settings))
        running.create_task(tell_what_cannot_be_checked(settings, gitea))
        log.info("worker started", extra={"host": host_id(settings), "taskQueue": ids.TASK_QUEUE})
        await asked
        for worker in ours:
            await worker.shutdown()


async def tell_what_cannot_be_checked(settings: Settings, gitea: GiteaClient) -> None:
    """Warns of a token, an address or a permission that would make tasks fail; the worker works all the same."""
    try:
        for problem in await preflight.gitea(settings):
            log.warning("%s", problem.detail, extra={"errorCode": problem.code})
        for line in await preflight.author_checks(settings, gitea):
            log.warning("authors are refused in %s", line)
    except GiteaError as error:
        log.warning("what the token can check is not known", extra={"detail": error.detail})


async def connect_when_up() -> Client:
    """A client of a Temporal that can run ccweb; waits while it cannot be reached.

    Raises:
        SettingsError: waiting would not help.
    """
    for delay in itertools.chain(_BACKOFF, itertools.repeat(_BACKOFF[-1])):
        try:
            client = await connect(_NAME)
            await check(client)
        except TemporalUnavailableError as error:
            log.warning("%s; trying again in %g s", error.detail, delay)
            await asyncio.sleep(delay)
        else:
            return client
    raise AssertionError


if __name__ == "__main__":
    from cli import main

    main("worker")
