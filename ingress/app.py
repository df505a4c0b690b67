"""The HTTP application: Gitea's webhook, the operators' API and pages, liveness (design sections 8, 10 and 13)."""

import asyncio
from collections.abc import Callable

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from temporalio.client import Client

import metrics
from connection import TemporalUnavailableError
from domain.errors import CcwebError, ErrorCode
from gateway import Gateway
from ingress import control, openapi
from ingress.audit import AuditStream
from ingress.problems import on_ccweb_error, on_fault, on_http_exception, on_invalid_request, problem
from ingress.web import Pages
from ingress.webhook import Webhook
from operations.operators import FILE as OPERATORS_FILE
from operations.operators import Operators
from operations.trail import INGRESS_FILE
from settings import Settings

_WEBHOOK_PATHS = ("/api/gitea/webhook", "/api/gitea/webhook/", "/webhook/gitea", "/webhook/gitea/")


def create_app(settings: Settings, client: Client, closing: Callable[[], bool] = lambda: False) -> ASGIApp:
    """The application; `client` may be lazy: it answers 503 while Temporal is away. `closing` ends open streams.

    Deliveries go straight to their handler: the layers of the operator API would add a tenth to what they take.
    Nothing redirects: Gitea would follow with a GET and take that for a success.
    """
    gateway = Gateway(client)
    webhook = Webhook(settings, gateway, AuditStream(settings.state_dir / INGRESS_FILE))
    operators = _operator_api(settings, client, gateway)
    operators.state.closing = closing

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        delivery = scope["type"] == "http" and scope["path"] in _WEBHOOK_PATHS
        await (webhook if delivery else operators)(scope, receive, send)

    return app


def _operator_api(settings: Settings, client: Client, gateway: Gateway) -> FastAPI:
    """Everything but deliveries."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.state.temporal, app.state.gateway = client, gateway
    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(RequestValidationError, on_invalid_request)
    app.add_exception_handler(CcwebError, on_ccweb_error)
    app.add_exception_handler(Exception, on_fault)
    app.router.add_route("/healthz", healthz, methods=["GET"])
    app.router.add_route("/metrics", exposed, methods=["GET"])
    app.state.settings = settings
    app.state.operators = Operators(settings.state_dir / OPERATORS_FILE)
    app.include_router(control.router)
    _add_pages(app, settings, client)
    app.router.add_route(f"{control.PREFIX}/openapi.json", described, methods=["GET"])
    app.router.add_route("/readyz", readyz, methods=["GET"])
    return app


async def described(request: Request) -> Response:
    """The OpenAPI document of the operator API."""
    return JSONResponse(openapi.describe(request.app))


def _add_pages(app: FastAPI, settings: Settings, client: Client) -> None:
    pages = Pages(settings, client, app.state.operators)
    pages.register(app)
    if settings.oidc_client_id:
        from ingress import web_oidc  # noqa: PLC0415 - only those load Authlib who use it

        app.mount(web_oidc.PREFIX, web_oidc.application(settings, pages))


async def healthz(_: Request) -> Response:
    """The process answers."""
    return JSONResponse({"status": "ok"})


async def exposed(_: Request) -> Response:
    """The metrics of this process for Prometheus."""
    return Response(await asyncio.to_thread(metrics.exposition), media_type=metrics.CONTENT_TYPE)


async def readyz(request: Request) -> Response:
    """A delivery that came now would be taken: a secret is set and Temporal answers."""
    settings: Settings = request.app.state.settings
    if not settings.secrets:
        return problem(ErrorCode.SETTINGS_INVALID, "CCWEB_WEBHOOK_SECRETS is empty, so every delivery is refused")
    gateway: Gateway = request.app.state.gateway
    try:
        await gateway.check()
    except TemporalUnavailableError as error:
        return problem(error.code, error.detail)
    return JSONResponse({"status": "ready"})
