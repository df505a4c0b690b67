"""Sign-in by OpenID Connect, against a provider on a real port that answers as Gitea does."""

import asyncio
import base64
import hashlib
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from temporalio.client import Client

from domain.errors import SettingsError
from ingress.app import create_app
from ingress.web_auth import COOKIE
from operations.operators import FILE, Operators, Role
from settings import load_settings
from tests.e2e.ingress_harness import SECRET, serving

CLIENT, CLIENT_SECRET, PUBLIC = "ccweb-client", "oidc-secret-of-ccweb", "http://ccweb.test"


class Provider:
    """`login` is who has signed in at Gitea; `key` signs, `published` is what the world may check with."""

    def __init__(self) -> None:
        self.login = "Ada"
        self.key = self.published = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig", "alg": "RS256"})
        self.url = ""
        self.codes: dict[str, dict[str, str]] = {}

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self.metadata),
                Route("/login/oauth/authorize", self.authorize),
                Route("/login/oauth/access_token", self.token, methods=["POST"]),
                Route("/login/oauth/keys", self.keys),
            ]
        )

    async def metadata(self, _: Request) -> Response:
        place = f"{self.url}/login/oauth"
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{place}/authorize",
                "token_endpoint": f"{place}/access_token",
                "jwks_uri": f"{place}/keys",
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        )

    async def keys(self, _: Request) -> Response:
        return JSONResponse({"keys": [self.published.as_dict(private=False)]})

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.codes["code-1"] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?code=code-1&state={asked['state']}")

    async def token(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        asked = self.codes.pop(form["code"])
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        basic = base64.b64encode(f"{CLIENT}:{CLIENT_SECRET}".encode()).decode()
        assert challenge.decode() == asked["code_challenge"]
        assert request.headers["authorization"] == f"Basic {basic}"
        claims: dict[str, Any] = {
            "iss": self.url, "aud": CLIENT, "sub": "5", "exp": time.time() + 60, "iat": time.time(),
            "nonce": asked["nonce"], "preferred_username": self.login,
        }  # fmt: skip
        signed = jwt.encode({"alg": "RS256", "kid": "k1"}, claims, self.key)
        return JSONResponse({"access_token": "at", "token_type": "bearer", "expires_in": 60, "id_token": signed})


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    ready = Provider()
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        ready.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(ready.app(), log_config=None, ws="none", access_log=False))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        yield ready
        server.should_exit = True
        await task


@pytest.fixture
async def web(client: Client, state_dir: Path, provider: Provider) -> AsyncIterator[httpx.AsyncClient]:
    Operators(state_dir / FILE).add("ada", Role.OPERATOR)
    settings = load_settings(
        webhook_secrets=SECRET, state_dir=state_dir, gitea_url=provider.url, public_url=PUBLIC,
        oidc_client_id=CLIENT, oidc_client_secret=CLIENT_SECRET,
    )  # fmt: skip
    async with serving(settings, client) as http:
        yield http


async def round_trip(web: httpx.AsyncClient) -> httpx.Response:
    """To the provider and back, as a browser goes."""
    to_gitea = await web.get("/oidc/login")
    assert to_gitea.status_code == 302, to_gitea.text
    async with httpx.AsyncClient() as browser:
        back = (await browser.get(to_gitea.headers["location"])).headers["location"]
    assert back.startswith(f"{PUBLIC}/oidc/callback?")
    return await web.get("/oidc/callback", params=dict(parse_qs(urlsplit(back).query)))


async def test_a_gitea_login_that_is_an_operator_gets_its_role(web: httpx.AsyncClient) -> None:
    assert "/oidc/login" in (await web.get("/login")).text
    answer = await round_trip(web)
    assert answer.status_code == 200 and 'content="0;url=/"' in answer.text
    page = await web.get("/")
    assert page.status_code == 200 and ">ada<" in page.text
    assert "/act?action=pause" not in page.text


async def test_a_gitea_login_that_is_no_operator_gets_nothing(web: httpx.AsyncClient, provider: Provider) -> None:
    provider.login = "mallory"
    answer = await round_trip(web)
    assert answer.status_code == 403 and COOKIE not in web.cookies


async def test_an_id_token_that_another_signed_is_refused(web: httpx.AsyncClient, provider: Provider) -> None:
    provider.key = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig", "alg": "RS256"})
    answer = await round_trip(web)
    assert answer.status_code == 401 and COOKIE not in web.cookies


async def test_a_callback_that_nobody_asked_for_is_refused(web: httpx.AsyncClient) -> None:
    answer = await web.get("/oidc/callback", params={"code": "code-1", "state": "made-up"})
    assert answer.status_code == 401 and COOKIE not in web.cookies


async def test_a_provider_that_is_away_is_said(client: Client, state_dir: Path) -> None:
    settings = load_settings(
        webhook_secrets=SECRET, state_dir=state_dir, gitea_url="http://127.0.0.1:1", public_url=PUBLIC,
        oidc_client_id=CLIENT, oidc_client_secret=CLIENT_SECRET,
    )  # fmt: skip
    async with serving(settings, client) as http:
        assert (await http.get("/oidc/login")).status_code == 401


async def test_half_set_settings_are_named_at_start(client: Client, state_dir: Path) -> None:
    with pytest.raises(SettingsError, match="CCWEB_PUBLIC_URL"):
        create_app(load_settings(state_dir=state_dir, oidc_client_id=CLIENT), client)
