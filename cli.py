"""The command line. Heavy modules are imported inside the commands, so that each starts fast."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from domain.errors import CcwebError
from operations import cli as operations_cli

if TYPE_CHECKING:
    from settings import Settings

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
operations_cli.register(app)


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
    from policy import policy_of  # noqa: PLC0415
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

    settings = _service_settings()
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


@app.command()
def worker() -> None:
    """Run workflows and activities of this host."""
    from worker import run  # noqa: PLC0415

    _serve(run)


@app.command()
def sidecar() -> None:
    """Own the Codex app-server of this host; must outlive the worker."""
    from sidecar import run  # noqa: PLC0415

    _serve(run)


@app.command()
def dev() -> None:
    """Run everything here with an embedded Temporal, your Gitea and your model."""
    from dev import run  # noqa: PLC0415

    _serve(run)


@app.command()
def settings(
    markdown: Annotated[bool, typer.Option("--markdown", help="As docs/reference/settings.md")] = False,
) -> None:
    """List every setting: name, default, meaning."""
    from settings import reference  # noqa: PLC0415

    line = "| `{}` | {} | {} |" if markdown else "{:32} {:28} {}"
    for row in reference():
        typer.echo(line.format(*row))


def _serve(run: Callable[["Settings"], Coroutine[Any, Any, None]]) -> None:
    settings = _service_settings()
    try:
        asyncio.run(run(settings))
    except* CcwebError as group:
        _fail(_first(group))
    except* RuntimeError as errors:
        typer.echo(f"ccweb: {errors.exceptions[0]}", err=True)
        sys.exit(2)


def _first(group: BaseExceptionGroup[CcwebError]) -> CcwebError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


def _service_settings() -> "Settings":
    """The settings of a long-running process, `.env` included; its logs are JSON lines."""
    from dotenv import load_dotenv  # noqa: PLC0415

    from settings import load_settings  # noqa: PLC0415
    from telemetry import configure_logging  # noqa: PLC0415

    load_dotenv(Path(__file__).parent / ".env")
    configure_logging()
    try:
        return load_settings()
    except CcwebError as error:
        _fail(error)


def _page(found: dict[str, Any]) -> str:
    return "\n".join(f"{name:12} {'-' if value is None else value}" for name, value in found.items())


def _fail(error: CcwebError) -> NoReturn:
    """One clear line, exit code 2."""
    typer.echo(f"ccweb: {error.detail or error}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    app(prog_name="ccweb")
