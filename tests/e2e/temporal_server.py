"""The real Temporal dev server as a process of its own, which a test may kill."""

import asyncio
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

TEMPORAL = Path(sys.executable).with_name("temporal")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class TemporalServer:
    """A server whose database is a file in `directory`; it may be started again after `kill`."""

    directory: Path
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        arguments = ["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "never"]
        where = ["--port", str(self.port), "--db-filename", str(self.directory / "temporal.db")]
        self._process = subprocess.Popen([TEMPORAL, *arguments, *where], stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(20)
            self._process = None

    async def client(self, *, lazy: bool = False) -> Client:
        """A client; unless lazy, waits until the server answers."""
        while True:
            try:
                return await Client.connect(self.address, data_converter=pydantic_data_converter, lazy=lazy)
            except RuntimeError:
                await asyncio.sleep(0.05)
