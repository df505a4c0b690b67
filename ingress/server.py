"""`ccweb ingress`: the application on its port."""

import asyncio
import logging
import socket
from collections.abc import Callable

import uvicorn
from temporalio.client import Client
from uvicorn.loops.auto import auto_loop_factory

import metrics
import ports
from connection import TemporalUnavailableError, connect
from gateway import DEADLINE
from ingress import gauges
from ingress.app import create_app
from settings import Settings, require

_NAME = "ccweb-ingress"
log = logging.getLogger("ccweb.ingress")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop of the ingress: uvloop where there is one."""
    return auto_loop_factory()


async def run(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; answers 503 while Temporal is away.

    Raises:
        SettingsError: no webhook secret is set, Temporal's address is wrong, or the port cannot be opened.
    """
    check(settings)
    pump = metrics.configure(_NAME)
    async with metrics.pumping(pump):
        await _serve(settings)


async def _serve(settings: Settings) -> None:
    with listen(settings) as listener:
        client = await _client()
        log.info("ingress started", extra={"host": settings.ingress_host, "port": listener.getsockname()[1]})
        async with gauges.watching(client):
            await _server(settings, client).serve(sockets=[listener])


def listen(settings: Settings) -> socket.socket:
    """The listening socket of the ingress.

    Raises:
        SettingsError: it cannot be opened.
    """
    host, port = settings.ingress_host, settings.ingress_port
    return ports.listen(host, port, port_hint=" (CCWEB_INGRESS_PORT)", host_hint=" (CCWEB_INGRESS_HOST)")


def _server(settings: Settings, client: Client) -> uvicorn.Server:
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(settings, client, lambda: server.should_exit),
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=5,
        )
    )
    return server


async def _client() -> Client:
    """A client that is connected, or one that connects once Temporal is there; each delivery until then says so.

    Raises:
        SettingsError: the address or the credentials are wrong.
    """
    try:
        async with asyncio.timeout(DEADLINE):
            return await connect(_NAME)
    except TimeoutError:
        log.warning("Temporal did not answer within %g s; deliveries get 503 until it does", DEADLINE)
    except TemporalUnavailableError as error:
        log.warning("%s; deliveries get 503 until it answers", error.detail)
    return await connect(_NAME, lazy=True)


def check(settings: Settings) -> None:
    """Fails early on what no delivery could pass.

    Raises:
        SettingsError: no webhook secret is set.
    """
    require(settings, "webhook_secrets")
