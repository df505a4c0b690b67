"""The worker process: workflows and light activities on the shared queue, the rest on this host's own queue.

`ccweb worker`, or `python worker.py`. Stop it with SIGTERM: a running turn goes on in the app-server and the
next worker attaches to it.
"""

import asyncio
import logging
import secrets
import signal
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker

from activities.codex import CodexActivities
from activities.failures import FailureInterceptor
from activities.gitea import GiteaActivities
from activities.replies import ReplyActivities
from activities.reviews import ReviewActivities
from activities.temporal import TemporalActivities
from activities.workspace import WorkspaceActivities
from clients.gitea import GiteaClient
from connection import connect
from domain import ids
from domain.errors import ErrorCode, SettingsError
from settings import Settings, load_settings
from telemetry import configure_logging
from workflows.agent_task import AgentTask
from workflows.control import Control
from workflows.repository import Repository
from workflows.session import Session

WORKFLOWS = (Session, AgentTask, Repository, Control)
log = logging.getLogger("ccweb.worker")
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
    if not settings.gitea_token.get_secret_value():
        raise SettingsError(ErrorCode.SETTINGS_INVALID, "CCWEB_GITEA_TOKEN or CCWEB_GITEA_TOKEN_FILE: not set")


def workers(client: Client, settings: Settings, gitea: GiteaClient) -> list[Worker]:
    """The two workers of this process, not yet running."""
    host = host_id(settings)
    admission = GiteaActivities(settings, gitea)
    temporal = TemporalActivities(settings, client, host, admission.seen_sources)
    replies = ReplyActivities(settings, gitea)
    reviews = ReviewActivities(settings, gitea)
    workspace = WorkspaceActivities(settings)
    codex = CodexActivities(settings)
    shared: list[Callable[..., Any]] = [
        temporal.recover_session,
        temporal.recover_repository,
        temporal.pick_host,
        temporal.probe_task,
        temporal.request_lease,
        temporal.read_control,
        temporal.terminate_stuck,
        admission.admit,
        admission.post_receipt,
        replies.verify_reply,
        replies.post_fallback,
        reviews.list_reviews,
    ]
    own: list[Callable[..., Any]] = [
        workspace.prepare_workspace,
        workspace.settle_workspace,
        codex.run_turn,
        codex.close_session,
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
        interceptors=[FailureInterceptor()],
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
    """Works until SIGTERM or SIGINT.

    Raises:
        SettingsError: a setting is missing or wrong.
        RuntimeError: Temporal cannot be reached.
    """
    check_settings(settings)
    client = await connect("ccweb-worker")
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with GiteaClient(settings) as gitea, asyncio.TaskGroup() as running:
        ours = workers(client, settings, gitea)
        for worker in ours:
            running.create_task(worker.run())
        await start_control(client)
        log.info("worker started", extra={"host": host_id(settings), "taskQueue": ids.TASK_QUEUE})
        await stop.wait()
        for worker in ours:
            await worker.shutdown()


if __name__ == "__main__":
    configure_logging()
    asyncio.run(run(load_settings()))
