"""The Gitea that contract tests talk to: the simulator, or a real one named by CONTRACT_GITEA_*.

Against a real one a repository of our own is made and removed; nothing else is touched.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from settings import Settings, load_settings
from tests.contract import place

REAL_URL = os.environ.get("CONTRACT_GITEA_URL", "").rstrip("/")


@dataclass(frozen=True)
class Forge:
    """A repository with a README on main, its owner, and the bot as a collaborator with write permission."""

    url: str
    owner: str
    repo: str
    bot: str
    owner_token: str
    bot_token: str
    simulated: bool

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.repo}"

    def ask(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> httpx.Response:
        """One call below /api/v1, as the owner unless another token is given."""
        headers = {"Authorization": f"token {token or self.owner_token}"}
        return place.HTTP.request(method, f"{self.url}/api/v1{path}", json=body, headers=headers)

    def on_repo(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> httpx.Response:
        return self.ask(method, f"/repos/{self.full_name}{path}", body, token=token)

    @property
    def version(self) -> tuple[int, ...]:
        """Major and minor: what was measured is 1.22, newer ones differ in places."""
        told = self.ask("GET", "/version").json()["version"]
        return tuple(int(part) for part in told.split(".")[:2])

    def new_issue(self) -> int:
        answer = self.on_repo("POST", "/issues", {"title": "contract", "body": "b"})
        return int(answer.raise_for_status().json()["number"])


@contextlib.contextmanager
def forge(directory: Path) -> Iterator[Forge]:
    if REAL_URL:
        with _real() as found:
            yield found
        return
    with place.running_gitea(directory) as gitea:
        yield Forge(gitea.url, "alice", "demo", place.BOT, place.ALICE, place.TOKEN, simulated=True)


@contextlib.contextmanager
def _real() -> Iterator[Forge]:
    owner_token, bot_token = os.environ["CONTRACT_GITEA_OWNER_TOKEN"], os.environ["CONTRACT_GITEA_BOT_TOKEN"]
    name = f"ccweb-contract-{secrets.token_hex(4)}"
    probe = Forge(REAL_URL, "", name, "", owner_token, bot_token, simulated=False)
    owner = probe.ask("GET", "/user").raise_for_status().json()["login"]
    bot = probe.ask("GET", "/user", token=bot_token).raise_for_status().json()["login"]
    made = Forge(REAL_URL, owner, name, bot, owner_token, bot_token, simulated=False)
    wanted = {"name": name, "auto_init": True, "default_branch": "main", "private": False}
    made.ask("POST", "/user/repos", wanted).raise_for_status()
    try:
        made.on_repo("PUT", f"/collaborators/{bot}", {"permission": "write"}).raise_for_status()
        yield made
    finally:
        made.ask("DELETE", f"/repos/{made.full_name}").raise_for_status()


def settings_for(gitea: Forge, directory: Path, token: str | None = None) -> Settings:
    return load_settings(
        gitea_url=gitea.url,
        gitea_token=token or gitea.bot_token,
        bot_name=gitea.bot,
        state_dir=directory,
        read_back_budget=1,
        language="en",
    )
