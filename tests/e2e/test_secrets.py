"""Canary secrets appear nowhere: not on disk, not in histories, logs, prompts, comments, process lists, and not to
commands that the model runs. Each place first shows a planted word, so that a blind search cannot pass.
"""

import asyncio
import base64
import contextlib
import json
from pathlib import Path

import pytest

from demo.scene import Scene
from demo.stack import BOT
from operations.operators import FILE, Operators, Role, hash_of
from tests.harness import finished, play, release, running_scene, temporal, until_asked

PLANTED = "planted-word-7c1f"
_OWN_PLACES = {"secrets", "gitea"}
"""Where secrets belong: our own secret files, and Gitea's database."""


def _spy(scene: Scene) -> str:
    """A command that looks wherever a curious model would."""
    secret, state = scene.stack.directory / "secrets", scene.stack.state_dir
    return "; ".join(
        (
            f"echo {PLANTED}",
            "env",
            "cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'",
            f"cat {secret}/* {state}/secrets/* {state}/codex/config.toml {state}/bridge/* {state}/leases/*",
            f"grep -r GITEA {state}/codex {scene.stack.directory}/logs",
            f"cat {state}/operators.json {state}/audit/* {state}/ingress-audit.jsonl",
            "ps aux",
            f"echo forged > {state}/leases/1.json",
        )
    )


def _forms(secret: str) -> tuple[bytes, ...]:
    return secret.encode(), base64.b64encode(secret.encode()).rstrip(b"="), secret[::-1].encode()


def _files(root: Path) -> list[Path]:
    return [
        path
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and not _OWN_PLACES & set(path.relative_to(root).parts)
    ]


def _contents(root: Path) -> dict[str, bytes]:
    """What the files hold; one that ends while it is looked at (a journal of SQLite) holds nothing."""
    found = {}
    for path in _files(root):
        with contextlib.suppress(FileNotFoundError):
            found[str(path)] = path.read_bytes()
    return found


async def _command_lines_beside_a_planted_one() -> bytes:
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", f"sleep 60; : {PLANTED}")
    try:
        return _command_lines()
    finally:
        process.kill()
        await process.wait()


def _command_lines() -> bytes:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:
            continue
    return b"\n".join(lines)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="reads /proc")
async def test_no_secret_is_anywhere_but_where_it_belongs(state_dir: Path) -> None:
    async with running_scene(state_dir) as scene:
        token = Operators(scene.stack.state_dir / FILE).add("olga", Role.ADMIN)
        spying = {"say": PLANTED, "exec": _spy(scene)}
        answering = {"mcp": "reply", "arguments": {"body": f"{PLANTED} {{output}}"}}
        await play(scene, spy=[spying, {"exec": f"true # {PLANTED}", "gate": "spied"}, answering])
        comment = await scene.comment(f"@{BOT} [[script:spy]] {PLANTED}")
        await until_asked(scene, "spy", 1)
        command_lines = await _command_lines_beside_a_planted_one()
        await release(scene, "spied")
        assert await finished(scene, comment) == "succeeded"
        places = {
            **_contents(scene.stack.directory),
            "comments": json.dumps(await scene.comments()).encode(),
            "prompts": (await scene.http.get(f"{scene.stack.model_url}/_sim/requests?bodies=1")).content,
            "histories": await _histories(scene),
            "command lines": command_lines,
        }
        secrets = scene.stack.secrets
        assert not (scene.stack.state_dir / "leases" / "1.json").exists()
    for needed in ("state/codex/", "logs/worker.log", "comments", "prompts", "histories", "command lines"):
        assert any(needed in name and PLANTED.encode() in content for name, content in places.items()), needed
    assert hash_of(token) not in str([places["comments"], places["prompts"]])
    for secret in (secrets.bot_token, secrets.model_key, secrets.webhook, token):
        found = [name for name, content in places.items() if any(form in content for form in _forms(secret))]
        assert found == []


async def test_the_search_finds_a_secret_that_is_there(state_dir: Path) -> None:
    (state_dir / "leak.bin").write_bytes(b"\0" + base64.b64encode(b"sk-canary-of-this-test") + b"\0")
    (leak,) = _files(state_dir)
    assert any(form in leak.read_bytes() for form in _forms("sk-canary-of-this-test"))


async def _histories(scene: Scene) -> bytes:
    client = await temporal(scene)
    texts = []
    async for one in client.list_workflows():
        history = await client.get_workflow_handle(one.id, run_id=one.run_id).fetch_history()
        for event in history.events:
            payload = event.SerializeToString()
            texts.append(payload)
    return b"\n".join(texts)
