"""The operators' commands. They talk to Temporal directly: who may run them on the host may do everything.

Exit codes: 0 done; 1 the answer is no (not legal now, a check failed); 2 wrong usage or settings; 3 there is no
such thing; 4 Temporal cannot be reached.
"""

import getpass
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from domain.errors import CcwebError, ErrorCode
from domain.states import TaskState
from operations import setup_cli, terminal
from operations.asking import ask, read_settings
from operations.operators import FILE, Operators, Role
from operations.terminal import JsonOption, failing_clearly, say

if TYPE_CHECKING:
    from temporalio.client import Client

    from domain.audit import AuditEvent
    from operations.commands import Order
    from operations.trail import Filters
    from settings import Settings

Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; it stands in the audit trail")]
RequestId = Annotated[str | None, typer.Option(help="Repeated with the same, the call gets its first answer")]
operators = typer.Typer(no_args_is_help=True, help="Who may use the HTTP API.")
audits = typer.Typer(no_args_is_help=True, help="The audit trail and its archive.")


def register(app: typer.Typer) -> None:
    """Adds these commands to the program."""
    for command in (overview, tasks, task, cancel, abort, retry, unblock, pause, resume, disable, enable):
        app.command()(command)
    setup_cli.register(app)
    app.add_typer(audits, name="audit")
    app.add_typer(operators, name="operator")


def overview(as_json: JsonOption = False) -> None:
    """Pause, queues, workers, and what is not as it should be."""
    from operations import reads  # noqa: PLC0415

    with failing_clearly():
        found = ask(lambda client, _: reads.overview(client))
        say(found.shown(), as_json, lambda: terminal.overview(found))


def tasks(
    repo: Annotated[str | None, typer.Option(help="owner/name")] = None,
    resource: Annotated[str | None, typer.Option(help="default:owner/name:issue:42")] = None,
    state: Annotated[TaskState | None, typer.Option(help="Only tasks in this state")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    cursor: Annotated[str | None, typer.Option(help="nextCursor of the page before")] = None,
    as_json: JsonOption = False,
) -> None:
    """List tasks, open ones first, newest first."""
    from operations import reads  # noqa: PLC0415

    with failing_clearly():
        found = ask(
            lambda client, _: reads.tasks(
                client, repo=repo, resource=resource, state=state, cursor=cursor, limit=limit
            )
        )
        say(found.shown(), as_json, lambda: terminal.tasks(found))


def task(task_id: str, as_json: JsonOption = False) -> None:
    """Show one task: its moves, turns, comments and error."""
    from operations import trail  # noqa: PLC0415

    with failing_clearly():
        found = ask(lambda client, _: trail.task(client, task_id))
        say(found.shown(), as_json, lambda: terminal.task(found))


def cancel(task_id: str, reason: Reason, request_id: RequestId = None, as_json: JsonOption = False) -> None:
    """End a task that does not run: received, queued, waiting, blocked, about to be tried again."""
    _steer(task_id, "cancel", reason, request_id, as_json)


def abort(task_id: str, reason: Reason, request_id: RequestId = None, as_json: JsonOption = False) -> None:
    """End a task that works: its turn is interrupted and its workspace freed."""
    _steer(task_id, "abort", reason, request_id, as_json)


def retry(task_id: str, reason: Reason, request_id: RequestId = None, as_json: JsonOption = False) -> None:
    """Try a task again now that waits for its next try."""
    _steer(task_id, "retry", reason, request_id, as_json)


def unblock(repo: str, reason: Reason, request_id: RequestId = None, as_json: JsonOption = False) -> None:
    """Queue the blocked tasks of a repository again: their workspace is usable."""
    from operations import commands  # noqa: PLC0415

    with failing_clearly():
        order = _order(reason, request_id)
        found = ask(lambda client, _: commands.unblock_repo(client, repo, order))
        say(found.shown(), as_json, lambda: terminal.result(found))


def pause(reason: Reason, request_id: RequestId = None, as_json: JsonOption = False) -> None:
    """Grant no more workspaces; running turns go on."""
    _switch("pause", reason, request_id, as_json)


def resume(reason: Reason, request_id: RequestId = None, as_json: JsonOption = False) -> None:
    """Grant workspaces again."""
    _switch("resume", reason, request_id, as_json)


def disable(repo: str, reason: Reason, request_id: RequestId = None, as_json: JsonOption = False) -> None:
    """Take nothing from a repository any more."""
    _switch("disable", reason, request_id, as_json, repo)


def enable(repo: str, reason: Reason, request_id: RequestId = None, as_json: JsonOption = False) -> None:
    """Take work from a repository again."""
    _switch("enable", reason, request_id, as_json, repo)


@audits.command("show")
def show_audit(  # noqa: PLR0913, PLR0917 - each is an option
    task_id: Annotated[str | None, typer.Option("--task")] = None,
    delivery: Annotated[str | None, typer.Option(help="X-Gitea-Delivery")] = None,
    resource: Annotated[str | None, typer.Option(help="default:owner/name:issue:42")] = None,
    repo: Annotated[str | None, typer.Option(help="owner/name")] = None,
    thread: Annotated[str | None, typer.Option(help="threadId")] = None,
    turn: Annotated[str | None, typer.Option(help="turnId")] = None,
    comment: Annotated[int | None, typer.Option(help="commentId")] = None,
    actor: Annotated[str | None, typer.Option(help="admin:olga, gitea:user:alice, system")] = None,
    action: Annotated[str | None, typer.Option(help="task.move, turn.run, ...")] = None,
    since: Annotated[datetime | None, typer.Option(formats=terminal.TIMES, help="UTC")] = None,
    until: Annotated[datetime | None, typer.Option(formats=terminal.TIMES, help="UTC")] = None,
    archived: Annotated[bool, typer.Option("--archive", help="Read this host's archive, not Temporal")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what happened, filtered by any id and time."""
    from operations import trail  # noqa: PLC0415

    filters = trail.Filters(
        task_id, delivery, resource, repo, thread, turn, comment, actor, action,
        terminal.utc(since), terminal.utc(until),
    )  # fmt: skip
    with failing_clearly():
        if archived:
            found = trail.of_archive(read_settings(), filters)
        else:
            found = ask(lambda client, settings: _all_pages(client, settings, filters))
        events = [event.model_dump(mode="json", by_alias=True) for event in found]
        say(events, as_json, lambda: terminal.events(found))


@audits.command("export")
def export_audit(as_json: JsonOption = False) -> None:
    """Append to this host's archive what it lacks; the Schedule does the same every ten minutes."""
    from operations.export import export  # noqa: PLC0415

    with failing_clearly():
        done = ask(export)
        shown = {"added": done.added, "seq": done.head.seq, "head": done.head.hash}
        say(shown, as_json, lambda: f"{done.added} lines added; line {done.head.seq} is {done.head.hash}")


@audits.command("verify")
def verify_audit(
    head: Annotated[str | None, typer.Option(help="SEQ:HASH that was noted elsewhere")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask Temporal for exported heads")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check this host's archive: each line against the one before, and against the heads that Temporal knows."""
    from operations import archive  # noqa: PLC0415
    from operations.heads import exported_heads, parse_head  # noqa: PLC0415

    with failing_clearly():
        known = {} if offline else ask(lambda client, _: exported_heads(client))
        report = archive.verify(read_settings().state_dir / archive.FOLDER, known | parse_head(head))
        shown = {"ok": report.ok, "seq": report.head.seq, "head": report.head.hash, "headsCompared": len(known)}
        say(shown | {"problems": report.problems, "cutBytes": report.cut}, as_json, lambda: terminal.report(report))
        if not report.ok:
            raise typer.Exit(1)


@operators.command("add")
def add_operator(
    name: str,
    role: Annotated[str, typer.Option(help="viewer, operator or admin")] = "operator",
    as_json: JsonOption = False,
) -> None:
    """Make an operator and print the token, once: it is kept nowhere."""
    with failing_clearly():
        token = _operators().add(name, _role(role))
        say({"name": name, "role": role, "token": token}, as_json, lambda: token)


@operators.command("list")
def list_operators(as_json: JsonOption = False) -> None:
    """Show names and roles."""
    with failing_clearly():
        found = [
            {"name": one.name, "role": one.role.name.lower(), "createdAt": one.created_at.isoformat()}
            for one in _operators().all()
        ]
        say(found, as_json, lambda: "\n".join("{name:24} {role:10} {createdAt}".format(**row) for row in found))


@operators.command("remove")
def remove_operator(name: str, as_json: JsonOption = False) -> None:
    """Make an operator's token worthless at once."""
    with failing_clearly():
        _operators().remove(name)
        say({"removed": name}, as_json, lambda: f"removed {name}")


def _steer(task_id: str, action: str, reason: str, request_id: str | None, as_json: bool) -> None:
    from operations import commands  # noqa: PLC0415

    with failing_clearly():
        order = _order(reason, request_id)
        found = ask(lambda client, _: commands.steer_task(client, task_id, action, order))
        say(found.shown(), as_json, lambda: terminal.result(found))


def _switch(action: str, reason: str, request_id: str | None, as_json: bool, repo: str | None = None) -> None:
    from operations import commands  # noqa: PLC0415

    with failing_clearly():
        order = _order(reason, request_id)
        found = ask(lambda client, _: commands.switch(client, action, order, repo))
        say(found.shown(), as_json, lambda: terminal.result(found))


def _order(reason: str, request_id: str | None) -> "Order":
    from operations.commands import Order  # noqa: PLC0415

    if not reason.strip():
        raise CcwebError(ErrorCode.INVALID_REQUEST, "--reason: must say something")
    return Order(request_id or uuid.uuid4().hex, " ".join(reason.split()), f"admin:{getpass.getuser()}")


async def _all_pages(client: "Client", settings: "Settings", filters: "Filters") -> "list[AuditEvent]":
    from operations import trail  # noqa: PLC0415

    found, cursor = [], None
    while True:
        page = await trail.search(client, settings, filters, cursor)
        found += page.events
        cursor = page.next_cursor
        if cursor is None:
            return found


def _role(name: str) -> Role:
    try:
        return Role[name.upper()]
    except KeyError:
        raise CcwebError(ErrorCode.INVALID_REQUEST, f"{name!r} is no role: viewer, operator, admin") from None


def _operators() -> Operators:
    return Operators(read_settings().state_dir / FILE)
