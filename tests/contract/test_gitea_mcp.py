"""What the bridge relies on in gitea-mcp; the real one too when CONTRACT_GITEA_MCP names its command.

The real one speaks to the simulated Gitea as well as to a real one, see `tests.contract.forge`.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from bridge import dialect
from tests.conftest import scratch_dir
from tests.contract.forge import Forge, forge
from tests.contract.place import MCP, REAL_MCP, VERSIONS, ask, session

MISSING = "couldn't be found|not found|does not exist"  # the words of Gitea 1.22, and of newer ones
pytestmark = pytest.mark.asyncio(loop_scope="function")


@pytest.fixture(scope="module")
def gitea() -> Iterator[Forge]:
    with scratch_dir() as directory, forge(directory) as found:
        yield found


@dataclass(frozen=True)
class Server:
    version: str
    gitea: Forge
    home: Path

    def parameters(self, token: str = "", host: str = "", *flags: str) -> StdioServerParameters:
        command = shlex.split(REAL_MCP) or [sys.executable, "-I", str(MCP)]
        environment = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "GITEA_HOST": host or self.gitea.url,
            "GITEA_ACCESS_TOKEN": token or self.gitea.bot_token,
            "SIM_GITEA_MCP_VERSION": self.version,
        }
        return StdioServerParameters(command=command[0], args=[*command[1:], "-t", "stdio", *flags], env=environment)

    def as_owner(self, path: str, body: dict[str, Any]) -> Any:
        return self.gitea.on_repo("POST", path, body).raise_for_status().json()


@pytest.fixture(params=VERSIONS)
def server(gitea: Forge, state_dir: Path, request: pytest.FixtureRequest) -> Server:
    return Server(request.param, gitea, state_dir)


async def result(client: ClientSession, server: Server, tool: str, **arguments: Any) -> Any:
    place = {"owner": server.gitea.owner, "repo": server.gitea.repo}
    return dialect.result((await ask(client, tool, {**place, **arguments})).model_dump())


async def test_comments_are_written_read_and_edited(server: Server) -> None:
    number = server.as_owner("/issues", {"title": "t", "body": "b"})["number"]
    async with session(server.parameters()) as client:
        made = await result(client, server, "create_issue_comment", index=number, body="one")
        await result(client, server, "edit_issue_comment", commentID=made["id"], body="two")
        (comment,) = await result(client, server, "get_issue_comments_by_index", index=number)
        issue = await result(client, server, "get_issue_by_index", index=number)
    assert (comment["id"], comment["body"], dialect.login(comment["user"])) == (made["id"], "two", server.gitea.bot)
    assert issue["number"] == number and issue["title"] == "t"


async def test_lists_files_and_the_own_user_are_read(server: Server) -> None:
    server.as_owner("/issues", {"title": "listed", "body": "b"})
    async with session(server.parameters()) as client:
        user = dialect.result((await ask(client, "get_my_user_info", {})).model_dump())
        issues = await result(client, server, "list_repo_issues", state="open", page=1, pageSize=50)
        pulls = await result(client, server, "list_repo_pull_requests", state="open", page=1, pageSize=50)
        branches = await result(client, server, "list_branches")
        file = await result(client, server, "get_file_content", ref="main", filePath="README.md")
    assert user["login"] == server.gitea.bot and "listed" in [issue["title"] for issue in issues]
    assert isinstance(pulls or [], list) and "main" in [branch["name"] for branch in branches]
    assert file


async def test_failures_are_errors_of_the_protocol(server: Server) -> None:
    async with session(server.parameters()) as client:
        with pytest.raises(MCPError, match=MISSING):
            await result(client, server, "get_issue_by_index", index=99999)
        with pytest.raises(MCPError, match="body is required"):
            await result(client, server, "create_issue_comment", index=1)
        with pytest.raises(MCPError, match=MISSING):
            await result(client, server, "create_pull_request", title="x", body="x", head="nope", base="main")
        with pytest.raises(MCPError, match="not found"):
            await result(client, server, "no_such_tool")


async def test_the_old_version_wants_numbers_and_the_new_one_takes_digits(server: Server) -> None:
    number = server.as_owner("/issues", {"title": "t", "body": "b"})["number"]
    async with session(server.parameters()) as client:
        if server.version == "2025-07":
            with pytest.raises(MCPError, match="index is required"):
                await result(client, server, "get_issue_by_index", index=str(number))
        elif server.version != "real":
            assert (await result(client, server, "get_issue_by_index", index=str(number)))["number"] == number


@pytest.mark.skipif(bool(REAL_MCP), reason="the versions differ")
@pytest.mark.parametrize("bad", [{"token": "wrong-token"}, {"host": "http://127.0.0.1:1"}])
async def test_a_bad_token_or_address_ends_the_old_version_only(server: Server, bad: dict[str, str]) -> None:
    async with session(server.parameters(**bad)) as client:
        with pytest.raises(MCPError) as caught:
            await result(client, server, "get_issue_by_index", index=1)
        assert ("closed" in str(caught.value).lower()) == (server.version == "2025-07")


@pytest.mark.skipif(bool(REAL_MCP), reason="the versions differ")
async def test_the_old_version_has_no_short_flag_for_the_host(server: Server) -> None:
    parameters = server.parameters("", "", "-H", server.gitea.url)
    ended = subprocess.run([parameters.command, *parameters.args], env=parameters.env, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # fmt: skip  # noqa: E501
    assert (ended.returncode == 0) == (server.version != "2025-07")
