"""`ccweb doctor`, `repo add` and `setup` on a whole running stack: what is right, and each thing that is not."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import embedded
from demo.scene import Scene
from demo.stack import BOT
from domain import ids
from domain.audit import AuditEvent
from domain.audit_chain import chain
from operations import archive, doctor_temporal, setup
from tests.conftest import scratch_dir
from tests.e2e.temporal_server import TemporalServer, free_port
from tests.harness import deliveries, finished, running_scene, temporal

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    with scratch_dir() as directory:
        async with running_scene(directory) as scene:
            yield scene


async def ccweb(scene: Scene, *arguments: str, **changed: str) -> tuple[int, Any]:
    """The real program with the stack's settings; returns its exit code and JSON."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "cli.py", *arguments, "--json", cwd=embedded.ROOT, env=scene.stack.environment() | changed,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert out, err.decode()
    return process.returncode or 0, json.loads(out)


def verdicts(found: list[dict[str, Any]]) -> dict[str, str]:
    """The worst verdict of each check."""
    order = ["ok", "skip", "warn", "fail"]
    worst: dict[str, str] = {}
    for one in found:
        worst[one["check"]] = max(worst.get(one["check"], "ok"), one["verdict"], key=order.index)
    return worst


def of(found: list[dict[str, Any]], check: str) -> dict[str, Any]:
    """The first finding of a check that is not ok."""
    return next(one for one in found if one["check"] == check and one["verdict"] != "ok")


async def test_a_running_stack_is_healthy(scene: Scene) -> None:
    code, found = await ccweb(scene, "doctor")
    assert code == 0, [one for one in found if one["verdict"] == "fail"]
    told = verdicts(found)
    assert told.pop("retention") == "warn" and told.pop("webhook") in {"ok", "skip"}
    assert {check for check, verdict in told.items() if verdict != "ok"} == set()
    assert {
        "git", "disk", "secret files", "server", "search attributes", "workers", "wedged workflows", "bot and token",
        "version", "token scopes", "repository", "program", "sandbox", "app-server", "model", "gitea-mcp", "ready",
    } <= told.keys()  # fmt: skip
    assert not [one["detail"] for one in found for secret in secrets_of(scene) if secret in json.dumps(one)]


def secrets_of(scene: Scene) -> list[str]:
    stack = scene.stack
    return [stack.secrets.bot_token, stack.secrets.webhook, stack.secrets.model_key]


async def test_what_is_away_or_wrong_is_named_with_its_fix(scene: Scene, state_dir: Path) -> None:
    key = state_dir / "key"
    key.write_text("sk-wrong", encoding="utf-8")
    key.chmod(0o644)
    code, found = await ccweb(
        scene, "doctor",
        CCWEB_MODEL_KEY_FILE=str(key),
        CCWEB_GITEA_MCP_COMMAND="/bin/cat-that-is-not-there",
        CCWEB_CODEX_SOCKET=str(state_dir / "nobody.sock"),
        CCWEB_STATE_DIR=str(state_dir / "state"),
        CCWEB_INGRESS_PORT=str(free_port()),
    )  # fmt: skip
    assert code == 1
    told = verdicts(found)
    for check in ("secret files", "workers", "model", "gitea-mcp", "app-server", "ready"):
        assert told[check] == "fail", check
        assert of(found, check)["fix"]
    assert of(found, "secret files")["fix"] == f"chmod 600 {key}"
    assert told["sandbox"] == "ok"


@pytest.mark.parametrize(
    ("changed", "check", "says"),
    [
        ({"CCWEB_GITEA_URL": "http://127.0.0.1:9"}, "bot and token", "cannot be reached"),
        ({"CCWEB_GITEA_TOKEN": "0" * 40, "CCWEB_GITEA_TOKEN_FILE": ""}, "bot and token", "Gitea refuses it"),
        ({"CCWEB_BOT_NAME": "somebody"}, "bot and token", f"it belongs to {BOT}"),
        ({"TEMPORAL_ADDRESS": "127.0.0.1:9"}, "server", "connect"),
        ({"TEMPORAL_NAMESPACE": "nowhere"}, "namespace", "does not exist"),
    ],
)
async def test_a_wrong_setting_is_named(scene: Scene, changed: dict[str, str], check: str, says: str) -> None:
    code, found = await ccweb(scene, "doctor", **changed)
    assert code == 1
    wrong = of(found, check)
    assert wrong["verdict"] == "fail" and says in wrong["detail"] and wrong["fix"]


async def test_a_paused_schedule_is_told_with_the_command_that_mends_it(scene: Scene) -> None:
    client = await temporal(scene)
    schedule = client.get_schedule_handle(ids.RECONCILE_SCHEDULE_ID)
    await schedule.pause()
    _, found = await ccweb(scene, "doctor")
    await schedule.unpause()
    assert "paused" in of(found, "schedules")["detail"] and "--unpause" in of(found, "schedules")["fix"]


async def test_a_token_without_a_scope_is_found_by_trying(scene: Scene) -> None:
    token = "5" * 40
    few = ["read:user", "read:repository", "write:issue"]
    seeded = {"users": [{"login": BOT, "token": token, "scopes": few}]}
    (await scene.http.post(f"{scene.stack.gitea_url}/_sim/seed", json=seeded)).raise_for_status()
    code, found = await ccweb(scene, "doctor", CCWEB_GITEA_TOKEN=token, CCWEB_GITEA_TOKEN_FILE="")
    assert code == 1
    wrong = [one for one in found if one["check"] == "token scopes" and one["verdict"] == "fail"]
    assert [one["detail"] for one in wrong] == ["the token lacks write:repository"]


async def hooks(scene: Scene, repo: str) -> list[dict[str, Any]]:
    headers = {"authorization": f"token {scene.stack.secrets.owner_token}"}
    answer = await scene.http.get(f"{scene.stack.gitea_url}/api/v1/repos/{repo}/hooks", headers=headers)
    found: list[dict[str, Any]] = answer.json()
    return found


async def test_repo_add_makes_mends_and_tests_the_webhook(scene: Scene, state_dir: Path) -> None:
    repo = scene.full_name
    before = await hooks(scene, repo)
    code, found = await ccweb(scene, "repo", "add", repo)
    assert code == 1 and "may not make webhooks" in of(found, "webhook")["detail"]
    token = state_dir / "owner-token"
    token.write_text(scene.stack.secrets.owner_token, encoding="utf-8")
    for _ in range(2):
        code, found = await ccweb(scene, "repo", "add", repo, "--token-file", str(token))
        assert (code, verdicts(found)) == (0, {"webhook": "ok", "delivery": "ok"})
    assert len(await hooks(scene, repo)) == max(1, len(before))
    unreachable = f"http://127.0.0.1:{free_port()}/api/gitea/webhook"
    code, found = await ccweb(
        scene, "repo", "add", repo, "--token-file", str(token), "--url", unreachable, "--wait", "2"
    )
    assert code == 1 and "ALLOWED_HOST_LIST" in of(found, "delivery")["fix"]
    made = next(hook for hook in await hooks(scene, repo) if hook["config"]["url"] == unreachable)
    headers = {"authorization": f"token {scene.stack.secrets.owner_token}"}
    await scene.http.delete(f"{scene.stack.gitea_url}/api/v1/repos/{repo}/hooks/{made['id']}", headers=headers)
    code, found = await ccweb(
        scene,
        "repo",
        "add",
        repo,
        "--token-file",
        str(token),
        CCWEB_WEBHOOK_SECRETS="x",
        CCWEB_WEBHOOK_SECRETS_FILE="",
    )
    assert code == 1 and "signature does not fit" in of(found, "delivery")["detail"]
    code, found = await ccweb(scene, "repo", "add", repo, "--token-file", str(token))
    assert code == 0
    code, found = await ccweb(scene, "repo", "add", "nobody/nothing", "--token-file", str(token))
    assert code == 1


async def test_the_trail_of_a_real_task_leads_to_its_comment_in_gitea(scene: Scene) -> None:
    comment = await scene.comment(f"@{BOT} [[script:reply-only]]")
    assert await finished(scene, comment) == "succeeded"
    delivery = next(
        one["id"] for one in await deliveries(scene)
        if json.loads(one["body"]).get("comment", {}).get("id") == comment
    )  # fmt: skip
    _, told = await ccweb(scene, "audit", "show", "--delivery", delivery)
    task = next(event["taskId"] for event in told if event["action"] == "task.start")
    _, told = await ccweb(scene, "audit", "show", "--task", task)
    proven = chain([AuditEvent.model_validate(event) for event in told], delivery)
    [answer] = await scene.answers(task)
    assert proven.comment_id == answer["id"]
    assert f"turnId={proven.turn_id}" in answer["body"] and proven.thread_id
    calls = [event for event in told if event["action"] == "mcp.call" and event["eventId"].startswith("journal/")]
    assert [event["metadata"]["phase"] for event in calls] == ["intent", "result"]
    code, shown = await ccweb(scene, "task", task)
    assert code == 0 and shown["commentId"] == answer["id"] and shown["turns"][0]["status"] == "completed"
    code, done = await ccweb(scene, "audit", "export")
    assert code == 0 and archive.verify(scene.stack.state_dir / archive.FOLDER, {done["seq"]: done["head"]}).ok
    code, sound = await ccweb(scene, "audit", "verify")
    assert code == 0 and sound["ok"]


async def test_setup_writes_private_files_once_and_registers_what_is_missing(scene: Scene, state_dir: Path) -> None:
    token = state_dir / "token"
    token.write_text(scene.stack.secrets.bot_token, encoding="utf-8")
    env = state_dir / ".env"
    env.write_text("OTHER=kept\nCCWEB_MODEL=old\n", encoding="utf-8")
    settings = {"CCWEB_STATE_DIR": str(state_dir / "state"), "CCWEB_WEBHOOK_SECRETS_FILE": ""}
    arguments = ["setup", "--yes", "--token-file", str(token), "--model", "m-1", "--env-file", str(env)]
    code, told = await ccweb(scene, *arguments, **settings)
    assert code == 0 and told["searchAttributes"] == [] and told["operatorToken"].startswith("ccweb_")
    given = state_dir / "state" / "given"
    assert (given / "gitea-token").read_text(encoding="utf-8").strip() == scene.stack.secrets.bot_token
    secret = (given / "webhook-secrets").read_text(encoding="utf-8")
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in [*given.iterdir(), env])
    lines = env.read_text(encoding="utf-8").splitlines()
    assert "OTHER=kept" in lines and "CCWEB_MODEL=m-1" in lines and "CCWEB_MODEL=old" not in lines
    assert scene.stack.secrets.bot_token not in env.read_text(encoding="utf-8")
    code, told = await ccweb(scene, *arguments, **settings)
    assert code == 0 and told["operatorToken"] is None
    assert (given / "webhook-secrets").read_text(encoding="utf-8") == secret
    assert env.read_text(encoding="utf-8").splitlines() == lines


async def test_missing_search_attributes_are_found_and_registered(state_dir: Path) -> None:
    server = TemporalServer(state_dir)
    server.start()
    try:
        client = await server.client()
        found = await doctor_temporal.attributes(client)
        assert {one.verdict for one in found} == {"fail"} and len(found) == 7
        assert found[0].fix.startswith("temporal operator search-attribute create --name CcwebState")
        assert len(await setup.register_attributes(client)) == 7
        assert await setup.register_attributes(client) == []
        assert [one.verdict for one in await doctor_temporal.attributes(client)] == ["ok"]
    finally:
        server.stop()
