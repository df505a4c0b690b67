"""Runs a simulator's application on a port of the loopback."""

import json
import sys
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

import ports
from domain.errors import SettingsError


def serve(port: int, application: Callable[[str], ASGIApp], log_level: str) -> None:
    """Binds, says where in one JSON line, then serves until a signal. `application` gets its own address."""
    try:
        listener = ports.listen(ports.LOOPBACK, port)
    except SettingsError as error:
        sys.exit(f"ccweb: {error.detail}")
    with listener:
        url = f"http://{ports.LOOPBACK}:{listener.getsockname()[1]}"
        config = uvicorn.Config(application(url), log_level=log_level)
        print(json.dumps({"url": url}), flush=True)  # noqa: T201
        uvicorn.Server(config).run(sockets=[listener])
