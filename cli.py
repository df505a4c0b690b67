"""The command line. Heavy modules are imported inside the commands, so that each starts fast."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from domain.errors import CcwebError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def ccweb() -> None:
    """Durable coding-agent sessions for self-hosted Gitea, on Temporal."""


@app.command()
def explain(
    file: Annotated[Path, typer.Argument(help="A captured delivery: {method, headers, body}")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on one line")] = False,
    secret: Annotated[list[str] | None, typer.Option(help="Webhook secret; default CCWEB_WEBHOOK_SECRETS")] = None,
    bot: Annotated[str | None, typer.Option(help="Login of the bot; default CCWEB_BOT_NAME")] = None,
    all_triggers: Annotated[bool, typer.Option("--all-triggers", help="As if every trigger were enabled")] = False,
) -> None:
    """Say what ingress would do with a delivery, and why."""
    from ingress.explain import explain as explain_file  # noqa: PLC0415
    from ingress.policy import policy_of  # noqa: PLC0415
    from settings import load_settings  # noqa: PLC0415

    try:
        settings = load_settings()
        policy = policy_of(settings, bot_name=bot, all_triggers=all_triggers)
        found = explain_file(file, policy, secret or settings.secrets)
    except CcwebError as error:
        _fail(error)
    typer.echo(json.dumps(found, ensure_ascii=False) if as_json else _page(found))


@app.command()
def ingress() -> None:
    """Take Gitea's deliveries over HTTP."""
    import uvicorn  # noqa: PLC0415

    from ingress.app import create_app  # noqa: PLC0415
    from settings import load_settings  # noqa: PLC0415
    from telemetry import configure_logging  # noqa: PLC0415

    configure_logging()
    try:
        settings = load_settings()
    except CcwebError as error:
        _fail(error)
    uvicorn.run(
        create_app(settings),
        host=settings.ingress_host,
        port=settings.ingress_port,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=5,
    )


def _page(found: dict[str, Any]) -> str:
    return "\n".join(f"{name:12} {'-' if value is None else value}" for name, value in found.items())


def _fail(error: CcwebError) -> NoReturn:
    """One clear line, exit code 2."""
    typer.echo(f"ccweb: {error.detail or error}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    app(prog_name="ccweb")
