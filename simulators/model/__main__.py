"""`python -m simulators.model --port P --key-file F`."""

import argparse
from pathlib import Path

from simulators.model.app import create_app
from simulators.serve import serve


def main() -> None:
    parser = argparse.ArgumentParser(prog="simulators.model")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key-file", type=Path, required=True)
    options = parser.parse_args()
    key = options.key_file.read_text(encoding="utf-8").strip()
    serve(options.port, lambda _: create_app(key), "warning")


if __name__ == "__main__":
    main()
