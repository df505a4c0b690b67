"""The ingress runs on the fast event loop and HTTP parser; without them it is half as fast again."""

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ingress.server import loop_factory


def test_the_loop_is_uvloop() -> None:
    loop = loop_factory()()
    try:
        assert isinstance(loop, uvloop.Loop)
    finally:
        loop.close()


def test_http_is_parsed_by_httptools() -> None:
    config = uvicorn.Config("ingress.app:create_app", log_config=None)
    config.load()
    assert config.http_protocol_class is HttpToolsProtocol
