"""`ccweb explain` as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
WEBHOOKS = ROOT / "tests" / "data" / "webhooks"


def _ccweb(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CCWEB_")}
    command = [sys.executable, "cli.py", "explain", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=clean | environment, capture_output=True, text=True, check=False, timeout=60
    )


def _json(*arguments: str, **environment: str) -> dict[str, object]:
    found = _ccweb(*arguments, "--json", **environment)
    assert found.returncode == 0, found.stderr
    answer: dict[str, object] = json.loads(found.stdout)
    return answer


def test_secret_and_policy_come_from_flags() -> None:
    file = str(WEBHOOKS / "comment_edited_adds_mention.json")
    few = {"CCWEB_TRIGGERS": "comment review"}
    assert _json(file, "--secret", "lab-webhook-secret")["code"] == "accepted"
    assert _json(file, "--secret", "lab-webhook-secret", **few)["code"] == "not_enabled"
    assert _json(file, "--secret", "lab-webhook-secret", "--all-triggers", **few)["code"] == "accepted"
    assert _json(file, "--secret", "lab-webhook-secret", "--bot", "alice")["code"] == "own_event"
    assert _json(file, "--secret", "another")["code"] == "invalid_signature"


def test_secret_and_policy_come_from_settings() -> None:
    file = str(WEBHOOKS / "comment_by_outsider.json")
    secret = {"CCWEB_WEBHOOK_SECRETS": "old lab-webhook-secret"}
    assert _json(file, **secret)["code"] == "insufficient_permission"
    assert _json(file, **secret, CCWEB_ALLOWED_AUTHORS="Carol")["code"] == "accepted"


def test_without_a_secret_the_answer_says_what_is_missing() -> None:
    assert "CCWEB_WEBHOOK_SECRETS" in str(_json(str(WEBHOOKS / "comment_mention.json"))["reason"])


def test_the_page_for_people_has_every_field() -> None:
    page = _ccweb(str(WEBHOOKS / "comment_mention.json"), "--secret", "lab-webhook-secret").stdout
    assert [line.split()[0] for line in page.splitlines()][:2] == ["decision", "code"]
    assert "default:alice/demo:issue:1" in page


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"method": "POST", "headers": {}, "body": 1}', "\x00"])
def test_a_bad_file_is_one_clear_line(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "delivery.json"
    if content is not None:
        file.write_text(content)
    found = _ccweb(str(file))
    assert (found.returncode, found.stdout) == (2, "")
    assert len(found.stderr.splitlines()) == 1
    assert "delivery.json" in found.stderr


def test_a_wrong_setting_is_named() -> None:
    found = _ccweb(str(WEBHOOKS / "comment_mention.json"), CCWEB_MINIMUM_PERMISSION="some")
    assert found.returncode == 2
    assert "CCWEB_MINIMUM_PERMISSION" in found.stderr


def test_it_starts_without_the_heavy_parts() -> None:
    imports = "import sys, cli, ingress.explain, policy"
    code = f"{imports}; sys.exit(bool({{'temporalio', 'fastapi'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=60).returncode == 0
