"""`./run bench`: the budgets of the design, measured on this machine, side by side in one run."""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import attach, ingress, tasks, workspace
from bench.row import Row
from demo.stack import scratch
from domain.errors import CcwebError, lines
from ingress.server import loop_factory
from stopping import StoppedError, stop_signal, unless_stopped

GROUPS: dict[str, Callable[[Path], Awaitable[list[Row]]]] = {
    "ingress": ingress.rows,
    "tasks": tasks.rows,
    "attach": attach.rows,
    "workspace": workspace.rows,
}
console = Console(stderr=True, highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"only these: {', '.join(GROUPS)}")
    parser.add_argument("--json", action="store_true", help="JSON on stdout instead of the table")
    options = parser.parse_args()
    unknown = set(options.groups) - GROUPS.keys()
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    groups = options.groups or list(GROUPS)
    rows: list[Row] = []
    try:
        # The load comes from the same event loop as the ingress has, so that neither side is favoured.
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            whole = runner.run(_run(groups, rows))
    except StoppedError as stopped:
        return stopped.exit_code
    finally:
        _show(rows, as_json=options.json)
    return 0 if whole else 1


async def _run(groups: list[str], rows: list[Row]) -> bool:
    """Fills `rows`; False when a group could not be measured, which keeps none of the others."""
    asked, whole = stop_signal(), True
    for group in groups:
        try:
            rows += await unless_stopped(asked, _measure(group))
        except (CcwebError, TimeoutError, RuntimeError, ExceptionGroup) as error:
            whole = False
            for line in lines(error):
                console.print(f"ccweb: {group}: {line}", markup=False)
    return whole


async def _measure(group: str) -> list[Row]:
    console.print(f"measuring {group}", style="dim")
    directory = Path(tempfile.mkdtemp(prefix="ccweb-bench-", dir=scratch()))
    try:
        return list(await GROUPS[group](directory))
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


def _show(rows: list[Row], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([row.as_json() for row in rows]))
        return
    table = Table("what", "budget", "measured", "kept", "behind it")
    for row in rows:
        budget = f"{'≥' if row.at_least else '≤'} {row.budget:g} {row.unit}"
        table.add_row(row.name, budget, f"{row.measured:.3g} {row.unit}", "yes" if row.kept else "NO", row.detail)
    Console(width=None if sys.stdout.isatty() else 150, highlight=False).print(table)


if __name__ == "__main__":
    sys.exit(main())
