"""`ccweb dev`, `worker` and `ingress` where something is missing, wrong, taken or away."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

import embedded
import ports
from demo.scene import Scene
from demo.stack import Ports, Stack
from tests.conftest import scratch_dir
from tests.e2e.starting import Command, ccweb, command, processes_of
from tests.e2e.temporal_server import TemporalServer

pytestmark = pytest.mark.asyncio(loop_scope="module")
NOBODY = "127.0.0.1:1"
SET = "not set (in the environment, or in .env as .env.example shows)"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outside() -> AsyncIterator[Stack]:
    """What `dev` needs and does not start itself: Gitea with the bot, and a model."""
    with scratch_dir() as directory:
        stack = Stack(directory, Ports.any())
        try:
            await stack.start("gitea", "model")
            async with httpx.AsyncClient() as http:
                await Scene(stack, http).seed()
            yield stack
        finally:
            await stack.stop()


def dev(stack: Stack, state: Path, **settings: str) -> AbstractAsyncContextManager[Command]:
    """`./run dev` with its Temporal on other ports than the usual, which somebody else here may use."""
    environment = stack.environment() | {"CCWEB_STATE_DIR": str(state)} | settings
    change = f"dev.TEMPORAL_PORT, dev.TEMPORAL_UI_PORT = {stack.ports.temporal}, {stack.ports.temporal_ui}"
    return command("-c", f"import cli, dev; {change}; cli.app(['dev'], prog_name='ccweb')", **environment)


async def test_dev_starts_all_and_a_second_one_is_told_at_once(outside: Stack, state_dir: Path) -> None:
    async with dev(outside, state_dir) as first:
        await first.until("Ctrl-C stops everything")
        async with dev(outside, state_dir) as second:
            assert await second.ended() == 2
        assert f"ccweb: another dev runs with the state folder {state_dir};" in second.said
        assert second.said.count("\n") == 1
        async with dev(outside, state_dir / "other") as elsewhere:
            assert await elsewhere.ended() == 2
        assert f"ccweb: port {outside.ports.ingress} is taken (CCWEB_INGRESS_PORT)\n" in elsewhere.said
        assert "starting" not in elsewhere.said
        assert await first.stop(signal.SIGINT) == 0
    assert await processes_of(state_dir) == []
    for part in ("sidecar", "worker", "ingress"):
        lines = (state_dir / "logs" / f"{part}.log").read_text("utf-8").splitlines()
        assert lines and [line for line in lines if not line.startswith("{")] == []
        assert [line for line in lines if json.loads(line)["level"].lower() != "info"] == []


async def test_a_signal_while_dev_starts_stops_all(outside: Stack, state_dir: Path) -> None:
    async with dev(outside, state_dir) as started:
        await started.until("starting worker")
        assert await started.stop(signal.SIGTERM) == 128 + signal.SIGTERM
    assert "ccweb:" not in started.said and await processes_of(state_dir) == []


async def test_dev_tells_each_thing_to_mend_on_a_line_and_starts_nothing(state_dir: Path) -> None:
    wrong = {"CCWEB_GITEA_TOKEN": "x", "CCWEB_GITEA_URL": f"http://{NOBODY}", "CCWEB_GITEA_MCP_COMMAND": "/nowhere"}
    code, said = await ccweb("dev", CCWEB_STATE_DIR=str(state_dir), PATH="/usr/bin:/bin", **wrong)
    assert code == 2
    lines = [line for line in said.splitlines() if "is taken" not in line]
    assert [line.split(" ")[1].rstrip(":") for line in lines] == [
        "CCWEB_WEBHOOK_SECRETS", "CCWEB_MODEL_KEY", "CCWEB_GITEA_MCP_COMMAND", "CCWEB_GITEA_URL",
    ]  # fmt: skip
    assert all(line.startswith("ccweb: ") and line.count("ccweb:") == 1 for line in lines)
    assert lines[-1].endswith("Connection refused; start Gitea, or set its address")
    assert not (state_dir / "logs").exists()


@pytest.mark.parametrize(
    ("token", "expected"),
    [("wrong", "CCWEB_GITEA_TOKEN: Gitea refuses it; make one as the bot"), ("owner", "it belongs to alice, but")],
)
async def test_dev_tells_a_token_that_is_not_the_bots(
    outside: Stack, state_dir: Path, token: str, expected: str
) -> None:
    file = state_dir / "token"
    file.write_text(outside.secrets.owner_token if token == "owner" else token, encoding="utf-8")
    async with dev(outside, state_dir, CCWEB_GITEA_TOKEN_FILE=str(file)) as started:
        assert await started.ended() == 2
    assert expected in started.said and "starting" not in started.said


@pytest.mark.parametrize("argv", [("worker.py",), ("cli.py", "worker")])
async def test_a_worker_without_settings_says_what_is_missing(argv: tuple[str, ...], state_dir: Path) -> None:
    async with command(*argv, CCWEB_STATE_DIR=str(state_dir)) as started:
        assert await started.ended() == 2
    assert started.said == f"ccweb: CCWEB_GITEA_TOKEN or CCWEB_GITEA_TOKEN_FILE: {SET}\n"


async def test_a_worker_waits_for_temporal_and_says_so(state_dir: Path) -> None:
    port = ports.free_port()
    settings = {"CCWEB_GITEA_TOKEN": "x", "CCWEB_STATE_DIR": str(state_dir), "TEMPORAL_ADDRESS": f"127.0.0.1:{port}"}
    async with command("cli.py", "worker", **settings) as worker:
        why = "Connection refused; start it or set TEMPORAL_ADDRESS"
        await worker.until(f"Temporal at 127.0.0.1:{port} cannot be reached: {why}")
        temporal = await embedded.start(embedded.temporal_program(state_dir / "temporal", port, ports.free_port()))
        try:
            await worker.until('"worker started"')
            assert await worker.stop(signal.SIGTERM) == 0
        finally:
            await temporal.stop()


async def test_a_worker_that_waits_ends_at_a_signal(state_dir: Path) -> None:
    settings = {"CCWEB_GITEA_TOKEN": "x", "CCWEB_STATE_DIR": str(state_dir), "TEMPORAL_ADDRESS": NOBODY}
    async with command("cli.py", "worker", **settings) as worker:
        await worker.until("trying again")
        assert await worker.stop(signal.SIGINT) == 128 + signal.SIGINT
    assert "Traceback" not in worker.said


async def test_a_worker_refuses_a_namespace_that_cannot_work(state_dir: Path) -> None:
    server = TemporalServer(state_dir)
    server.start()
    try:
        await server.client()
        settings = {"CCWEB_GITEA_TOKEN": "x", "CCWEB_STATE_DIR": str(state_dir), "TEMPORAL_ADDRESS": server.address}
        bare = await ccweb("worker", **settings)
        missing = await ccweb("worker", **settings, TEMPORAL_NAMESPACE="nowhere")
    finally:
        server.stop()
    assert bare[0] == missing[0] == 2
    assert "ccweb: Temporal's namespace 'default' lacks ccweb's search attributes" in bare[1]
    assert "docs/reference/search-attributes.md" in bare[1]
    assert missing[1] == "ccweb: Temporal has no namespace 'nowhere'; create it, or set TEMPORAL_NAMESPACE\n"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, f"CCWEB_WEBHOOK_SECRETS or CCWEB_WEBHOOK_SECRETS_FILE: {SET}"),
        ({"CCWEB_WEBHOOK_SECRETS": " "}, f"CCWEB_WEBHOOK_SECRETS or CCWEB_WEBHOOK_SECRETS_FILE: {SET}"),
        ({"CCWEB_GITEA_URL": "gitea"}, "CCWEB_GITEA_URL: must begin with http:// or https://"),
        (
            {"CCWEB_WEBHOOK_SECRETS": "s", "TEMPORAL_ADDRESS": "bad address"},
            "TEMPORAL_ADDRESS: 'bad address': invalid target URL: invalid international domain name",
        ),
    ],
)
async def test_an_ingress_that_could_take_nothing_does_not_start(settings: dict[str, str], expected: str) -> None:
    assert await ccweb("ingress", **settings) == (2, f"ccweb: {expected}\n")


async def test_an_ingress_without_temporal_starts_says_so_and_answers_503() -> None:
    port = ports.free_port()
    settings = {"CCWEB_WEBHOOK_SECRETS": "s", "CCWEB_INGRESS_PORT": str(port), "TEMPORAL_ADDRESS": NOBODY}
    async with command("cli.py", "ingress", **settings) as ingress:
        await ingress.until(f"Temporal at {NOBODY} cannot be reached: Connection refused")
        taken = await ccweb("ingress", **settings)
        async with httpx.AsyncClient() as http:
            ready = await http.get(f"http://127.0.0.1:{port}/readyz")
        assert await ingress.stop(signal.SIGINT) == 128 + signal.SIGINT
    assert taken == (2, f"ccweb: port {port} is taken (CCWEB_INGRESS_PORT)\n")
    assert ready.status_code == 503
    assert "\\u001b" not in ingress.said and "Traceback" not in ingress.said
