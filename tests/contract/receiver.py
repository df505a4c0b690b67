"""A receiver of webhooks that behaves as its paths say."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE = 30


@dataclass
class Arrived:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """`/ok...` answers 204, `/500` fails, `/302` redirects to `/ok-302`, `/hang` never answers until `let_go`."""

    url: str = ""
    arrived: list[Arrived] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)

    def at(self, path: str) -> list[Arrived]:
        return [one for one in self.arrived if one.path == path]


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = self.rfile.read(length)
            receiver.arrived.append(Arrived(self.command, self.path, dict(self.headers), body))
            if self.path == "/hang":
                receiver.let_go.wait(PATIENCE)
            status = {"/500": 500, "/302": 302}.get(self.path, 204)
            with contextlib.suppress(OSError):
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/ok-302")
                self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            receiver.let_go.set()
            server.shutdown()
            thread.join()
