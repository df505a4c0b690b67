"""`python -m simulators.gitea --port P --root DIR`."""

import argparse
from pathlib import Path

from simulators.gitea.app import create_app
from simulators.gitea.state import State
from simulators.serve import serve


def main() -> None:
    parser = argparse.ArgumentParser(prog="simulators.gitea")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--root", type=Path, required=True)
    options = parser.parse_args()
    serve(options.port, lambda url: create_app(State(options.root, url)), "critical")


if __name__ == "__main__":
    main()
