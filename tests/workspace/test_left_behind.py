"""A git that talks with Gitea ends with the process that started it."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clients import git
from clients.git import Remote
from domain.errors import ErrorCode, WorkspaceError
from tests import processes

ROOT = Path(__file__).resolve().parents[2]
FETCH = """
import sys
from pathlib import Path
from clients import git
git.fetch(git.Remote(sys.argv[1], "bot", "token"), Path(sys.argv[2]), git.ALL_BRANCHES, 60)
"""


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux ends children with their parent")
def test_a_fetch_ends_with_its_killed_worker(tmp_path: Path) -> None:
    git.run(["init", "--quiet", "--bare", str(tmp_path / "clone.git")])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a/b.git"
        worker = subprocess.Popen([sys.executable, "-c", FETCH, url, str(tmp_path / "clone.git")], cwd=ROOT)
        connection, _ = silent.accept()
        with connection:
            (fetch,) = [one for one in processes.all_of() if one.parent == worker.pid]
            assert "fetch" in fetch.command
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            eventually(lambda: not any(one.pid == fetch.pid and one.command for one in processes.all_of()))


def test_a_gitea_that_is_away_has_its_own_code(tmp_path: Path) -> None:
    git.run(["init", "--quiet", "--bare", str(tmp_path / "clone.git")])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(WorkspaceError) as caught:
        git.fetch(
            Remote(f"http://127.0.0.1:{port}/a/b.git", "bot", "t"), tmp_path / "clone.git", git.ALL_BRANCHES, 20
        )
    assert caught.value.code is ErrorCode.GITEA_UNAVAILABLE
