"""The operators' commands. They talk to Temporal directly: who may run them on the host may do everything.

Exit codes: 0 done; 1 the answer is no (not legal now, a check failed); 2 wrong usage or settings; 3 there is no
such thing; 4 Temporal cannot be reached.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from domain.errors import CcwebError, ErrorCode
from operations.operators import FILE, Operators, Role

JsonOption = Annotated[bool, typer.Option("--json", help="JSON instead of text")]
_EXIT = {
    ErrorCode.ILLEGAL_STATE: 1,
    ErrorCode.REQUEST_ID_REUSED: 1,
    ErrorCode.NOT_FOUND: 3,
    ErrorCode.TEMPORAL_UNAVAILABLE: 4,
}
_USAGE = 2
operators = typer.Typer(no_args_is_help=True, help="Who may use the HTTP API.")


def register(app: typer.Typer) -> None:
    app.add_typer(operators, name="operator")


@operators.command("add")
def add_operator(
    name: str,
    role: Annotated[str, typer.Option(help="viewer, operator or admin")] = "operator",
    as_json: JsonOption = False,
) -> None:
    """Make an operator and print the token, once: it is kept nowhere."""
    with failing_clearly():
        token = _operators().add(name, _role(role))
        _say({"name": name, "role": role, "token": token}, as_json, token)


@operators.command("list")
def list_operators(as_json: JsonOption = False) -> None:
    """Show names and roles."""
    with failing_clearly():
        found = [
            {"name": one.name, "role": one.role.name.lower(), "createdAt": one.created_at.isoformat()}
            for one in _operators().all()
        ]
        _say(found, as_json, "\n".join("{name:24} {role:10} {createdAt}".format(**row) for row in found))


@operators.command("remove")
def remove_operator(name: str, as_json: JsonOption = False) -> None:
    """Make an operator's token worthless at once."""
    with failing_clearly():
        _operators().remove(name)
        _say({"removed": name}, as_json, f"removed {name}")


@contextmanager
def failing_clearly() -> Iterator[None]:
    """One line on stderr and the exit code of the error."""
    try:
        yield
    except CcwebError as error:
        typer.echo(f"ccweb: {error.code}: {error.detail}" if error.detail else f"ccweb: {error.code}", err=True)
        sys.exit(_EXIT.get(error.code, _USAGE))


def _say(found: Any, as_json: bool, text: str) -> None:
    typer.echo(json.dumps(found, ensure_ascii=False) if as_json else text)


def _role(name: str) -> Role:
    try:
        return Role[name.upper()]
    except KeyError:
        raise CcwebError(ErrorCode.INVALID_REQUEST, f"{name!r} is no role: viewer, operator, admin") from None


def _operators() -> Operators:
    from dotenv import load_dotenv  # noqa: PLC0415

    from settings import load_settings  # noqa: PLC0415

    load_dotenv(Path(__file__).parent.parent / ".env")
    return Operators(load_settings().state_dir / FILE)
