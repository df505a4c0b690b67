"""A real ingress process under hostile input: documented answers only, bounded memory, no lost signal."""

import asyncio
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

from domain import ids
from tests.e2e.ingress_harness import ROUTE, SECRET, comment, send
from tests.e2e.temporal_server import TemporalServer, free_port

ROOT = Path(__file__).parent.parent.parent
MEGABYTE = 1024 * 1024


@dataclass
class Ingress:
    port: int
    pid: int
    http: httpx.AsyncClient
    client: Client

    def peak(self) -> int:
        """The most bytes that were resident since `reset`."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024

    def reset(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


@pytest.fixture
async def ingress(state_dir: Path) -> AsyncIterator[Ingress]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        server = TemporalServer(Path(directory))
        server.start()
        client = await server.client()
        port = free_port()
        ours = {"INGRESS_PORT": str(port), "STATE_DIR": str(state_dir), "WEBHOOK_SECRETS": SECRET}
        environment = os.environ | {f"CCWEB_{name}": value for name, value in ours.items()}
        process = await asyncio.create_subprocess_exec(
            sys.executable, ROOT / "cli.py", "ingress", env=environment | {"TEMPORAL_ADDRESS": server.address}
        )
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
                await _until_up(http)
                yield Ingress(port, process.pid, http, client)
        finally:
            process.terminate()
            await asyncio.wait_for(process.wait(), 15)
            server.stop()


async def _until_up(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(httpx.TransportError):
                if (await http.get("/readyz")).status_code == 200:
                    return
            await asyncio.sleep(0.05)


async def _unfinished(port: int, size: int) -> int:
    """Sends all but the last byte of a body; the status that came back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {ROUTE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\r\n"
    try:
        writer.write(head.encode() + b"[" * (size - 1))
        return int((await reader.readline()).split()[1])
    finally:
        writer.transport.abort()


async def _is_in_history(client: Client, number: int, delivery: str) -> bool:
    session = ids.session_workflow_id(f"default:alice/demo:issue:{number}")
    events = client.get_workflow_handle(session).fetch_history_events()
    return any([delivery.encode() in event.SerializeToString() async for event in events])


async def test_many_slow_large_bodies_take_little_memory_and_no_delivery_is_lost(ingress: Ingress) -> None:
    assert (await send(ingress.http, comment(300, "d-300"))).status_code == 202
    ingress.reset()
    before = ingress.peak()
    slow = [asyncio.create_task(_unfinished(ingress.port, 7 * MEGABYTE)) for _ in range(60)]
    usual = await asyncio.gather(*(send(ingress.http, comment(301 + n, f"d-{301 + n}")) for n in range(10)))
    assert set(await asyncio.gather(*slow)) <= {400, 503}
    assert ingress.peak() - before < 200 * MEGABYTE
    assert [answer.status_code for answer in usual] == [202] * 10
    for n in range(10):
        assert await _is_in_history(ingress.client, 301 + n, f"d-{301 + n}")
    large = await ingress.http.post(ROUTE, content=b"[" * 7 * MEGABYTE, headers={"content-type": "application/json"})
    assert large.status_code == 401  # There is room again.


async def test_thirty_megabytes_are_refused_without_being_held(ingress: Ingress) -> None:
    ingress.reset()
    before = ingress.peak()

    async def refused() -> int:
        try:
            headers = {"content-type": "application/json"}
            return (await ingress.http.post(ROUTE, content=b" " * 30 * MEGABYTE, headers=headers)).status_code
        except httpx.WriteError:  # Cut while it was still sending: refused all the same.
            return 413

    assert set(await asyncio.gather(*(refused() for _ in range(6)))) == {413}
    assert ingress.peak() - before < 40 * MEGABYTE


ODD = [b"FOO / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"POST /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
       b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n" % ROUTE.encode(),
       b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab" % ROUTE.encode(),
       b"TRACE %b HTTP/1.1\r\nhost: x\r\n\r\n" % ROUTE.encode(), b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n",
       b"POST /%%00/%%ff/..%%2f HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"]  # fmt: skip


async def test_odd_requests_get_a_documented_answer(ingress: Ingress) -> None:
    for raw in ODD:
        reader, writer = await asyncio.open_connection("127.0.0.1", ingress.port)
        writer.write(raw)
        line = await asyncio.wait_for(reader.readline(), 15)
        writer.transport.abort()
        assert int(line.split()[1]) in {400, 404, 405}, (raw, line)
    assert (await send(ingress.http, comment(320, "d-320"))).status_code == 202
