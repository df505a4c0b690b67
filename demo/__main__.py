"""`./run demo`: the main job on embedded parts, told on the screen."""

import argparse
import signal
import sys


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run demo", description="The main job of ccweb on embedded parts.")
    parser.add_argument("--once", action="store_true", help="end by itself; exit code 0 only if all was verified")
    parser.add_argument("--json", action="store_true", help="make the last line a JSON object")
    options = parser.parse_args()
    # Until the demo has its own handlers it has started nothing, so the signal may simply end it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from demo.play import play  # noqa: PLC0415  # a second of imports; `--help` must not pay it

    return play(once=options.once, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
