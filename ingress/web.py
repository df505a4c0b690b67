"""The operators' pages: server-rendered, live by server-sent events, the same reads and orders as the API.

Every answer carries a strict Content-Security-Policy; nothing of a page is inline (design section 13).
"""

import asyncio
import functools
import re
import uuid
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlencode

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response, StreamingResponse
from temporalio.client import Client

from domain.errors import TEXTS, CcwebError, ErrorCode
from domain.states import TaskState
from ingress import web_live, web_texts, web_view
from ingress.problems import status_of
from ingress.web_auth import COOKIE, Session, Sessions, must_be_ours, must_match
from ingress.webhook import read_body
from operations import commands, reads, trail
from operations.commands import Order
from operations.costs import costs
from operations.operators import Operators, Role
from operations.records import ControlResult, Overview
from settings import Settings

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STATIC_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}
_MAX_FORM = 16 * 1024
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")
Handler = Callable[[Request], Awaitable[Response]]
SignedIn = Callable[[Request, Session], Awaitable[Response]]


class Pages:
    """All pages; `register` adds them to the application."""

    def __init__(self, settings: Settings, client: Client, operators: Operators) -> None:
        self.settings = settings
        self.sessions = Sessions(settings.secret_dir, operators, secure=settings.public_url.startswith("https://"))
        self._client = client
        self._templates = web_view.environment()
        self._links = web_view.Links(settings, client.namespace)
        self._overviews = web_live.Overviews(client)

    def register(self, app: FastAPI) -> None:
        add = app.router.add_route
        add("/login", self.shown(self.login), methods=["GET"])
        add("/login", self.shown(self.signing_in), methods=["POST"])
        add("/logout", self.shown(self.signing_out), methods=["POST"])
        add("/static/{name}", self.static, methods=["GET"])
        add("/", self._signed_in(self.overview), methods=["GET"])
        add("/parts/overview", self._signed_in(self.overview_part), methods=["GET"])
        add("/tasks", self._signed_in(self.tasks), methods=["GET"])
        add("/tasks/{task_id}", self._signed_in(self.task), methods=["GET"])
        add("/parts/tasks/{task_id}", self._signed_in(self.task_part), methods=["GET"])
        add("/act", self._signed_in(self.ask), methods=["GET"])
        add("/act", self._signed_in(self.act), methods=["POST"])
        add("/live", self._signed_in(self.live), methods=["GET"])

    # Sign-in

    async def login(self, request: Request) -> Response:
        if self.sessions.of(request):
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        return self.page(request, "login.html", problem=None)

    async def signing_in(self, request: Request) -> Response:
        must_be_ours(request)
        form = await _form(request)
        operator = self.sessions.by_token(form.get("token", ""))
        if operator is None:
            return self.page(request, "login.html", HTTPStatus.UNAUTHORIZED, problem="token_wrong")
        response = RedirectResponse("/", HTTPStatus.SEE_OTHER)
        self.sessions.sign_in(response, operator, secure=request.url.scheme == "https")
        return response

    async def signing_out(self, request: Request) -> Response:
        must_be_ours(request)
        response = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict", path="/")
        return response

    # Reading

    async def overview(self, request: Request, session: Session) -> Response:
        return self.page(request, "overview.html", session=session, **await self._overview())

    async def overview_part(self, request: Request, session: Session) -> Response:
        return self.page(request, "overview_part.html", session=session, **await self._overview())

    async def _overview(self) -> dict[str, Any]:
        overview, newest, failed, unposted, spent = await asyncio.gather(
            reads.overview(self._client),
            reads.tasks(self._client, limit=100),
            reads.tasks(self._client, state=TaskState.FAILED, limit=8),
            reads.tasks(self._client, state=TaskState.FAILED_REPLY, limit=8),
            costs(self._client),
        )
        lost = sorted([*failed.tasks, *unposted.tasks], key=lambda task: task.created_at, reverse=True)[:8]
        groups: dict[str, list[Any]] = {name: [] for name in ("running", "queued", "waiting", "blocked", "ended")}
        for task in newest.tasks:
            group = web_view.group_of(task.state)
            groups[group if group in groups else "ended"].append(task)
        groups["ended"] = [task for task in groups["ended"] if task.state is not TaskState.FAILED][:8]
        shown = web_view.chart(spent) if spent.total else None
        return {
            "overview": overview,
            "groups": {**groups, "failed": lost},
            "costs": spent,
            "chart": shown,
            "counts": _counts(overview),
        }

    async def tasks(self, request: Request, session: Session) -> Response:
        wish = {name: request.query_params.get(name) or None for name in ("repo", "state", "cursor")}
        page = await reads.tasks(
            self._client, repo=wish["repo"], state=_state(wish["state"]), cursor=wish["cursor"], limit=50
        )
        kept = {name: wish[name] for name in ("repo", "state") if wish[name]}
        more = f"?{urlencode({**kept, 'cursor': page.next_cursor})}" if page.next_cursor else None
        return self.page(request, "tasks.html", session=session, tasks=page.tasks, more=more, wish=wish)

    async def task(self, request: Request, session: Session) -> Response:
        return self.page(request, "task.html", session=session, **await self._task(request))

    async def task_part(self, request: Request, session: Session) -> Response:
        return self.page(request, "task_part.html", session=session, **await self._task(request))

    async def _task(self, request: Request) -> dict[str, Any]:
        task = await trail.task(self._client, request.path_params["task_id"])
        help_text = TEXTS[task.error_code] if task.error_code else None
        return {"task": task, "entries": web_view.timeline(task), "help": help_text}

    async def live(self, request: Request, _: Session) -> Response:
        task_id = request.query_params.get("task")
        look = functools.partial(web_live.task_mark, self._client, task_id) if task_id else self._overviews.mark
        closing: Callable[[], bool] = request.app.state.closing
        events = web_live.stream(look, lambda: not closing() and self.sessions.of(request) is not None)
        return StreamingResponse(events, media_type="text/event-stream", headers=_HEADERS)

    # Steering

    async def ask(self, request: Request, session: Session) -> Response:
        """A form that says what will happen and asks why."""
        action, target = _wish(request.query_params.get("action", ""), request.query_params.get("target", ""))
        _must_be_allowed(session, action)
        return self.page(
            request, "act.html", session=session, action=action, target=target, request_id=uuid.uuid4().hex
        )

    async def act(self, request: Request, session: Session) -> Response:
        must_be_ours(request)
        form = await _form(request)
        must_match(session, form.get("csrf", ""))
        action, target = _wish(form.get("action", ""), form.get("target", ""))
        _must_be_allowed(session, action)
        result = await self._obey(action, target, _order(form, session))
        place = f"/tasks/{result.tasks[0]}" if target.startswith("gitea-task-") else "/"
        return RedirectResponse(f"{place}?done={'taken' if result.taken else 'stored'}", HTTPStatus.SEE_OTHER)

    async def _obey(self, action: str, target: str, order: Order) -> ControlResult:
        if action in {"pause", "resume"}:
            return await commands.switch(self._client, action, order)
        if action in {"disable", "enable"}:
            return await commands.switch(self._client, action, order, target)
        if action == "unblock" and not target.startswith("gitea-task-"):
            return await commands.unblock_repo(self._client, target, order)
        return await commands.steer_task(self._client, target, action, order)

    async def static(self, request: Request) -> Response:
        path = web_view.HERE / "static" / request.path_params["name"]
        if path.suffix not in _STATIC_TYPES or path.parent.name != "static" or not path.is_file():
            return Response(status_code=HTTPStatus.NOT_FOUND)
        headers = {"Cache-Control": "public, max-age=3600", "X-Content-Type-Options": "nosniff"}
        return FileResponse(path, media_type=_STATIC_TYPES[path.suffix], headers=headers)

    # Rendering

    def page(self, request: Request, template: str, status: int = HTTPStatus.OK, **more: Any) -> HTMLResponse:
        language = web_texts.language_of(request)
        values = {
            "session": None,
            "language": language,
            "t": lambda key: web_texts.text(key, language),
            "state_text": lambda state: web_texts.state_text(state, language),
            "links": self._links,
            "oidc": bool(self.settings.oidc_client_id),
            "needed": web_view.NEEDED,
            "states": list(TaskState),
            "done": request.query_params.get("done"),
            **more,
        }
        response = HTMLResponse(self._templates.get_template(template).render(values), status, _HEADERS)
        if request.query_params.get("lang") in {"zh", "en"}:
            response.set_cookie(web_texts.COOKIE, language, max_age=365 * 86400, httponly=True, samesite="lax")
        return response

    def problem(self, request: Request, error: CcwebError) -> Response:
        """An expected failure as a page."""
        session = self.sessions.of(request)
        told = TEXTS[error.code]
        status = status_of(error.code)
        return self.page(request, "problem.html", status, session=session, told=told, detail=error.detail)

    def shown(self, handler: Handler) -> Handler:
        """Shows expected failures as pages, not as JSON."""

        async def shown(request: Request) -> Response:
            try:
                response = await handler(request)
            except CcwebError as error:
                response = self.problem(request, error)
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return shown

    def _signed_in(self, handler: SignedIn) -> Handler:
        async def signed_in(request: Request) -> Response:
            session = self.sessions.of(request)
            if session is not None:
                return await handler(request, session)
            if request.headers.get("hx-request"):
                return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"HX-Redirect": "/login"})
            if request.method == "GET" and request.url.path != "/live":
                return RedirectResponse("/login", HTTPStatus.SEE_OTHER)
            raise CcwebError(ErrorCode.UNAUTHENTICATED)

        return self.shown(signed_in)


def _counts(overview: Overview) -> dict[str, int]:
    """How many tasks are in each group now, and how many failed in the last day."""
    counts = dict.fromkeys(("running", "queued", "waiting", "blocked", "failed"), 0)
    for state, number in overview.open_tasks.items():
        counts[web_view.group_of(state)] += number
    ended = overview.ended_last_day
    counts["failed"] = ended.get(TaskState.FAILED, 0) + ended.get(TaskState.FAILED_REPLY, 0)
    return counts


def _state(name: str | None) -> TaskState | None:
    if name is None:
        return None
    try:
        return TaskState(name)
    except ValueError:
        raise CcwebError(ErrorCode.INVALID_REQUEST, f"state: no state is called {name[:40]!r}") from None


def _wish(action: str, target: str) -> tuple[str, str]:
    """Raises CcwebError `invalid_request` for an action that is none, or one without its target."""
    if action not in web_view.NEEDED or bool(target) is (action in {"pause", "resume"}):
        raise CcwebError(ErrorCode.INVALID_REQUEST, f"action: {action[:40]!r} cannot be done so")
    return action, target[:200]


def _must_be_allowed(session: Session, action: str) -> None:
    if not session.may(web_view.NEEDED[action]):
        raise CcwebError(
            ErrorCode.FORBIDDEN, f"{session.operator.name} is {Role(session.operator.role).name.lower()}"
        )


def _order(form: dict[str, str], session: Session) -> Order:
    reason = " ".join(form.get("reason", "").split())
    if not 1 <= len(reason) <= 200:
        raise CcwebError(ErrorCode.INVALID_REQUEST, "reason: say something, in at most 200 characters")
    if not _REQUEST_ID.fullmatch(form.get("requestId", "")):
        raise CcwebError(ErrorCode.INVALID_REQUEST, "requestId: load the form again")
    return Order(form["requestId"], reason, f"admin:{session.operator.name}")


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form, the first of each name.

    Raises:
        CcwebError: `payload_too_large`; `invalid_request`, it is no form.
    """
    try:
        body = await read_body(request, _MAX_FORM)
    except (ClientDisconnect, TimeoutError):
        raise CcwebError(ErrorCode.INVALID_REQUEST, "the form did not arrive whole and in time") from None
    if body is None:
        raise CcwebError(ErrorCode.PAYLOAD_TOO_LARGE)
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise CcwebError(ErrorCode.INVALID_REQUEST, "this is no form") from None
    return {name: values[0] for name, values in fields.items()}
