"""`python -m simulators.gitea --port P --root DIR`."""

import argparse
import json
from pathlib import Path

import uvicorn

from simulators.gitea.app import create_app
from simulators.gitea.state import State


def main() -> None:
    parser = argparse.ArgumentParser(prog="simulators.gitea")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--root", type=Path, required=True)
    options = parser.parse_args()
    url = f"http://127.0.0.1:{options.port}"
    print(json.dumps({"url": url}), flush=True)  # noqa: T201
    uvicorn.run(create_app(State(options.root, url)), host="127.0.0.1", port=options.port, log_level="critical")


if __name__ == "__main__":
    main()
