"""`ccweb doctor`, `setup` and `repo add`: from nothing to a first answer."""

import asyncio
import getpass
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from domain.errors import CcwebError, ErrorCode
from operations import terminal
from operations.asking import ENV_FILE, ask, read_settings
from operations.findings import Finding, healthy
from operations.terminal import JsonOption, failing_clearly, say

repos = typer.Typer(no_args_is_help=True, help="Repositories that ccweb works for.")
_NAME = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")


def register(app: typer.Typer) -> None:
    """Adds these commands to the program."""
    app.command()(doctor)
    app.command()(setup)
    app.add_typer(repos, name="repo")


def doctor(
    repo: Annotated[str | None, typer.Option(help="owner/name to look at; default the bot's first")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check everything that makes first set-ups fail; say how to mend it."""
    from operations import doctor as examination  # noqa: PLC0415

    with failing_clearly():
        found = ask(lambda client, settings: examination.examine(client, settings, ENV_FILE, repo))
        _tell(found, as_json)


@repos.command("add")
def add_repository(
    name: Annotated[str, typer.Argument(help="owner/name")],
    url: Annotated[str | None, typer.Option(help="Where Gitea reaches the ingress; default as it listens")] = None,
    token_file: Annotated[Path | None, typer.Option(help="Token of an admin of it; default the bot's")] = None,
    wait: Annotated[float, typer.Option(help="Seconds that the test delivery has to arrive")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Make the webhook of a repository, or mend it, and send a test delivery through it."""
    from operations import webhooks  # noqa: PLC0415

    with failing_clearly():
        if not _NAME.fullmatch(name):
            raise CcwebError(ErrorCode.INVALID_REQUEST, f"{name!r} is no owner/name")
        settings = read_settings()
        address = url or f"http://{settings.ingress_host}:{settings.ingress_port}{webhooks.PATHS[0]}"
        token = _read(token_file) if token_file else settings.gitea_token.get_secret_value()
        _tell(asyncio.run(webhooks.add(settings, token, name, address, wait)), as_json)


def setup(
    gitea_url: Annotated[str | None, typer.Option(help="Address of Gitea")] = None,
    bot: Annotated[str | None, typer.Option(help="Login of the bot account")] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with the bot's token")] = None,
    model: Annotated[str | None, typer.Option(help="Model slug")] = None,
    model_url: Annotated[str | None, typer.Option(help="Responses API endpoint")] = None,
    key_file: Annotated[Path | None, typer.Option(help="File with the model's key")] = None,
    env_file: Annotated[Path, typer.Option(help="Where settings are written")] = ENV_FILE,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; keep what is set")] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask for what is needed, write .env and secret files, register search attributes, make the first operator."""
    from operations import setup as first  # noqa: PLC0415

    with failing_clearly():
        now = read_settings()
        token, key = _read(token_file) if token_file else "", _read(key_file) if key_file else ""
        if not yes:
            gitea_url = gitea_url or typer.prompt("Address of Gitea", default=now.gitea_url)
            bot = bot or typer.prompt("Login of the bot", default=now.bot_name)
            token = token or _secret("The bot's token", bool(now.gitea_token.get_secret_value()))
            model_url = model_url or typer.prompt("Responses API endpoint", default=now.model_base_url)
            model = model or typer.prompt("Model", default=now.model)
            key = key or _secret("Key of the model endpoint", bool(now.model_key.get_secret_value()))
        answers = first.Answers(
            gitea_url or now.gitea_url,
            bot or now.bot_name,
            token,
            model or now.model,
            model_url or now.model_base_url,
            key,
        )
        files = first.write_secrets(now.state_dir / "given", answers)
        first.write_env(env_file, first.env_of(answers, files))
        operator_token = first.first_operator(now.state_dir, _operator_name())
        registered = ask(lambda client, _: first.register_attributes(client))
        told = {"env": str(env_file), "searchAttributes": registered, "operatorToken": operator_token}
        say(told, as_json, lambda: _summary(env_file, registered, operator_token))


def _summary(env_file: Path, registered: Sequence[str], operator_token: str | None) -> str:
    lines = [f"wrote {env_file} and the files it names"]
    lines += [f"registered {', '.join(registered)}"] if registered else []
    lines += [f"token of the HTTP API, shown once: {operator_token}"] if operator_token else []
    return "\n".join([*lines, "next: ccweb doctor, then ccweb repo add OWNER/NAME"])


def _operator_name() -> str:
    return re.sub(r"[^a-z0-9._-]", "-", getpass.getuser().lower()).lstrip("._-") or "admin"


def _secret(what: str, there: bool) -> str:
    """Typed without echo; an empty answer keeps what is there."""
    hint = " (empty: keep the one that is set)" if there else ""
    value: str = typer.prompt(f"{what}{hint}", default="", hide_input=True, show_default=False)
    return value.strip()


def _read(path: Path) -> str:
    value = path.read_text(encoding="utf-8").strip()
    if not value:
        raise CcwebError(ErrorCode.INVALID_REQUEST, f"{path} is empty")
    return value


def _tell(found: Sequence[Finding], as_json: bool) -> None:
    say([finding.shown() for finding in found], as_json, lambda: terminal.findings(found))
    if not healthy(found):
        raise typer.Exit(1)
