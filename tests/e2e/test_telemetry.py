"""One trace for each task from its delivery to its comment; metrics of both processes, scraped and sent by OTLP."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import ports
from demo.scene import Scene, until
from demo.stack import BOT
from domain import metrics
from tests.conftest import scratch_dir
from tests.e2e.otlp import Received, Span, collector
from tests.harness import assert_one_receipt_and_one_answer, finished, play, running_scene, task_of_comment

pytestmark = pytest.mark.asyncio(loop_scope="module")
WORKER_PORT = ports.free_port()
PATH = (
    "POST /api/gitea/webhook",
    "StartChildWorkflow:AgentTask",
    "RunWorkflow:AgentTask",
    "StartActivity:run_turn",
    "RunActivity:run_turn",
    "invoke_agent codex",
    "execute_tool reply",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def observed() -> AsyncIterator[tuple[Scene, Received, list[int]]]:
    """Two requests on one issue, both answered: the second one found its session running."""
    with collector() as (address, received), scratch_dir() as directory:
        quick = {"OTEL_BSP_SCHEDULE_DELAY": "200", "OTEL_METRIC_EXPORT_INTERVAL": "500"}
        asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "CCWEB_METRICS_PORT": str(WORKER_PORT)}
        async with running_scene(directory, **quick, **asked) as scene:
            await play(scene, answered=[{"mcp": "reply", "arguments": {"body": "Here."}}])
            comments = []
            for _ in range(2):
                comments.append(await scene.comment(f"@{BOT} [[script:answered]]"))
                assert await finished(scene, comments[-1]) == "succeeded"
            yield scene, received, comments


async def test_each_task_is_one_trace_from_its_delivery_to_its_comment(
    observed: tuple[Scene, Received, list[int]],
) -> None:
    scene, received, comments = observed
    for comment in comments:
        task_id = await task_of_comment(scene, comment)

        async def complete(task_id: str = task_id) -> list[Span]:
            trace = received.trace_of("RunWorkflow:AgentTask", temporalWorkflowID=task_id)
            return trace if {"POST /api/gitea/webhook", "execute_tool reply"} <= {one.name for one in trace} else []

        trace = await until(complete, 15, f"the trace of {task_id}")
        reply = next(one for one in trace if one.name == "execute_tool reply")
        assert _names_up_from(reply, trace) == list(reversed(PATH))
        answer = (await scene.answers(task_id))[0]
        assert reply.attributes["ccweb.comment.id"] == str(answer["id"])
        deliveries = [one for one in trace if one.name == PATH[0]]
        assert [one.attributes["ccweb.task.id"] for one in deliveries] == [task_id]
        assert {one.service for one in trace} == {"ccweb-ingress", "ccweb-worker"}


def _names_up_from(span: Span, trace: list[Span]) -> list[str]:
    """Names from a span up to its root."""
    by_id = {one.id: one for one in trace}
    names = [span.name]
    while span.parent:
        span = by_id[span.parent]
        names.append(span.name)
    return names


async def test_both_processes_show_what_happened(observed: tuple[Scene, Received, list[int]]) -> None:
    scene, _, comments = observed
    await assert_one_receipt_and_one_answer(scene, comments[0])
    expected = {
        f"{scene.stack.ingress_url}/metrics": {
            r'ccweb_deliveries_total\{outcome="accepted",reason="\w+"\}': 2,
            r"ccweb_delivery_duration_seconds_count": 2,
            r"ccweb_temporal_up": 1,
            r"ccweb_workflows_wedged": 0,
        },
        f"http://127.0.0.1:{WORKER_PORT}/metrics": {
            r'ccweb_tasks_ended_total\{error_code="",[^}]*state="succeeded"[^}]*\}': 2,
            r"ccweb_receipt_delay_seconds_count\{.*\}": 2,
            r"ccweb_lease_wait_seconds_count\{.*\}": 2,
            r"ccweb_queue_wait_seconds_count\{.*\}": 2,
            r'ccweb_turn_duration_seconds_count\{error_code="",purpose="normal",status="completed"\}': 2,
            r'gen_ai_client_token_usage_count\{.*gen_ai_token_type="output"\}': 2,
        },
    }
    for url, lines in expected.items():
        for pattern, least in lines.items():

            async def shown(url: str = url, pattern: str = pattern, least: float = least) -> bool:
                text = (await scene.http.get(url)).text
                values = [float(one) for one in re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE)]
                return bool(values) and sum(values) >= least

            await until(shown, 30, f"{pattern} at {url}")


async def test_temporals_own_metrics_are_beside_ours(observed: tuple[Scene, Received, list[int]]) -> None:
    scene, _, _ = observed
    both = [f"{scene.stack.ingress_url}/metrics", f"http://127.0.0.1:{WORKER_PORT}/metrics"]
    text = "".join([(await scene.http.get(url)).text for url in both])
    shown = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE temporal_")}
    # Failures have no series before the first one.
    calm = {name for name in metrics.TEMPORAL if "failed" not in name and "failure" not in name}
    assert calm <= shown


async def test_the_same_metrics_are_sent_by_otlp(observed: tuple[Scene, Received, list[int]]) -> None:
    _, received, _ = observed
    sent = {"ccweb.deliveries", "ccweb.tasks.ended", "ccweb.turn.duration", "temporal_request"}

    async def arrived() -> bool:
        return sent <= received.metrics

    await until(arrived, 15, "metrics by OTLP")
