"""Notices by Apprise to a real HTTP receiver."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from activities.notify import MOST, NotifyActivities
from domain.errors import ErrorCode
from domain.events import Notice
from settings import load_settings

SECRET = "topsecretword"


class Receiver:
    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"json://ops:{SECRET}@127.0.0.1:{self.server.server_port}/"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    ready = Receiver()
    thread = threading.Thread(target=ready.server.serve_forever, args=(0.02,))
    thread.start()
    yield ready
    ready.server.shutdown()
    thread.join()
    ready.server.server_close()


def notifier(urls: str, **more: Any) -> NotifyActivities:
    return NotifyActivities(load_settings(notify_urls=urls, language="en", **more))


def failed(number: int = 1) -> Notice:
    return Notice(
        kind="failed",
        task_id=f"gitea-task-{number:016x}",
        session_key="default:acme/widget:issue:1",
        error_code=ErrorCode.MODEL_QUOTA_EXCEEDED,
    )


async def test_a_failure_is_told_with_its_code_and_where_to_look(receiver: Receiver) -> None:
    await notifier(receiver.url, public_url="http://ccweb.test").notify(failed())
    [got] = receiver.got
    assert got["title"] == "ccweb: A task failed"
    for part in (
        "default:acme/widget:issue:1",
        "model_quota_exceeded",
        f"http://ccweb.test/tasks/{failed().task_id}",
    ):
        assert part in got["message"]


async def test_the_same_is_told_once_and_many_are_counted(receiver: Receiver) -> None:
    ours = notifier(receiver.url)
    for _ in range(3):
        await ours.notify(failed())
    assert len(receiver.got) == 1
    for number in range(2, MOST + 5):
        await ours.notify(failed(number))
    assert len(receiver.got) == MOST


async def test_what_was_left_out_is_said_with_the_next_notice(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = notifier(receiver.url)
    for number in range(MOST + 3):
        await ours.notify(failed(number))
    monkeypatch.setattr("activities.notify.WITHIN", 0.0)
    await ours.notify(failed(99))
    assert "3 more were not sent" in receiver.got[-1]["message"]


@pytest.mark.parametrize("urls", ["nonsense", f"json://ops:{SECRET}@127.0.0.1:1/"])
async def test_a_notifier_that_fails_is_logged_without_its_secret(
    urls: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        await notifier(urls).notify(failed())
    assert "a notice could not be sent" in caplog.text
    assert SECRET not in caplog.text


async def test_a_refused_notice_raises_nothing(receiver: Receiver) -> None:
    receiver.status = 500
    await notifier(receiver.url).notify(failed())
    assert len(receiver.got) == 1


async def test_nothing_is_sent_unless_it_is_set() -> None:
    settings = load_settings()
    assert settings.notify_urls.get_secret_value() == ""
    await NotifyActivities(settings).notify(failed())
