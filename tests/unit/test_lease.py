from pathlib import Path

import pytest

from clients import lease
from clients.lease import Lease


def test_the_last_lease_granted_is_the_current_one(tmp_path: Path) -> None:
    assert lease.current(tmp_path, 1) is None
    lease.grant(tmp_path / "new", 1, Lease("a", "task-a"))
    lease.grant(tmp_path / "new", 1, Lease("b", "task-b"))
    assert lease.current(tmp_path / "new", 1) == Lease("b", "task-b")
    assert lease.current(tmp_path / "new", 2) is None


def test_revoking_an_old_lease_leaves_the_new_one(tmp_path: Path) -> None:
    lease.grant(tmp_path, 1, Lease("b", "task-b"))
    lease.revoke(tmp_path, 1, "a")
    assert lease.current(tmp_path, 1) == Lease("b", "task-b")
    lease.revoke(tmp_path, 1, "b")
    lease.revoke(tmp_path, 1, "b")
    assert lease.current(tmp_path, 1) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"lease_id": "a"}', "\xff"])
def test_an_unreadable_lease_is_no_lease(tmp_path: Path, text: str) -> None:
    (tmp_path / "1.json").write_bytes(text.encode("latin-1"))
    assert lease.current(tmp_path, 1) is None


def test_one_holder_of_the_host_lock_per_repository(tmp_path: Path) -> None:
    with (
        lease.host_lock(tmp_path, 1),
        lease.host_lock(tmp_path, 2),
        pytest.raises(lease.LockBusyError),
        lease.host_lock(tmp_path, 1),
    ):
        pass
    with lease.host_lock(tmp_path, 1):
        pass
