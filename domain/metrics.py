"""Every metric that ccweb records itself (design section 10): names, units, labels, meanings. Pure.

Names follow OpenTelemetry; Prometheus shows them as `exported` says. Labels take few values: never a repository,
person, task or text, so the numbers may be read without signing in.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "histogram", "gauge"]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400)
"""Bounds of durations: from an answer to Gitea to the longest turn."""
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
"""Bounds of token counts, as the GenAI conventions advise."""
MONEY = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100)


@dataclass(frozen=True, slots=True)
class Metric:
    """`unit` is UCUM, in braces where it only counts; `of` is the process that records it."""

    name: str
    kind: Kind
    unit: str
    of: Literal["ingress", "worker"]
    meaning: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def exported(self) -> str:
        """The family's name at `/metrics`; a histogram's series add `_bucket`, `_sum` and `_count`."""
        name = self.name.replace(".", "_")
        name += "_seconds" if self.unit == "s" else ""
        return name + ("_total" if self.kind == "counter" else "")


DELIVERIES = Metric(
    "ccweb.deliveries", "counter", "{delivery}", "ingress",
    "Deliveries answered: accepted, duplicate, poked, ignored, rejected or unavailable, and why",
    ("outcome", "reason"),
)  # fmt: skip
DELIVERY_DURATION = Metric(
    "ccweb.delivery.duration", "histogram", "s", "ingress",
    "From a delivery's arrival to its answer; Gitea waits 5 s", bounds=SECONDS,
)  # fmt: skip
TEMPORAL_UP = Metric(
    "ccweb.temporal.up",
    "gauge",
    "1",
    "ingress",
    "1 while Temporal answers; while it is 0, the other gauges stay as they were",
)
TASKS_OPEN = Metric("ccweb.tasks.open", "gauge", "{task}", "ingress", "Tasks that have not ended", ("state",))
OLDEST_QUEUED = Metric(
    "ccweb.tasks.oldest_queued", "gauge", "s", "ingress",
    "How long this process has seen the task wait that waits longest for admission or its lease; 0 for none",
)  # fmt: skip
WEDGED = Metric(
    "ccweb.workflows.wedged", "gauge", "{workflow}", "ingress",
    "Open workflows whose workflow task fails again and again",
)  # fmt: skip
BACKLOG_AGE = Metric(
    "ccweb.backlog.age", "gauge", "s", "ingress",
    "Age of the oldest workflow task that no worker has taken; it grows while all workers are away",
)  # fmt: skip
POLLERS = Metric("ccweb.pollers", "gauge", "{worker}", "ingress", "Workers that asked for work within minutes")

TASKS_ENDED = Metric(
    "ccweb.tasks.ended", "counter", "{task}", "worker",
    "Tasks by final state; error_code is empty where there was none", ("state", "error_code"),
)  # fmt: skip
TASK_DURATION = Metric(
    "ccweb.task.duration", "histogram", "s", "worker",
    "From the delivery's arrival to the task's end, waiting for people included", ("state",), SECONDS,
)  # fmt: skip
RECEIPT_DELAY = Metric(
    "ccweb.receipt.delay", "histogram", "s", "worker",
    "From the delivery's arrival until its receipt is in Gitea", bounds=SECONDS,
)  # fmt: skip
QUEUE_WAIT = Metric(
    "ccweb.queue.wait", "histogram", "s", "worker",
    "From the delivery's arrival until the task first holds its repository", bounds=SECONDS,
)  # fmt: skip
LEASE_WAIT = Metric(
    "ccweb.lease.wait", "histogram", "s", "worker",
    "From each request for a repository's lease until it is granted", bounds=SECONDS,
)  # fmt: skip
TURN_DURATION = Metric(
    "ccweb.turn.duration", "histogram", "s", "worker",
    "Codex turns by what they were for and Codex's status; error_code is empty where there was none",
    ("purpose", "status", "error_code"), SECONDS,
)  # fmt: skip
TURN_COST = Metric(
    "ccweb.turn.cost", "histogram", "1", "worker",
    "Cost of turns by the prices of the settings, in their currency", ("gen_ai.request.model",), MONEY,
)  # fmt: skip
TURN_TOKENS = Metric(
    "gen_ai.client.token.usage", "histogram", "{token}", "worker",
    "Tokens of turns; input includes what was cached, which `input_cached` counts again",
    ("gen_ai.token.type", "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"), TOKENS,
)  # fmt: skip
FALLBACKS = Metric(
    "ccweb.fallbacks", "counter", "{answer}", "worker",
    "Answers that ccweb posted itself, by what was read back (rest_fallback: it is there)", ("found",),
)  # fmt: skip
RECONCILER_FINDS = Metric(
    "ccweb.reconciler.finds", "counter", "{find}", "worker",
    "What the reconciler found that no delivery told of, and what it did", ("kind",),
)  # fmt: skip
RECONCILER_ERRORS = Metric(
    "ccweb.reconciler.errors", "counter", "{repository}", "worker", "Repositories that a look could not finish"
)

AUDIT_LINES = Metric("ccweb.audit.lines", "gauge", "{line}", "worker", "Lines in this host's audit archive")
AUDIT_HEAD = Metric(
    "ccweb.audit.head", "gauge", "1", "worker",
    "First 12 hex digits of the newest line's hash, as a number: what was once seen here can be looked for",
)  # fmt: skip

METRICS = tuple(one for one in list(globals().values()) if isinstance(one, Metric))

TEMPORAL = {
    "temporal_request_total": "Calls to Temporal, by operation",
    "temporal_request_failure_total": "Calls to Temporal that failed, by operation and status",
    "temporal_request_latency_seconds": "How long calls to Temporal took",
    "temporal_workflow_task_execution_failed_total": "Workflow tasks that failed: a fault of ours, they are repeated",
    "temporal_workflow_task_schedule_to_start_latency_seconds": "How long workflow tasks waited for a worker",
    "temporal_activity_schedule_to_start_latency_seconds": "How long activities waited for a worker",
    "temporal_activity_execution_failed_total": "Tries of activities that failed",
    "temporal_worker_task_slots_available": "Free slots, by kind of work",
    "temporal_sticky_cache_size": "Workflows that the worker has in memory",
}
"""The metrics of Temporal's SDK that our dashboard and alerts use; it exports more."""
