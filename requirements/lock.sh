#!/bin/sh
# Remakes the locks (names, versions, hashes; no URLs) for every Python >= 3.11 on Linux and macOS. Needs uv.
set -eu
cd "$(dirname "$0")/.."
flags="--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet"
uv pip compile $flags pyproject.toml -o requirements/app.lock
uv pip compile $flags pyproject.toml --group dev -o requirements/dev.lock
