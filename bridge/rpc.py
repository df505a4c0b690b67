"""JSON-RPC over lines of text, both sides of the bridge. Standard library only."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO

PARSE_ERROR, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL = -32700, -32601, -32602, -32603
START_FAILED = -32001
REMOVED = "[removed]"

Message = dict[str, Any]


class RpcError(Exception):
    """An error answer; `code` is JSON-RPC's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def scrub(text: str, secret: str) -> str:
    """The text without the secret."""
    return text.replace(secret, REMOVED) if secret else text


def read(stream: Iterable[str]) -> Iterator[Message | None]:
    """Each message of the stream until its end; None for a line that is no JSON object."""
    for line in stream:
        if not line.strip():
            continue
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        yield message if isinstance(message, dict) else None


class Writer:
    """Writes whole messages from any thread; nothing that leaves holds the secret."""

    def __init__(self, stream: TextIO, secret: str) -> None:
        self._stream, self._secret = stream, secret
        self._lock = threading.Lock()

    def __call__(self, message: Message) -> None:
        """Sends one message.

        Raises:
            OSError, ValueError: the other side is gone.
        """
        line = scrub(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=True), self._secret)
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()


class Answer:
    """The one answer of a request: the first wins, whether it is the result or the limit's."""

    def __init__(self, write: Callable[[Message], None], identity: Any) -> None:
        self._write, self._identity = write, identity
        self._lock = threading.Lock()
        self.given = False

    def result(self, result: Message) -> None:
        self._give({"result": result})

    def error(self, error: RpcError) -> None:
        self._give({"error": {"code": error.code, "message": str(error)}})

    def _give(self, fields: Message) -> None:
        with self._lock:
            if self.given:
                return
            self.given = True
        self._write({"id": self._identity, **fields})


def text_result(text: str, *, is_error: bool = False) -> Message:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}
