"""Identifiers have the forms of design section 3."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import ids

NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,30}", fullmatch=True)


@given(st.text())
def test_a_task_id_depends_on_the_delivery_alone(delivery: str) -> None:
    assert ids.is_task_id(ids.task_id(delivery))
    assert ids.task_id(delivery) == ids.task_id(delivery)


def test_a_task_id_is_the_hash_of_the_delivery_key() -> None:
    assert ids.task_id("default:abc") == "gitea-task-d878e372db2d2ec1"


@given(NAMES, NAMES, st.sampled_from(["issue", "pull_request"]), st.integers(1, 10**9))
def test_a_resource_key_reads_back(owner: str, repo: str, kind: str, number: int) -> None:
    key = ids.resource_key(ids.repo_key(owner, repo), kind, number)
    assert ids.ResourceRef.parse(key) == ids.ResourceRef(owner.lower(), repo.lower(), kind, number)


@pytest.mark.parametrize(
    "text", ["", "default:o/r:issue", "other:o/r:issue:1", "default:o/r:wiki:1", "default:o:issue:1"]
)
def test_anything_else_is_no_resource_key(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        ids.ResourceRef.parse(text)


def test_forms() -> None:
    task = ids.task_id("default:abc")
    assert ids.turn_key(task, 2, 3) == f"{task}/2.3"
    assert ids.lease_id(task, 4) == f"{task}/4"
    assert ids.source_key(41, "comment", 7) == "41:comment:7"
    assert ids.session_workflow_id("default:o/r:issue:1") == "session/default:o/r:issue:1"
    assert ids.repository_workflow_id(41) == "repository/default:41"
    assert ids.host_queue("h1") == "agent@h1"


@pytest.mark.parametrize(
    ("name", "fine"), [("a.b-c_d", True), ("..", False), (".", False), ("a/b", False), ("", False)]
)
def test_repository_names_are_safe_as_folder_names(name: str, fine: bool) -> None:
    assert ids.is_repository_name(name) is fine
