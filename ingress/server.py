"""`ccweb ingress`: the application on its port."""

import logging

import uvicorn

import ports
from domain.errors import ErrorCode, SettingsError
from ingress.app import create_app
from settings import Settings

log = logging.getLogger("ccweb.ingress")


async def run(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; answers 503 while Temporal is away.

    Raises:
        SettingsError: no webhook secret is set, or the port cannot be opened.
    """
    check(settings)
    with ports.listen(settings.ingress_host, settings.ingress_port, setting="CCWEB_INGRESS_PORT") as listener:
        log.info("ingress started", extra={"host": settings.ingress_host, "port": listener.getsockname()[1]})
        config = uvicorn.Config(
            create_app(settings),
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=5,
        )
        await uvicorn.Server(config).serve(sockets=[listener])


def check(settings: Settings) -> None:
    """Fails early on what no delivery could pass.

    Raises:
        SettingsError: no webhook secret is set.
    """
    if not settings.secrets:
        raise SettingsError(
            ErrorCode.SETTINGS_INVALID,
            "CCWEB_WEBHOOK_SECRETS or CCWEB_WEBHOOK_SECRETS_FILE: not set; every delivery would be refused",
        )
