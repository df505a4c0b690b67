"""`python -m simulators.model --port P --key-file F`."""

import argparse
import json
from pathlib import Path

import uvicorn

from simulators.model.app import create_app


def main() -> None:
    parser = argparse.ArgumentParser(prog="simulators.model")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key-file", type=Path, required=True)
    options = parser.parse_args()
    print(json.dumps({"url": f"http://127.0.0.1:{options.port}"}), flush=True)  # noqa: T201
    app = create_app(options.key_file.read_text(encoding="utf-8").strip())
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
