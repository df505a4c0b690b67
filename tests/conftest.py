"""Fixtures that more than one folder of tests uses."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Two cores run the whole suite at once: how long one example took says nothing.
settings.register_profile("ccweb", deadline=None)
settings.load_profile("ccweb")

# Not under /tmp: the sandbox of model-run commands hides it, and Codex refuses a home there.
SCRATCH = Path("/var/tmp")


@contextlib.contextmanager
def scratch_dir() -> Iterator[Path]:
    """A fresh folder outside /tmp, removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="ccweb-", dir=SCRATCH))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def state_dir() -> Iterator[Path]:
    with scratch_dir() as path:
        yield path
