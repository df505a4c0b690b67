"""A whole embedded installation with simulated Gitea and model: what the demo and the end-to-end tests run.

Temporal, the Codex app-server and ccweb's own processes are the real ones.
"""

import asyncio
import os
import secrets
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

import embedded
import ports
from embedded import PortTakenError, Program, Running

BOT = "ccweb-bot"
WAVES = (("temporal", "model", "gitea"), ("sidecar", "worker", "ingress"))
PARTS = tuple(part for wave in WAVES for part in wave)
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Ports:
    temporal: int
    temporal_ui: int
    gitea: int
    model: int
    ingress: int

    @classmethod
    def free(cls) -> "Ports":
        """The usual ports where they are free, others elsewhere."""
        return cls(*(ports.free_port(usual) for usual in (7233, 8233, 3000, 8787, 8484)))

    @classmethod
    def any(cls) -> "Ports":
        """Any free ports: many stacks may run side by side."""
        return cls(*(ports.free_port() for _ in range(5)))


@dataclass(frozen=True, slots=True)
class Secrets:
    """Made anew for each stack."""

    bot_token: str = field(default_factory=lambda: secrets.token_hex(20), repr=False)
    owner_token: str = field(default_factory=lambda: secrets.token_hex(20), repr=False)
    outsider_token: str = field(default_factory=lambda: secrets.token_hex(20), repr=False)
    webhook: str = field(default_factory=lambda: secrets.token_hex(20), repr=False)
    model_key: str = field(default_factory=lambda: "sk-" + secrets.token_hex(20), repr=False)


@dataclass(slots=True)
class Stack:
    """Starts, kills and restarts the parts by name; `directory` lies outside /tmp and holds all state."""

    directory: Path
    ports: Ports
    secrets: Secrets = field(default_factory=Secrets)
    settings: dict[str, str] = field(default_factory=dict)
    """Extra `CCWEB_*` variables of ccweb's processes."""
    running: dict[str, Running] = field(default_factory=dict)

    @property
    def gitea_url(self) -> str:
        return f"http://127.0.0.1:{self.ports.gitea}"

    @property
    def model_url(self) -> str:
        return f"http://127.0.0.1:{self.ports.model}"

    @property
    def ingress_url(self) -> str:
        return f"http://127.0.0.1:{self.ports.ingress}"

    @property
    def temporal_address(self) -> str:
        return f"127.0.0.1:{self.ports.temporal}"

    @property
    def state_dir(self) -> Path:
        return self.directory / "state"

    def log(self, part: str) -> Path:
        return self.directory / "logs" / f"{part}.log"

    async def start(self, *parts: str, announce: Callable[[str], None] = lambda _: None) -> None:
        """Starts the named parts, or all; what others need comes first, the rest of a wave side by side.

        Raises:
            ExceptionGroup: of StartError, when a part did not become ready.
        """
        self._write_files()
        for wave in WAVES:
            async with asyncio.TaskGroup() as group:
                for part in wave:
                    if part in (parts or PARTS):
                        group.create_task(self._start(part, announce))

    async def start_anywhere(self, announce: Callable[[str], None] = lambda _: None) -> None:
        """Starts all parts; on other ports when somebody took one between the look and the start.

        Raises:
            ExceptionGroup: of StartError, as `start`.
        """
        for _ in range(_ATTEMPTS):
            try:
                return await self.start(announce=announce)
            except ExceptionGroup as errors:
                await self.stop()
                if not errors.split(PortTakenError)[0]:
                    raise
                self.ports = Ports.any()
        return await self.start(announce=announce)

    async def _start(self, part: str, announce: Callable[[str], None]) -> None:
        self.running[part] = await embedded.start(self._program(part))
        announce(part)

    async def stop(self, *parts: str) -> None:
        """Stops the named parts, or all, in the reverse order."""
        for part in parts or reversed(PARTS):
            if part in self.running:
                await self.running.pop(part).stop()

    async def kill(self, part: str) -> None:
        """SIGKILL; `start` brings the part back."""
        await self.running.pop(part).kill()

    def environment(self) -> dict[str, str]:
        """The environment of ccweb's processes: settings, secrets as files, the address of Temporal."""
        own = {
            "CCWEB_STATE_DIR": str(self.state_dir),
            "CCWEB_GITEA_URL": self.gitea_url,
            "CCWEB_BOT_NAME": BOT,
            "CCWEB_GITEA_TOKEN_FILE": str(self._secret("bot-token")),
            "CCWEB_WEBHOOK_SECRETS_FILE": str(self._secret("webhook")),
            "CCWEB_MODEL_KEY_FILE": str(self._secret("model-key")),
            "CCWEB_MODEL": "scripted-1",
            "CCWEB_MODEL_BASE_URL": f"{self.model_url}/v1",
            "CCWEB_GITEA_MCP_COMMAND": str(self.directory / "bin" / "gitea-mcp"),
            "CCWEB_INGRESS_PORT": str(self.ports.ingress),
            "CCWEB_TEMPORAL_UI_URL": f"http://127.0.0.1:{self.ports.temporal_ui}",
            "CCWEB_COMMAND_PATH": f"{Path(sys.executable).resolve().parent}:/usr/local/bin:/usr/bin:/bin",
            "CCWEB_LANGUAGE": "en",
            "TEMPORAL_ADDRESS": self.temporal_address,
        }
        return embedded.python_env(**own, **self.settings)

    def _secret(self, name: str) -> Path:
        return self.directory / "secrets" / name

    def _write_files(self) -> None:
        values = {
            "bot-token": self.secrets.bot_token,
            "webhook": self.secrets.webhook,
            "model-key": self.secrets.model_key,
        }
        self._secret("").mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, value in values.items():
            self._secret(name).write_text(value, encoding="utf-8")
            self._secret(name).chmod(0o600)
        command = self.directory / "bin" / "gitea-mcp"
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(f'#!/bin/sh\nSIM_GITEA_MCP_VERSION=2026-03 exec {_gitea_mcp()} "$@"\n', encoding="utf-8")
        command.chmod(stat.S_IRWXU)

    def _program(self, part: str) -> Program:
        match part:
            case "temporal":
                return embedded.temporal_program(
                    self.directory / "temporal", self.ports.temporal, self.ports.temporal_ui
                )
            case "gitea":
                return self._simulator("gitea", self.ports.gitea, "--root", str(self.directory / "gitea"))
            case "model":
                return self._simulator("model", self.ports.model, "--key-file", str(self._secret("model-key")))
            case "ingress":
                return embedded.ccweb_program(part, self.environment(), self.log(part), self._ingress_ready)
            case _:
                return embedded.ccweb_program(part, self.environment(), self.log(part))

    def _simulator(self, name: str, port: int, *arguments: str) -> Program:
        argv = [sys.executable, "-m", f"simulators.{name}", "--port", str(port), *arguments]
        return Program(name, argv, embedded.python_env(), self.log(name), says='{"url":')

    async def _ingress_ready(self) -> bool:
        return await _answers(f"{self.ingress_url}/readyz")


def _gitea_mcp() -> str:
    """The simulator, or a real gitea-mcp where CONTRACT_GITEA_MCP names its command."""
    simulated = f"'{sys.executable}' -I '{embedded.ROOT}/simulators/gitea_mcp/main.py'"
    return os.environ.get("CONTRACT_GITEA_MCP") or simulated


async def _answers(url: str) -> bool:
    try:
        async with httpx.AsyncClient() as client:
            return (await client.get(url, timeout=1)).is_success
    except httpx.HTTPError:
        return False


def scratch() -> Path:
    """Where stacks live: outside /tmp, because the sandbox hides it and Codex refuses a home there."""
    return Path(os.environ.get("CCWEB_SCRATCH", "/var/tmp"))  # noqa: S108
