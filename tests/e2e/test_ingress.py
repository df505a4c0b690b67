"""Ingress before a real Temporal server, with no worker anywhere."""

import asyncio
import json
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

import gateway
from domain import ids
from domain.deliveries import read
from domain.triggers import Policy, decide, task_event
from gateway import Gateway
from ingress import webhook
from settings import Settings, load_settings
from tests.e2e.ingress_harness import ROUTE, SECRET, captured, comment, send, serving, signed
from tests.e2e.temporal_server import TemporalServer, free_port
from tests.signing import signed_headers

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def server() -> Iterator[TemporalServer]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        started = TemporalServer(Path(directory))
        started.start()
        yield started
        started.stop()


@pytest.fixture
async def client(server: TemporalServer) -> Client:
    return await server.client()


@pytest.fixture
def settings(state_dir: Path) -> Settings:
    return load_settings(webhook_secrets=SECRET, state_dir=state_dir)


@pytest.fixture
async def http(settings: Settings, client: Client) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(settings, client) as opened:
        yield opened


async def _signals(client: Client, session: str, name: str = "deliver") -> list[dict[str, Any]]:
    """The arguments of a session's signals, as they stand in its history."""
    events = client.get_workflow_handle(ids.session_workflow_id(session)).fetch_history_events()
    return [
        json.loads(event.workflow_execution_signaled_event_attributes.input.payloads[0].data)
        async for event in events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
        and event.workflow_execution_signaled_event_attributes.signal_name == name
    ]


async def test_what_was_accepted_is_in_the_history(http: httpx.AsyncClient, client: Client) -> None:
    answer = await send(http, comment(101, "d-101"))
    assert answer.status_code == 202
    body = answer.json()
    assert body == {"deliveryId": "d-101", "taskId": ids.task_id("default:d-101"), "state": "queued"}
    [event] = await _signals(client, "default:alice/demo:issue:101")
    assert event["task_id"] == body["taskId"]
    assert event["instruction"] == "please fix the failing test"
    assert event["author_check"] == "allowed"
    assert event["payload_hash"].startswith("sha256:")


async def test_comments_on_one_issue_reach_one_session(http: httpx.AsyncClient, client: Client) -> None:
    answers = [await send(http, comment(102, f"d-102-{n}"), "/webhook/gitea") for n in range(3)]
    assert [answer.status_code for answer in answers] == [202] * 3
    assert len(await _signals(client, "default:alice/demo:issue:102")) == 3


async def test_a_burst_is_taken_whole(http: httpx.AsyncClient, client: Client) -> None:
    answers = await asyncio.gather(*(send(http, comment(103, f"d-103-{n}")) for n in range(20)))
    assert {answer.status_code for answer in answers} == {202}
    assert len(await _signals(client, "default:alice/demo:issue:103")) == 20


async def _start(client: Client, kind: str, workflow_id: str, memo: dict[str, Any]) -> None:
    await client.start_workflow(kind, id=workflow_id, task_queue="nobody", memo=memo)


async def test_a_delivery_whose_task_exists_is_a_duplicate(http: httpx.AsyncClient, client: Client) -> None:
    task = ids.task_id("default:d-104")
    await _start(client, "AgentTask", task, {"receivedAt": "2026-11-30T20:51:37+00:00"})
    answer = await send(http, comment(104, "d-104"))
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "duplicate",
        "deliveryId": "d-104",
        "taskId": task,
        "code": "duplicate_delivery",
    }


async def test_a_task_that_its_own_arrival_just_started_is_no_duplicate(client: Client) -> None:
    raw, headers = comment(105, "d-105")
    received_at = datetime.now(UTC)
    decision = decide(read(headers, raw), Policy(bot_name="ccweb-bot"))
    event = task_event(
        decision, repo_key="default:alice/demo", received_at=received_at, payload_hash="", traceparent=""
    )
    await _start(client, "AgentTask", event.task_id, {"receivedAt": received_at.isoformat()})
    assert await Gateway(client).deliver(event)
    later = event.model_copy(update={"received_at": datetime.now(UTC)})
    assert not await Gateway(client).deliver(later)


@pytest.mark.parametrize(("policy", "status"), [("reject", 409), ("ignore", 200)])
async def test_a_disabled_repository_is_answered_by_policy(
    settings: Settings, client: Client, policy: str, status: int
) -> None:
    number = 7000 + status
    control = {"version": 1, "disabled": {str(number): "moved"}}
    async with _running(client, "Control", ids.CONTROL_WORKFLOW_ID, {"control": control}):
        chosen = settings.model_copy(update={"disabled_policy": policy})
        async with serving(chosen, client) as http:
            answer = await send(http, comment(1, f"d-{number}", repository=number, name="off"))
            other = await send(http, comment(106, f"d-on-{number}"))
    assert (answer.status_code, answer.json()["code"]) == (status, "repository_disabled")
    assert other.status_code == 202
    handle = client.get_workflow_handle("session/default:alice/off:issue:1")
    with pytest.raises(Exception, match="not found"):
        await handle.describe()


@asynccontextmanager
async def _running(client: Client, kind: str, workflow_id: str, memo: dict[str, Any]) -> AsyncIterator[None]:
    await _start(client, kind, workflow_id, memo)
    yield
    await client.get_workflow_handle(workflow_id).terminate()


async def test_a_renamed_repository_keeps_its_session(http: httpx.AsyncClient, client: Client) -> None:
    await _start(client, "Repository", ids.repository_workflow_id(24), {"repoKey": "default:alice/oldname"})
    assert (await send(http, captured("comment_after_repo_rename"))).status_code == 202
    [event] = await _signals(client, "default:alice/oldname:issue:1")
    assert event["repo_key"] == "default:alice/oldname"
    assert event["repository"]["name"] == "newname"


async def test_a_repository_that_was_unknown_is_asked_for_again(
    http: httpx.AsyncClient, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "_FRESH", 0.0)
    assert (await send(http, comment(1, "d-before", repository=25, name="new"))).status_code == 202
    await _start(client, "Repository", ids.repository_workflow_id(25), {"repoKey": "default:alice/first"})
    assert (await send(http, comment(1, "d-after", repository=25, name="new"))).status_code == 202
    assert [event["delivery_id"] for event in await _signals(client, "default:alice/new:issue:1")] == ["d-before"]
    assert [event["delivery_id"] for event in await _signals(client, "default:alice/first:issue:1")] == ["d-after"]


async def test_a_close_tells_a_session_and_starts_none(http: httpx.AsyncClient, client: Client) -> None:
    body = json.loads(captured("issue_closed")[0])
    body["issue"]["number"] = 107
    nobody = await send(http, signed(body, "d-107-0", "issues"))
    assert (nobody.status_code, nobody.json()["status"], nobody.json()["code"]) == (200, "ignored", "resource_closed")
    await send(http, comment(107, "d-107-1"))
    told = await send(http, signed(body, "d-107-2", "issues"))
    assert (told.status_code, told.json()["status"]) == (200, "poked")
    [closed] = await _signals(client, "default:alice/demo:issue:107", "resource_closed")
    assert (closed["closed"], closed["actor"]) == (True, "alice")


async def test_the_span_of_the_request_travels_in_the_event(
    http: httpx.AsyncClient, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "_TRACER", TracerProvider().get_tracer("test"))
    await send(http, comment(108, "d-108"))
    [event] = await _signals(client, "default:alice/demo:issue:108")
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]", event["traceparent"])


async def test_what_is_declined_is_answered_with_its_reason_and_audited(
    http: httpx.AsyncClient, settings: Settings
) -> None:
    ignored = await send(http, captured("comment_mention_quoted"))
    rejected = await send(http, captured("comment_by_outsider"))
    refused = await send(http, captured("option_no_secret"))
    assert (ignored.status_code, ignored.json()["status"], ignored.json()["code"]) == (200, "ignored", "no_mention")
    assert (rejected.status_code, rejected.json()["status"]) == (200, "rejected")
    assert (refused.status_code, "detail" in refused.json()) == (401, False)
    text = (settings.state_dir / "ingress-audit.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["errorCode"] for line in lines] == ["no_mention", "insufficient_permission", "invalid_signature"]
    assert [line["toState"] for line in lines] == ["ignored", "rejected", "refused"]
    assert all(line["metadata"]["payloadHash"].startswith("sha256:") for line in lines)
    assert "please fix" not in text


def _raw(body: bytes, **headers: str) -> tuple[bytes, dict[str, str]]:
    more = {"x-gitea-delivery": "d-raw", "x-gitea-event-type": "issue_comment"}
    return body, signed_headers(body, SECRET, {**more, **{k.replace("_", "-"): v for k, v in headers.items()}})


FORM = "application/x-www-form-urlencoded"
EDGES: dict[str, tuple[tuple[bytes, dict[str, str]], int, str]] = {
    "empty": (_raw(b""), 400, "invalid_payload"),
    "null": (_raw(b"null"), 400, "invalid_payload"),
    "a list": (_raw(b"[]"), 400, "invalid_payload"),
    "a text": (_raw(b'"x"'), 400, "invalid_payload"),
    "an empty object": (_raw(b"{}"), 400, "invalid_payload"),
    "cut JSON": (_raw(captured("comment_mention")[0][:500]), 400, "invalid_payload"),
    "two objects": (_raw(b"{}{}"), 400, "invalid_payload"),
    "invalid UTF-8": (_raw(b'{"a": "\xff\xfe"}'), 400, "invalid_payload"),
    "UTF-16": (_raw("{}".encode("utf-16")), 400, "invalid_payload"),
    "a byte order mark": (_raw(b"\xef\xbb\xbf{}"), 400, "invalid_payload"),
    "a lone surrogate": (_raw(b'{"a": "\\ud800"}'), 400, "invalid_payload"),
    "deep lists": (_raw(b"[" * 200_000), 400, "invalid_payload"),
    "deep objects": (_raw(b'{"a":' * 200_000), 400, "invalid_payload"),
    "a huge number": (_raw(b'{"issue": {"number": ' + b"9" * 5000 + b'}, "comment": {}}'), 400, "invalid_payload"),
    "an infinite number": (_raw(b'{"issue": 1e999, "comment": NaN}'), 400, "invalid_payload"),
    "no delivery id": (_raw(b"{}", x_gitea_delivery="", x_gitea_event_type="push"), 400, "invalid_payload"),
    "another type's body": (_raw(captured("push_main")[0]), 400, "invalid_payload"),
    "an unknown event": (_raw(b"{}", x_gitea_event_type="new_event"), 200, "event_not_used"),
    "no signature": ((b"{}", {"content-type": "application/json"}), 401, "invalid_signature"),
    "an empty signature": (_raw(b"{}", x_gitea_signature=""), 401, "invalid_signature"),
    "a wrong signature": (_raw(b"{}", x_gitea_signature="0" * 64), 401, "invalid_signature"),
    "a changed body": ((b"{} ", _raw(b"{}")[1]), 401, "invalid_signature"),
    "a form without its field": (_raw(b"a=1", content_type=FORM), 401, "invalid_signature"),
    "a form": (captured("option_content_type_form"), 202, ""),
    "plain text": (_raw(b"{}", content_type="text/plain"), 415, "unsupported_media_type"),
    "no content type": (_raw(b"{}", content_type=""), 415, "unsupported_media_type"),
    "too large": (_raw(b" " * (8 * 1024 * 1024 + 1)), 413, "payload_too_large"),
}  # fmt: skip


@pytest.mark.parametrize(("delivery", "status", "code"), EDGES.values(), ids=EDGES.keys())
async def test_an_odd_delivery_gets_a_documented_answer(
    http: httpx.AsyncClient, delivery: tuple[bytes, dict[str, str]], status: int, code: str
) -> None:
    answer = await send(http, delivery)
    assert (answer.status_code, answer.json().get("code", "")) == (status, code)
    expected = "application/problem+json" if status >= 400 else "application/json"
    assert answer.headers["content-type"].split(";")[0] == expected


async def test_a_five_megabyte_comment_is_taken_with_its_text_cut(http: httpx.AsyncClient, client: Client) -> None:
    body = json.loads(captured("comment_mention")[0])
    body["issue"]["number"] = 109
    body["comment"]["body"] = "@ccweb-bot read this\n" + "log line\n" * 550_000
    assert (await send(http, signed(body, "d-109"))).status_code == 202
    [event] = await _signals(client, "default:alice/demo:issue:109")
    assert len(event["instruction"]) == 32_000


async def test_an_unannounced_long_body_is_cut_off(http: httpx.AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1024 * 1024

    try:
        answer = await http.post(ROUTE, content=endless(), headers={"content-type": "application/json"})
    except httpx.WriteError:  # Cut while it was still sending: refused all the same.
        return
    assert answer.status_code == 413


async def test_a_body_that_trickles_is_given_up(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "BODY_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
    writer.write(b"POST /api/gitea/webhook HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n")
    writer.write(b"content-length: 100\r\n\r\n{")
    assert (await reader.readline()).startswith(b"HTTP/1.1 400")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_only_post_is_taken(http: httpx.AsyncClient, method: str) -> None:
    answer = await http.request(method, f"{ROUTE}?payload=%7B%7D")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", [f"{ROUTE}/", "/webhook/gitea/", "/nowhere", "//webhook/gitea"])
async def test_nothing_is_ever_redirected(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.post(path, content=b"{}", headers=_raw(b"{}", x_gitea_event_type="push")[1])
    assert answer.status_code in {200, 404}


async def test_health_and_readiness(http: httpx.AsyncClient, settings: Settings, client: Client) -> None:
    assert (await http.get("/healthz")).json() == {"status": "ok"}
    assert (await http.get("/readyz")).json() == {"status": "ready"}
    async with serving(load_settings(state_dir=settings.state_dir, webhook_secrets=""), client) as other:
        answer = await other.get("/readyz")
        assert (answer.status_code, answer.json()["code"]) == (503, "settings_invalid")
        assert (await send(other, comment(1, "d-x"))).status_code == 401


async def _is_refused_in_time(http: httpx.AsyncClient, delivery: str) -> None:
    started = time.monotonic()
    answer = await send(http, comment(1, delivery))
    assert (answer.status_code, answer.json()["code"]) == (503, "temporal_unavailable")
    assert time.monotonic() - started < 4


async def test_temporal_that_never_answers_is_503_within_four_seconds(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hole:  # Connections are made, nobody ever reads them.
        blind = await Client.connect(f"127.0.0.1:{hole.getsockname()[1]}", lazy=True)
        async with serving(settings, blind) as http:
            await _is_refused_in_time(http, "d-hole")
            assert (await http.get("/healthz")).status_code == 200


async def test_temporal_that_is_away_is_503_until_it_is_back(settings: Settings, state_dir: Path) -> None:
    own = TemporalServer(state_dir)
    async with serving(settings, await own.client(lazy=True)) as http:
        await _is_refused_in_time(http, "d-before")
        try:
            own.start()
            await _until_taken(http, "d-first")
            own.kill()
            await _is_refused_in_time(http, "d-down")
            assert (await http.get("/readyz")).status_code == 503
            own.start()
            await _until_taken(http, "d-after")
            deliveries = [
                event["delivery_id"] for event in await _signals(await own.client(), "default:alice/demo:issue:1")
            ]
            assert {"d-first", "d-after"} <= set(deliveries)
        finally:
            own.stop()


async def _until_taken(http: httpx.AsyncClient, delivery: str) -> None:
    async with asyncio.timeout(30):
        while (await send(http, comment(1, delivery))).status_code != 202:
            await asyncio.sleep(0.1)


async def test_the_command_serves_and_stops(server: TemporalServer, client: Client, state_dir: Path) -> None:
    port = free_port()
    ours = {"INGRESS_PORT": str(port), "STATE_DIR": str(state_dir), "WEBHOOK_SECRETS": SECRET}
    environment = os.environ | {f"CCWEB_{name}": value for name, value in ours.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable, ROOT / "cli.py", "ingress", env=environment | {"TEMPORAL_ADDRESS": server.address}
    )
    try:
        async with asyncio.timeout(30), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            while not await _is_up(http):
                await asyncio.sleep(0.05)
            assert (await send(http, comment(110, "d-110"))).status_code == 202
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 15)
    assert len(await _signals(client, "default:alice/demo:issue:110")) == 1


async def _is_up(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/healthz")).status_code == 200
    except httpx.ConnectError:
        return False
