"""How the commands speak to people and to scripts: tables or JSON on stdout, one line on stderr for an error."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from domain.audit import AuditEvent
from domain.errors import CcwebError, ErrorCode
from domain.events import ReconcileReport
from operations.archive import Report
from operations.findings import Finding
from operations.records import ControlResult, Overview, TaskDetail, TaskPage

JsonOption = Annotated[bool, typer.Option("--json", help="JSON on one line instead of text")]
TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S%z"]
asked_temporal = False
"""Whether this process made a client, so that it must `leave`."""
_EXIT = {
    ErrorCode.ILLEGAL_STATE: 1,
    ErrorCode.REQUEST_ID_REUSED: 1,
    ErrorCode.NOT_FOUND: 3,
    ErrorCode.TEMPORAL_UNAVAILABLE: 4,
}
_USAGE = 2
_WIDTH = 250


def leave(code: int) -> NoReturn:
    """Ends the process after Temporal was asked. Threads of its client may still hold on to the interpreter, whose
    orderly end then aborts or hangs; there is nothing left here that it would do.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def failing_clearly() -> Iterator[None]:
    """One line on stderr and the exit code of the error."""
    try:
        yield
    except CcwebError as error:
        typer.echo(f"ccweb: {error.code}: {error.detail}" if error.detail else f"ccweb: {error.code}", err=True)
        sys.exit(_EXIT.get(error.code, _USAGE))
    except OSError as error:
        typer.echo(f"ccweb: {error.strerror or error}: {error.filename or ''}".rstrip(": "), err=True)
        sys.exit(1)


def say(found: Any, as_json: bool, text: Callable[[], str]) -> None:
    typer.echo(json.dumps(found, ensure_ascii=False) if as_json else text())


def utc(moment: datetime | None) -> datetime | None:
    """A time without an offset is UTC."""
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def overview(found: Overview) -> str:
    control = found.control
    head = f"paused by {control.updated_by}: {control.pause_reason}" if control.global_paused else "running"
    workers = ", ".join(f"{one.workers} at {one.task_queue!r}" for one in found.workers)
    lines = [f"{head}; workers: {workers}; workspaces at work: {found.running_slots}"]
    lines += [f"disabled: {repo}: {why}" for repo, why in control.disabled.items()]
    lines += [_counts("open", found.open_tasks), _counts("ended in the last day", found.ended_last_day)]
    rows = [
        (one.repo_key, " ".join(one.working), str(len(one.queued)), str(len(one.waiting))) for one in found.queues
    ]
    lines += [_table(("repository", "works", "queued", "waits"), rows)] if rows else []
    lines += [f"wedged: {one}" for one in found.wedged_workflows]
    return "\n".join([*lines, *(f"! {note}" for note in found.notes)])


def _counts(what: str, counts: dict[Any, int]) -> str:
    return f"{what}: " + (", ".join(f"{number} {state}" for state, number in counts.items()) or "none")


def tasks(found: TaskPage) -> str:
    rows = [
        (task.task_id, task.state, task.resource_key or "", task.author or "", _time(task.created_at), _code(task))
        for task in found.tasks
    ]
    more = [f"more: --cursor {found.next_cursor}"] if found.next_cursor else []
    return "\n".join([_table(("task", "state", "resource", "author", "created", "error"), rows), *more])


def task(found: TaskDetail) -> str:
    facts = {
        "task": found.task_id,
        "state": " ".join([found.state, found.error_code or ""]).strip(),
        "why": found.reason,
        "problem": found.problem,
        "resource": found.resource_key,
        "author": found.author,
        "asked": " ".join(found.instruction.split())[:100],
        "thread": found.thread_id,
        "turn": found.turn_id,
        "comment": found.comment_id,
        "commit": found.commit,
        "host": found.host,
        "deliveries": " ".join(found.delivery_keys),
    }
    head = "\n".join(f"{name:11}{value}" for name, value in facts.items() if value)
    moves = [
        (str(one.state_version), _time(one.at), one.to_state or "", one.actor, one.error_code or "")
        for one in found.moves
    ]
    turns = [(one.turn_key, one.kind, one.status, one.turn_id or "", one.error_code or "") for one in found.turns]
    comments = [(one.comment_key, one.kind, one.status, str(one.comment_id or "")) for one in found.comments]
    parts = [
        head,
        _table(("#", "at (UTC)", "state", "by", "error"), moves),
        _table(("turn", "kind", "status", "turnId", "error"), turns) if turns else "",
        _table(("comment", "kind", "status", "commentId"), comments) if comments else "",
    ]
    return "\n\n".join(part for part in parts if part)


def result(found: ControlResult) -> str:
    about = found.repo_key or " ".join(found.tasks) or "everything"
    later = "" if found.taken else " (stored: it takes effect as soon as a worker runs)"
    return f"{found.action}: {about}{later}  [requestId {found.request_id}]"


def events(found: Sequence[AuditEvent]) -> str:
    rows = [
        (
            _time(one.timestamp),
            one.action,
            one.actor,
            " > ".join(state for state in (one.from_state, one.to_state) if state),
            one.task_id or "",
            one.error_code or str(one.metadata.get("phase", "")),
        )
        for one in found
    ]
    return _table(("at (UTC)", "action", "actor", "state", "task", "result"), rows)


def findings(found: Sequence[Finding]) -> str:
    """One line each; what to do stands below what is wrong."""
    lines = []
    for one in found:
        lines.append(f"{_MARKS[one.verdict]} {one.area:9} {one.check:18} {one.detail}")
        lines += [f"{'':31} -> {one.fix}"] if one.fix and one.verdict != "ok" else []
    failed = sum(one.verdict == "fail" for one in found)
    return "\n".join([*lines, "", "all is well" if not failed else f"{failed} to mend"])


_MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL", "skip": "-   "}


def report(found: Report) -> str:
    head = f"{found.head.seq} lines, head {found.head.hash}"
    cut = [f"an unfinished last line of {found.cut} bytes; the next export removes it"] if found.cut else []
    return "\n".join([f"{'sound' if found.ok else 'BROKEN'}: {head}", *cut, *found.problems])


def reconciled(found: ReconcileReport) -> str:
    rows = [(one.kind, one.source_key, one.task_id, one.author, one.session_key) for one in found.finds]
    lines = [f"looked at {found.looked_at} texts in {found.repositories} repositories"]
    lines += [_table(("find", "source", "task", "author", "resource"), rows)] if rows else ["nothing was missed"]
    return "\n".join([*lines, *(f"! {error}" for error in found.errors)])


def _code(task: Any) -> str:
    return task.error_code or ""


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns under their names; never cut, so that ids can be copied."""
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    text = io.StringIO()
    console = Console(file=text, width=_WIDTH, force_terminal=sys.stdout.isatty())
    console.print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())
