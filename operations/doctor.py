"""`ccweb doctor`: everything that makes first set-ups fail, and what to do about it."""

import asyncio
from pathlib import Path

import httpx
from temporalio.client import Client

from operations import doctor_codex, doctor_gitea, doctor_host, doctor_temporal
from operations.findings import Finding, fail, ok
from settings import Settings

_LIMIT = 5.0


async def examine(client: Client, settings: Settings, env_file: Path, repo: str | None = None) -> list[Finding]:
    """Looks at everything at once and changes nothing but the sidecar's own configuration files."""
    parts = await asyncio.gather(
        doctor_host.examine(settings, env_file),
        doctor_temporal.examine(client, settings),
        doctor_gitea.examine(settings, repo),
        doctor_codex.examine(settings),
        ingress(settings),
    )
    return [finding for part in parts for finding in part]


async def ingress(settings: Settings) -> list[Finding]:
    """Whether a delivery that came now would be taken."""
    area = "ingress"
    if not settings.secrets:
        fix = "set CCWEB_WEBHOOK_SECRETS_FILE to a file with a long random text, the same as in the webhook"
        return [fail(area, "secret", "CCWEB_WEBHOOK_SECRETS is not set: every delivery is refused", fix)]
    url = f"http://{settings.ingress_host}:{settings.ingress_port}/readyz"
    try:
        async with httpx.AsyncClient(timeout=_LIMIT) as http:
            answer = await http.get(url)
    except httpx.HTTPError:
        return [fail(area, "ready", f"nobody answers at {url}", "start it: ccweb ingress")]
    if not answer.is_success:
        return [fail(area, "ready", answer.text[:200], "see the message")]
    return [ok(area, "ready", f"{url} is ready")]
