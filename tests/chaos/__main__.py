"""`./run chaos`: at each step of a task each process is killed, and the promise of ccweb is looked at. Then the long
tests of the suite, when no part of the matrix was chosen.
"""

import argparse
import asyncio
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.chaos import matrix
from tests.chaos.cell import STEPS, VICTIMS, Outcome


def main() -> int:
    options = _options()
    console = Console(stderr=options.json)
    began = time.monotonic()
    outcomes = asyncio.run(
        matrix.run(options.step, options.victim, options.jobs, lambda found: console.print(_line(found)))
    )
    console.print(_table(outcomes, options.victim))
    failed = [found for found in outcomes if not found.ok]
    console.print(f"{len(outcomes)} cells, {len(failed)} failed, {time.monotonic() - began:.0f} s")
    ok = not failed and (options.partly or _long_tests_pass())
    if options.json:
        cells = [dataclasses.asdict(found) for found in outcomes]
        sys.stdout.write(json.dumps({"cells": cells, "ok": ok}) + "\n")
    return 0 if ok else 1


def _long_tests_pass() -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "long"]
    return subprocess.run(command, stdout=sys.stderr, check=False).returncode == 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run chaos", description="The chaos matrix: step x victim.")
    parser.add_argument("--step", action="append", choices=list(STEPS), help="only this step (may be repeated)")
    parser.add_argument("--victim", action="append", choices=VICTIMS, help="only this victim (may be repeated)")
    parser.add_argument("--jobs", type=int, default=2, help="steps side by side (2)")
    parser.add_argument("--json", action="store_true", help="make the last line a JSON object")
    options = parser.parse_args()
    options.partly = bool(options.step or options.victim)
    options.step = options.step or list(STEPS)
    options.victim = options.victim or list(VICTIMS)
    return options


def _line(found: Outcome) -> str:
    colour = "green" if found.ok else "red"
    return f"[{colour}]{found.step} x {found.victim}: {found.outcome}[/] ({found.seconds:.0f} s)"


def _table(outcomes: Sequence[Outcome], victims: Sequence[str]) -> Table:
    """Seconds of each cell; `-` where the victim is not there yet."""
    table = Table("step", *victims)
    by_cell = {(found.step, found.victim): found for found in outcomes}
    for step in dict.fromkeys(found.step for found in outcomes):
        table.add_row(step, *(_shown(by_cell.get((step, victim))) for victim in victims))
    return table


def _shown(found: Outcome | None) -> str:
    if found is None:
        return "-"
    short = "rest" if found.outcome == "succeeded_with_rest_fallback" else "ok"
    return f"[green]{short} {found.seconds:.0f} s[/]" if found.ok else f"[red]FAILED {found.seconds:.0f} s[/]"


if __name__ == "__main__":
    sys.exit(main())
