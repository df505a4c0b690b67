"""Fixtures that more than one folder of tests uses."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Not under /tmp: the sandbox of model-run commands hides it, and Codex refuses a home there.
SCRATCH = Path("/var/tmp")


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A fresh folder outside /tmp, removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="ccweb-", dir=SCRATCH))
    yield path
    shutil.rmtree(path, ignore_errors=True)
