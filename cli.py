"""The command line. Heavy modules are imported inside the commands, so that each starts fast."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from domain.errors import CcwebError, lines
from operations import cli as operations_cli
from operations import terminal
from operations.asking import ask

if TYPE_CHECKING:
    from settings import Settings

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
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

    settings = _settings()
    try:
        policy = policy_of(settings, bot_name=bot, all_triggers=all_triggers)
        found = explain_file(file, policy, secret or settings.secrets)
    except CcwebError as error:
        _fail(error)
    typer.echo(json.dumps(found, ensure_ascii=False) if as_json else _page(found))


@app.command()
def ingress() -> None:
    """Take Gitea's deliveries over HTTP."""
    from ingress.server import loop_factory, run  # noqa: PLC0415

    _serve(run, loop_factory())


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
def reconcile(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be found; change nothing")] = False,
    as_json: terminal.JsonOption = False,
) -> None:
    """Look now for what Gitea never delivered; the Schedule does so by itself. A dry run needs a worker."""
    import schedules  # noqa: PLC0415

    with terminal.failing_clearly():
        if dry_run:
            report = ask(lambda client, _: schedules.reconcile_dry_run(client))
            terminal.say(report.model_dump(mode="json"), as_json, lambda: terminal.reconciled(report))
        else:
            ask(lambda client, _: schedules.reconcile_now(client))
            terminal.say({"triggered": True}, as_json, lambda: "asked; the run shows in Temporal what it found")


@app.command()
def replay(
    workflow_id: Annotated[str, typer.Argument(help="A taskId, or session/..., repository/..., control/default")],
    as_json: terminal.JsonOption = False,
) -> None:
    """Replay a workflow's history on this code: whether an upgrade would break it. Runs nothing for real."""
    from replaying import replay as replay_one  # noqa: PLC0415

    with terminal.failing_clearly():
        fault = ask(lambda client, _: replay_one(client, workflow_id))
        found = {"workflowId": workflow_id, "ok": fault is None, "fault": fault}
        terminal.say(found, as_json, lambda: "replays" if fault is None else f"BREAKS: {fault}")
        if fault is not None:
            raise typer.Exit(1)


@app.command()
def settings(
    markdown: Annotated[bool, typer.Option("--markdown", help="As docs/reference/settings.md")] = False,
) -> None:
    """List every setting: name, default, meaning."""
    from settings import reference  # noqa: PLC0415

    line = "| `{}` | {} | {} |" if markdown else "{:32} {:28} {}"
    for row in reference():
        typer.echo(line.format(*row))


def _serve(
    run: Callable[["Settings"], Coroutine[Any, Any, None]],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Runs a service. Its logs are JSON lines; what ends it early is told in lines for a person."""
    from stopping import StoppedError  # noqa: PLC0415
    from telemetry import configure_logging  # noqa: PLC0415

    configure_logging()
    settings = _settings()
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(run(settings))
    except StoppedError as stopped:
        sys.exit(stopped.exit_code)
    except CcwebError as error:
        _give_up(error)
    except BaseExceptionGroup as group:
        if group.split(CcwebError)[1]:
            raise
        _give_up(group)


def _give_up(error: BaseException) -> NoReturn:
    """Ends a service that could not start; by then it may have a client of Temporal like a command that asks."""
    terminal.asked_temporal = True
    _fail(error)


def _settings() -> "Settings":
    """The settings, `.env` included."""
    from dotenv import load_dotenv  # noqa: PLC0415

    from settings import load_settings  # noqa: PLC0415

    load_dotenv(Path(__file__).parent / ".env")
    try:
        return load_settings()
    except CcwebError as error:
        _fail(error)


def _page(found: dict[str, Any]) -> str:
    return "\n".join(f"{name:12} {'-' if value is None else value}" for name, value in found.items())


def _fail(error: BaseException) -> NoReturn:
    """One clear line for each error, exit code 2."""
    for line in lines(error):
        typer.echo(f"ccweb: {line}", err=True)
    sys.exit(2)


def main(*arguments: str) -> None:
    """The whole program: with `arguments`, or with those it was started with."""
    # Until a service has its own handlers it has started nothing, so Ctrl-C may simply end it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        app(args=arguments or None, prog_name="ccweb")
    except SystemExit as end:
        if terminal.asked_temporal:
            terminal.leave(end.code if isinstance(end.code, int) else 0)
        raise


if __name__ == "__main__":
    main()
