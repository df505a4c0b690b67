"""`ccweb sidecar`: owns the Codex app-server and brings it back when it dies (design section 12).

It is a process of its own because it must outlive the worker: a worker that restarts in mid-turn attaches to
the same turn. Stop it with SIGTERM: the app-server finishes its running turns first.
"""

import asyncio
import logging
import os
import shutil
import signal
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import tomli_w

from clients import codex
from domain.errors import CodexError, ErrorCode, SettingsError
from locks import only_one
from settings import Settings, require

log = logging.getLogger("ccweb.sidecar")
PROVIDER = "ccweb"
_FORBIDDEN_ROOTS = tuple(Path(name).resolve() for name in ("/tmp",))  # noqa: S108
_LONGEST_SOCKET_PATH = 100
_START_LIMIT = 30.0
_BACKOFF = (0.1, 0.5, 1, 2, 5, 10, 30)
_STEADY = 60.0
"""An app-server that ran this long starts the back-off anew; seconds."""
_DRAIN = 3600.0
_POLL = 0.2


async def run(settings: Settings) -> None:
    """Supervises until SIGTERM or SIGINT.

    Raises:
        SettingsError: the state folder, the socket's path or the codex program cannot work.
        CodexError: sandbox_unavailable, commands cannot be sandboxed on this host.
    """
    check(settings)
    stop = Stop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.ask)
    with only_one(settings.state_dir, "sidecar"):
        # Under the lock: the app-server of another sidecar reads these files at each request.
        prepare(settings)
        await _check_sandbox(settings)
        told = asyncio.create_task(_tell_started(settings))
        try:
            if await answers(settings):
                await _adopt(settings, stop)
            await _supervise(settings, stop)
        finally:
            told.cancel()


async def _tell_started(settings: Settings) -> None:
    """Says once that the app-server can be used; who starts the sidecar waits for this line."""
    while not await answers(settings):
        await asyncio.sleep(_POLL)
    log.info("sidecar started", extra={"socket": str(settings.codex_socket)})


async def try_out(settings: Settings) -> None:
    """What `run` checks, without starting anything.

    Raises:
        SettingsError: as `run`.
        CodexError: sandbox_unavailable.
    """
    check(settings)
    with only_one(settings.state_dir, "sidecar"):
        prepare(settings)
        await _check_sandbox(settings)


class Stop:
    """The first signal lets running turns end, the second does not wait for them."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()

    def ask(self) -> None:
        (self.at_once if self.asked.is_set() else self.asked).set()


def check(settings: Settings) -> None:
    """Fails early on what no restart can mend.

    Raises:
        SettingsError: see `run`.
    """
    state = settings.state_dir.resolve()
    if any(state.is_relative_to(root) for root in _FORBIDDEN_ROOTS):
        raise SettingsError(ErrorCode.SETTINGS_INVALID, "CCWEB_STATE_DIR: must not lie under /tmp")
    if len(str(settings.codex_socket)) > _LONGEST_SOCKET_PATH:
        raise SettingsError(ErrorCode.SETTINGS_INVALID, "CCWEB_CODEX_SOCKET: the path is longer than 100 characters")
    if not os.access(settings.codex_bin, os.X_OK):
        raise SettingsError(ErrorCode.SETTINGS_INVALID, f"CCWEB_CODEX_BIN: not an executable: {settings.codex_bin}")
    require(settings, "model_key")


def prepare(settings: Settings) -> None:
    """Writes CODEX_HOME's config and the model key's file, both readable by this user only."""
    for folder in (settings.state_dir, settings.codex_home, settings.secret_dir, settings.lease_dir):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_secret(settings.secret_dir / "model-key", settings.model_key.get_secret_value())
    (settings.codex_home / "config.toml").write_text(tomli_w.dumps(_config(settings)), encoding="utf-8")


def _config(settings: Settings) -> dict[str, object]:
    """The app-server's root configuration; what belongs to a thread is sent with the thread."""
    provider = {
        "name": PROVIDER,
        "base_url": settings.model_base_url,
        "wire_api": "responses",
        "auth": {"command": "/bin/cat", "args": [str(settings.secret_dir / "model-key")]},
        "request_max_retries": 1,
        "stream_max_retries": 1,
        "stream_idle_timeout_ms": int(settings.silence_timeout * 1000),
    }
    return {
        "model": settings.model,
        "model_provider": PROVIDER,
        "approval_policy": "never",
        "default_permissions": ":read-only",
        "project_doc_max_bytes": 0,
        "web_search": "disabled",
        "allow_login_shell": False,
        "thread_unload_delay_secs": 1,
        "shell_environment_policy": {"inherit": "core"},
        "features": {"unbounded_connection_retries": False, "goals": False, "multi_agent": False},
        "model_providers": {PROVIDER: provider},
    }


def _write_secret(path: Path, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(value)


def environment(settings: Settings) -> dict[str, str]:
    """The app-server's whole environment: no key, no token, and a PATH without git (it would run
    `git status` over the agent's tree outside the sandbox at each turn).
    """
    kept = {
        name: os.environ[name] for name in ("LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ
    }
    home = str(settings.codex_home)
    return {**kept, "HOME": home, "CODEX_HOME": home, "PATH": str(_path(settings)), "LOG_FORMAT": "json"}


def _path(settings: Settings) -> Path:
    """A folder with nothing but bubblewrap: without any on PATH Codex complains and takes its own all the same."""
    folder = settings.state_dir / "app-server-path"
    folder.mkdir(exist_ok=True)
    bundled = settings.codex_bin.resolve().parent.parent / "codex-resources" / "bwrap"
    bwrap = str(bundled) if bundled.exists() else shutil.which("bwrap")
    link = folder / "bwrap"
    if bwrap and not (link.is_symlink() and str(link.readlink()) == bwrap):
        link.unlink(missing_ok=True)
        link.symlink_to(bwrap)
    return folder


async def _adopt(settings: Settings, stop: Stop) -> None:
    """An app-server outlived a killed sidecar: its turns go on, so it is watched until it ends."""
    pid = int(_pid_file(settings).read_text(encoding="utf-8"))
    log.warning("app-server adopted", extra={"pid": pid})
    await _first(_gone(pid), stop.asked.wait())
    for number, wait in ((signal.SIGTERM, stop.at_once.wait()), (signal.SIGKILL, asyncio.sleep(_START_LIMIT))):
        if _alive(pid):
            os.kill(pid, number)
        await _first(_gone(pid), wait)


async def _gone(pid: int) -> None:
    """Until a process that is no child of ours has ended."""
    while _alive(pid):
        await asyncio.sleep(_POLL)


async def _supervise(settings: Settings, stop: Stop) -> None:
    failures = 0
    while not stop.asked.is_set():
        began = time.monotonic()
        process = await _spawn(settings)
        _pid_file(settings).write_text(str(process.pid), encoding="utf-8")
        log.info("app-server started", extra={"pid": process.pid})
        await _first(process.wait(), stop.asked.wait())
        if stop.asked.is_set():
            await _drain(process, stop)
            return
        failures = 0 if time.monotonic() - began > _STEADY else failures + 1
        delay = _BACKOFF[min(failures, len(_BACKOFF) - 1)]
        log.error("app-server ended", extra={"exitCode": process.returncode, "restartIn": delay})
        await _first(stop.asked.wait(), asyncio.sleep(delay))


async def _first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Until the first of them is over."""
    tasks = [asyncio.create_task(one) for one in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


def _pid_file(settings: Settings) -> Path:
    return settings.state_dir / "app-server.pid"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def _spawn(settings: Settings) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        str(settings.codex_bin),
        "app-server",
        "--listen",
        f"unix://{settings.codex_socket}",
        env=environment(settings),
        cwd=settings.codex_home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )


async def _drain(process: asyncio.subprocess.Process, stop: Stop) -> None:
    """SIGTERM lets running turns end; a second signal, or an hour, ends the app-server at once."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    await _first(process.wait(), stop.at_once.wait(), asyncio.sleep(_DRAIN))
    if process.returncode is None:
        process.kill()
        await process.wait()


async def _check_sandbox(settings: Settings) -> None:
    """Runs a trivial command in Codex's sandbox: without one, no turn may ever start.

    Raises:
        CodexError: sandbox_unavailable.
    """
    process = await asyncio.create_subprocess_exec(
        str(settings.codex_bin),
        "sandbox",
        "/bin/sh",
        "-c",
        "exit 0",
        env=environment(settings),
        cwd=settings.codex_home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(process.communicate(), _START_LIMIT)
    if process.returncode:
        detail = errors.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise CodexError(ErrorCode.SANDBOX_UNAVAILABLE, detail[0])


async def answers(settings: Settings) -> bool:
    """Whether the app-server shakes hands on its socket."""
    try:
        async with codex.connect(settings.codex_socket, 2):
            return True
    except CodexError:
        return False
