"""What is told at start about authors that cannot be judged."""

from typing import Any, cast

import pytest

from clients.gitea import GiteaClient, Repository
from preflight import author_checks
from settings import load_settings


class _Listing:
    async def my_repositories(self) -> list[Repository]:
        return [_repository("alice/own", admin=True), _repository("alice/other", admin=False)]


def _repository(name: str, **permissions: Any) -> Repository:
    fields = {"id": 1, "name": "r", "full_name": name, "owner": {"login": "alice"}, "default_branch": "main"}
    return Repository.model_validate({**fields, "permissions": permissions})


@pytest.mark.parametrize(("minimum", "blind"), [("write", []), ("read", ["alice/other"]), ("admin", ["alice/other"])])
async def test_repositories_whose_authors_cannot_be_judged_are_named(minimum: Any, blind: list[str]) -> None:
    settings = load_settings(minimum_permission=minimum)
    lines = await author_checks(settings, cast(GiteaClient, _Listing()))
    assert [line.partition(":")[0] for line in lines] == blind
