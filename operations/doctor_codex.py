"""`ccweb doctor`: what turns need. The codex program, its sandbox and app-server, the model, gitea-mcp."""

import asyncio
import json
import os
import shlex
from typing import Any

import httpx

import preflight
import sidecar
from domain.errors import CcwebError
from operations.findings import Finding, fail, ok, skip, warn
from settings import Settings

AREA = "codex"
_LIMIT = 15.0


async def examine(settings: Settings) -> list[Finding]:
    binary, serving, endpoint, mcp = await asyncio.gather(
        program(settings), app_server(settings), model(settings), gitea_mcp(settings)
    )
    return [binary, *serving, endpoint, mcp]


async def program(settings: Settings) -> Finding:
    if not os.access(settings.codex_bin, os.X_OK):
        fix = "unset CCWEB_CODEX_BIN to use the bundled one, or set the path of codex"
        return fail(AREA, "program", f"not an executable: {settings.codex_bin}", fix)
    process = await asyncio.create_subprocess_exec(
        str(settings.codex_bin), "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    out, _ = await process.communicate()
    return ok(AREA, "program", out.decode().strip())


async def app_server(settings: Settings) -> list[Finding]:
    """A sidecar that runs has tried the sandbox at its start; otherwise it is tried now."""
    if await sidecar.answers(settings):
        return [
            ok(AREA, "app-server", f"answers at {settings.codex_socket}"),
            ok(AREA, "sandbox", "the sidecar tried it at its start"),
        ]
    away = fail(AREA, "app-server", f"nobody answers at {settings.codex_socket}", "start it: ccweb sidecar")
    try:
        await sidecar.try_out(settings)
    except CcwebError as error:
        fix = "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1), or see the message"
        return [away, fail(AREA, "sandbox", error.detail or str(error.code), fix)]
    return [away, ok(AREA, "sandbox", "a command runs in it")]


async def model(settings: Settings) -> Finding:
    """Lists the models: costs nothing and needs the key."""
    key = settings.model_key.get_secret_value()
    if not key:
        return fail(AREA, "model", "CCWEB_MODEL_KEY is not set", "set CCWEB_MODEL_KEY_FILE to a file with the key")
    try:
        async with httpx.AsyncClient(timeout=_LIMIT) as http:
            url = f"{settings.model_base_url}/models"
            answer = await http.get(url, headers={"Authorization": f"Bearer {key}"})
    except httpx.HTTPError as error:
        fix = "check CCWEB_MODEL_BASE_URL, the network and its proxy"
        return fail(AREA, "model", f"{settings.model_base_url}: {type(error).__name__}", fix)
    return judge_model(settings, answer)


def judge_model(settings: Settings, answer: httpx.Response) -> Finding:
    if answer.status_code in {401, 403}:
        return fail(AREA, "model", f"{settings.model_base_url} refuses the key", "check CCWEB_MODEL_KEY_FILE")
    if not answer.is_success:
        return skip(AREA, "model", f"{settings.model_base_url} answers, but lists no models ({answer.status_code})")
    names = {str(one.get("id")) for one in _listed(answer)}
    if names and settings.model not in names:
        return warn(AREA, "model", f"{settings.model!r} is not in its list", "set CCWEB_MODEL to one it offers")
    return ok(AREA, "model", f"{settings.model_base_url} takes the key")


def _listed(answer: httpx.Response) -> list[dict[str, Any]]:
    try:
        data = answer.json().get("data", [])
    except (ValueError, AttributeError):
        return []
    return [one for one in data if isinstance(one, dict)]


async def gitea_mcp(settings: Settings) -> Finding:
    """Starts it and shakes hands, as the bridge does."""
    try:
        preflight.gitea_mcp(settings)
    except CcwebError as error:
        return fail(AREA, "gitea-mcp", error.detail, "install the official gitea-mcp")
    command = [*shlex.split(settings.gitea_mcp_command), "-t", "stdio"]
    environment = {**os.environ, "GITEA_HOST": settings.gitea_url}
    environment["GITEA_ACCESS_TOKEN"] = settings.gitea_token.get_secret_value()
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        return await _shake_hands(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _shake_hands(process: asyncio.subprocess.Process) -> Finding:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "ccweb-doctor", "version": "1"},
        },
    }
    fix = "run the command by hand; is it the official gitea-mcp, and is CCWEB_GITEA_URL right?"
    if process.stdin is None or process.stdout is None:
        return fail(AREA, "gitea-mcp", "it could not be started", fix)
    try:
        process.stdin.write(json.dumps(hello).encode() + b"\n")
        await process.stdin.drain()
        line = await asyncio.wait_for(process.stdout.readline(), _LIMIT)
        about = json.loads(line)["result"]["serverInfo"]
    except (TimeoutError, ValueError, KeyError, TypeError, OSError):
        return fail(AREA, "gitea-mcp", "it started, but did not answer", fix)
    return ok(AREA, "gitea-mcp", f"{about.get('name')} {about.get('version')} answers")
