"""Which lists have pages, and how far back `since` looks: the same against the simulator and a real Gitea."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from clients.gitea import GiteaClient
from tests.conftest import scratch_dir
from tests.contract.forge import Forge, forge, settings_for

MANY = 52


@pytest.fixture(scope="module")
def gitea() -> Iterator[Forge]:
    """Issue 1 has many comments, and there are many more issues."""
    with scratch_dir() as directory, forge(directory) as found:
        for _ in range(MANY):
            found.new_issue()
        for number in range(MANY):
            found.on_repo("POST", "/issues/1/comments", {"body": str(number)}).raise_for_status()
        yield found


def listed(answer: httpx.Response) -> list[Any]:
    found: list[Any] | None = answer.raise_for_status().json()
    return found or []  # an empty timeline is null


def links(answer: httpx.Response) -> dict[str, str]:
    """The page that each relation leads to."""
    return {str(name): httpx.URL(link["url"]).params["page"] for name, link in answer.links.items()}


def test_comments_of_an_issue_come_all_at_once(gitea: Forge) -> None:
    answer = gitea.on_repo("GET", "/issues/1/comments?page=2&limit=50")
    assert [one["body"] for one in listed(answer)] == [str(number) for number in range(MANY)]
    assert answer.headers["X-Total-Count"] == str(MANY) and "Link" not in answer.headers


@pytest.mark.parametrize(
    ("query", "old", "new"),
    [
        ("", MANY, 30),
        ("?limit=5", MANY, 5),
        ("?page=1", 30, 30),
        ("?page=1&limit=1000", 50, 50),
        ("?page=2&limit=50", 2, 2),
    ],
)
def test_comments_of_a_repository_are_asked_for_by_page(gitea: Forge, query: str, old: int, new: int) -> None:
    """Without `page` Gitea 1.22 gives all and 1.27 the first page, so clients always name one."""
    answer = gitea.on_repo("GET", f"/issues/comments{query}")
    assert len(listed(answer)) == (old if gitea.version < (1, 23) else new)
    assert answer.headers["X-Total-Count"] == str(MANY) and "Link" not in answer.headers


@pytest.mark.parametrize(
    ("query", "count", "around"),
    [
        ("", 30, {"next": "2", "last": "2"}),
        ("&limit=1000", 50, {"next": "2", "last": "2"}),
        ("&page=2&limit=20", 20, {"next": "3", "last": "3", "first": "1", "prev": "1"}),
        ("&page=3&limit=20", MANY - 40, {"first": "1", "prev": "2"}),
    ],
)
def test_issues_have_pages_with_links(gitea: Forge, query: str, count: int, around: dict[str, str]) -> None:
    answer = gitea.on_repo("GET", f"/issues?type=issues&state=open{query}")
    assert len(listed(answer)) == count and answer.headers["X-Total-Count"] == str(MANY)
    assert links(answer) == around


def test_since_and_before_include_the_second_itself(gitea: Forge) -> None:
    last = listed(gitea.on_repo("GET", "/issues/1/comments"))[-1]
    edited = (
        gitea.on_repo("PATCH", f"/issues/comments/{last['id']}", {"body": last["body"]}).raise_for_status().json()
    )
    for path in ("/issues/1/comments", "/issues/comments"):
        found = listed(gitea.on_repo("GET", path + "?since=" + edited["updated_at"].replace("+", "%2B")))
        assert last["id"] in [one["id"] for one in found]
    assert gitea.on_repo("GET", "/issues/comments?since=yesterday").status_code == 422


def test_an_issue_that_was_touched_since_is_listed(gitea: Forge) -> None:
    touched = gitea.on_repo("PATCH", f"/issues/{MANY}", {"body": "touched"}).raise_for_status().json()
    found = listed(gitea.on_repo("GET", "/issues?state=all&since=" + touched["updated_at"].replace("+", "%2B")))
    assert MANY in [one["number"] for one in found]
    assert listed(gitea.on_repo("GET", "/issues?since=2100-01-01T00:00:00Z")) == []


def test_a_comment_touches_its_issue(gitea: Forge) -> None:
    """Polling of issues by `since` finds those with new comments."""
    before = gitea.on_repo("GET", "/issues/3").json()
    made = gitea.on_repo("POST", "/issues/3/comments", {"body": "x"}).raise_for_status().json()
    after = gitea.on_repo("GET", "/issues/3").json()
    assert after["comments"] == before["comments"] + 1 and after["updated_at"] >= made["created_at"]


def test_the_timeline_says_who_assigned(gitea: Forge) -> None:
    gitea.on_repo("PATCH", "/issues/4", {"assignees": [gitea.bot]}).raise_for_status()
    for number in range(30):
        gitea.on_repo("POST", "/issues/4/comments", {"body": str(number)}).raise_for_status()
    pages = [listed(gitea.on_repo("GET", f"/issues/4/timeline?page={page}")) for page in (1, 2, 3)]
    assert [len(page) for page in pages] == [30, 1, 0]
    (assigned,) = [one for page in pages for one in page if one["type"] == "assignees"]
    assert (assigned["user"]["login"], assigned["assignee"]["login"]) == (gitea.owner, gitea.bot)


async def test_the_client_reads_all_of_a_timeline_and_of_an_empty_one(gitea: Forge, state_dir: Path) -> None:
    number, long = gitea.new_issue(), gitea.new_issue()
    for _ in range(MANY):
        gitea.on_repo("POST", f"/issues/{long}/comments", {"body": "x"}).raise_for_status()
    gitea.on_repo("PATCH", f"/issues/{long}", {"assignees": [gitea.bot]}).raise_for_status()
    async with GiteaClient(settings_for(gitea, state_dir)) as client:
        assert await client.timeline(gitea.full_name, number) == []
        assert await client.reactions(gitea.full_name, str(number)) == []
        found = await client.timeline(gitea.full_name, long)
    assert len(found) == MANY + 1 and found[-1].type == "assignees"
