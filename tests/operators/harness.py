"""The operator API on a real port, before the real Temporal and workflows with fake activities."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from temporalio.client import Client

from ingress.control import PREFIX
from operations.operators import FILE, Operators, Role
from settings import load_settings
from tests.e2e.ingress_harness import SECRET, serving


@dataclass
class Api:
    """Calls as one operator."""

    http: httpx.AsyncClient
    token: str

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.http.get(PREFIX + path, params=query, headers=self._headers)

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.http.post(PREFIX + path, json=body, headers=self._headers)

    @property
    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token else {}


@dataclass
class Apis:
    """One caller of each role, and one of none."""

    viewer: Api
    operator: Api
    admin: Api
    nobody: Api
    operators: Operators


@asynccontextmanager
async def operator_apis(state_dir: Path, client: Client) -> AsyncIterator[Apis]:
    operators = Operators(state_dir / FILE)
    tokens = {role: operators.add(f"{role.name.lower()}-1", role) for role in Role}
    async with serving(load_settings(webhook_secrets=SECRET, state_dir=state_dir), client) as http:
        viewer, operator, admin = (Api(http, tokens[role]) for role in Role)
        yield Apis(viewer, operator, admin, Api(http, ""), operators)
