"""A simulated Gitea for all tests of the workspace, and a host with an issue of its own for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import scratch_dir
from tests.contract.forge import Forge
from tests.contract.place import ALICE, BOT, TOKEN, running_gitea
from tests.workspace.host import Host, make_host


@pytest.fixture(scope="package")
def forge() -> Iterator[Forge]:
    with scratch_dir() as directory, running_gitea(directory) as gitea:
        yield Forge(gitea.url, "alice", "demo", BOT, ALICE, TOKEN, simulated=True)


@pytest.fixture
def host(forge: Forge, state_dir: Path) -> Host:
    return make_host(forge, state_dir)
