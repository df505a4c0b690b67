"""Sign-in by Gitea's OpenID Connect (Authlib): a Gitea login that is an operator's name gets that operator's role.

Its own small cookie holds the state between the two redirects: it must come along from Gitea's site, so it is
`Lax`, while the session cookie stays `Strict`.
"""

import logging
from http import HTTPStatus
from typing import Any

from authlib.integrations.starlette_client import OAuth
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from domain.errors import CcwebError, ErrorCode, SettingsError
from ingress.web import Pages
from settings import Settings

PREFIX = "/oidc"
COOKIE = "ccweb_oidc"
_TIMEOUT = 10.0
_LOG = logging.getLogger("ccweb.ingress")
_GO = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><a href="/">ccweb</a>'
"""A page of ours that goes on by itself: after a redirect from Gitea the Strict cookie would not be sent."""


def application(settings: Settings, pages: Pages) -> Starlette:
    """What is mounted at `PREFIX`: `/login` sends to Gitea, `/callback` comes back.

    Raises:
        SettingsError: the client's secret or CCWEB_PUBLIC_URL is missing.
    """
    if not settings.public_url or not settings.oidc_client_secret.get_secret_value():
        detail = "CCWEB_OIDC_CLIENT_ID needs CCWEB_OIDC_CLIENT_SECRET and CCWEB_PUBLIC_URL"
        raise SettingsError(ErrorCode.SETTINGS_INVALID, detail)
    sign_in = _SignIn(settings, pages)
    secret = pages.sessions.secret
    secure = settings.public_url.startswith("https://")
    keep = Middleware(
        SessionMiddleware, secret_key=f"oidc {secret}", session_cookie=COOKIE, max_age=600, path=PREFIX,
        same_site="lax", https_only=secure,
    )  # fmt: skip
    return Starlette(
        routes=[Route("/login", pages.shown(sign_in.login)), Route("/callback", pages.shown(sign_in.callback))],
        middleware=[keep],
    )


class _SignIn:
    def __init__(self, settings: Settings, pages: Pages) -> None:
        self._pages = pages
        self._callback = f"{settings.public_url}{PREFIX}/callback"
        self._secure = settings.public_url.startswith("https://")
        self._gitea: Any = OAuth().register(
            "gitea",
            client_id=settings.oidc_client_id,
            client_secret=settings.oidc_client_secret.get_secret_value(),
            server_metadata_url=f"{settings.gitea_url}/.well-known/openid-configuration",
            client_kwargs={
                "scope": "openid profile",
                "code_challenge_method": "S256",
                "timeout": _TIMEOUT,
            },
        )

    async def login(self, request: Request) -> Response:
        try:
            sent: Response = await self._gitea.authorize_redirect(request, self._callback)
        except Exception as error:  # noqa: BLE001 - see _refused
            return self._refused(request, error)
        return sent

    async def callback(self, request: Request) -> Response:
        try:
            token = await self._gitea.authorize_access_token(request)
        except Exception as error:  # noqa: BLE001 - see _refused
            return self._refused(request, error)
        login = str(token.get("userinfo", {}).get("preferred_username", ""))
        operator = self._pages.sessions.by_name(login) if login else None
        if operator is None:
            raise CcwebError(ErrorCode.FORBIDDEN, f"{login[:60] or '?'}: this Gitea login is no operator of ccweb")
        request.session.clear()
        response = HTMLResponse(_GO)
        self._pages.sessions.sign_in(response, operator, secure=self._secure)
        return response

    def _refused(self, request: Request, error: Exception) -> Response:
        """Authlib takes whichever httpx is there, each with errors of its own; no error may sign anybody in."""
        _LOG.warning("sign-in by Gitea failed: %s", type(error).__name__)
        return self._pages.page(request, "login.html", HTTPStatus.UNAUTHORIZED, problem="oidc_failed")
