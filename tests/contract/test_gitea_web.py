"""The links that Gitea's API gives to people open the discussion."""

from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import scratch_dir
from tests.contract import place
from tests.contract.forge import Forge, forge


@pytest.fixture(scope="module")
def gitea() -> Iterator[Forge]:
    with scratch_dir() as directory, forge(directory) as found:
        yield found


def opened(url: str) -> httpx.Response:
    answer = place.HTTP.get(url)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    return answer


def test_the_links_of_a_comment_and_of_its_issue_show_the_discussion(gitea: Forge) -> None:
    number = gitea.new_issue()
    text = "seen **by** people <script>alert(1)</script> & <!-- marker-7 -->"
    comment = gitea.on_repo("POST", f"/issues/{number}/comments", {"body": text}).raise_for_status().json()
    for link in (comment["html_url"], gitea.on_repo("GET", f"/issues/{number}").json()["html_url"]):
        page = opened(link).text
        assert "<strong>by</strong> people" in page and gitea.owner in page
        assert "<script>alert(1)" not in page


def test_a_discussion_that_does_not_exist_is_not_found(gitea: Forge) -> None:
    for path in (f"/{gitea.full_name}/issues/9999", f"/{gitea.owner}/nothing/issues/1"):
        assert place.HTTP.get(gitea.url + path).status_code == 404


def test_the_front_page_leads_to_the_discussion(gitea: Forge) -> None:
    if not gitea.simulated:
        pytest.skip("the real Gitea's own pages")
    number = gitea.new_issue()
    assert f'href="/{gitea.full_name}"' in opened(f"{gitea.url}/").text
    assert f'href="/{gitea.full_name}/issues/{number}"' in opened(f"{gitea.url}/{gitea.full_name}").text
