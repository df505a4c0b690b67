"""The route of Gitea's deliveries: read within bounds, judge, hand to Temporal, answer (design section 4)."""

import asyncio
import logging
import time
from datetime import UTC, datetime
from functools import partial
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

import metrics
import tracing
from connection import TemporalUnavailableError
from domain import ids
from domain.errors import ErrorCode
from domain.events import Poke, ResourceClosed, TaskEvent
from domain.metrics import DELIVERIES, DELIVERY_DURATION
from domain.subjects import Act, Subject
from domain.triggers import MAX_TITLE, Decision, DecisionCode, DecisionKind, task_event
from gateway import Gateway, deadline
from ingress.audit import AuditStream
from ingress.gitea import RawDelivery, judge, media_type_of, payload_hash
from ingress.problems import problem
from ingress.room import NoRoomError, Room, Share
from policy import policy_of
from settings import Settings

_LOG = logging.getLogger(__name__)
_TRACER = tracing.tracer(__name__)
BODY_SECONDS = 4.0
"""Gitea gives a delivery 5 s in all; a body that trickles longer is given up."""
_LATE = "the body did not arrive whole and in time"
_NO_BODY = payload_hash(b"")
_INLINE_BYTES = 32 * 1024
"""Larger bodies are judged in a thread, so that they do not hold up others."""
_JUDGES = 2
"""Threads for them: what a signed body becomes while it is validated may be 40 times as large."""


class Webhook:
    """An ASGI application that takes deliveries, whatever its path."""

    def __init__(self, settings: Settings, gateway: Gateway, audit: AuditStream) -> None:
        self._settings = settings
        self._gateway = gateway
        self._audit = audit
        self._policy = policy_of(settings)
        self._room = Room()
        self._judges = asyncio.Semaphore(_JUDGES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; never raises."""
        if scope["method"] == "POST":
            try:
                response = await self._handle(Request(scope, receive))
            except Exception:  # noqa: BLE001  # a fault of ours; Gitea keeps the delivery
                _LOG.exception("delivery failed")
                response = problem(ErrorCode.INTERNAL_ERROR)
        else:
            response = problem(ErrorCode.METHOD_NOT_ALLOWED, headers={"Allow": "POST"})
        await response(scope, receive, send)

    async def _handle(self, request: Request) -> Response:
        """Answers one delivery; 2xx for a trigger only once it is in Temporal's history."""
        began = time.monotonic()
        try:
            return await self._answer(request)
        finally:
            metrics.record(DELIVERY_DURATION, time.monotonic() - began)

    async def _answer(self, request: Request) -> Response:
        # A root of its own: on a kept connection the server may run a request in the context of the one before.
        with _TRACER.start_as_current_span("POST /api/gitea/webhook", Context(), trace.SpanKind.SERVER):
            received_at = datetime.now(UTC)
            try:
                with self._room.share() as share:
                    digest, decision = await self._judge(request, share)
            except NoRoomError:
                _LOG.warning("not taken: too many large bodies at once")
                return problem(ErrorCode.INGRESS_BUSY, headers={"Retry-After": "5"})
            remote = request.client.host if request.client else ""
            if decision.decision in {DecisionKind.IGNORE, DecisionKind.REJECT}:
                return self._decline(decision, digest, remote)
            try:
                return await self._hand_over(decision, digest, received_at)
            except TemporalUnavailableError as error:
                _LOG.warning("not taken: %s", error, extra=_ids(decision))
                _count("unavailable", error.code)
                return problem(error.code, headers={"Retry-After": "5"})

    async def _judge(self, request: Request, share: Share) -> tuple[str, Decision]:
        headers = dict(request.headers)
        if media_type_of(headers) is None:
            return _NO_BODY, Decision(DecisionCode.UNSUPPORTED_MEDIA_TYPE)
        try:
            body = await read_body(request, self._settings.max_body_bytes, share)
        except (ClientDisconnect, TimeoutError):
            return _NO_BODY, Decision(
                DecisionCode.INVALID_PAYLOAD, detail="the body did not arrive whole and in time"
            )
        if body is None:
            return _NO_BODY, Decision(DecisionCode.PAYLOAD_TOO_LARGE)
        raw, secrets = RawDelivery(request.method, headers, body), self._settings.secrets
        if len(body) <= _INLINE_BYTES:
            return payload_hash(body), judge(raw, secrets, self._policy)
        async with self._judges:
            decision = await asyncio.to_thread(judge, raw, secrets, self._policy)
            return await asyncio.to_thread(payload_hash, body), decision

    def _decline(self, decision: Decision, digest: str, remote: str) -> Response:
        self._audit.record(decision, digest, remote)
        _LOG.info("%s: %s", decision.decision, decision.code, extra=_ids(decision))
        status = "ignored" if decision.decision is DecisionKind.IGNORE else "rejected"
        _count(status, decision.code)
        if decision.http_status == 200:
            return _said(status, decision, decision.code, reason=decision.reason)
        return problem(ErrorCode(decision.code), decision.detail if decision.http_status == 400 else "")

    async def _hand_over(self, decision: Decision, digest: str, received_at: datetime) -> Response:
        subject = decision.subject
        if subject is None:
            raise ValueError(f"{decision.code} without a subject")
        span = trace.get_current_span()
        span.set_attributes(tracing.resource(subject.repository, subject.kind, subject.number))
        if decision.task_id:
            span.set_attribute("ccweb.task.id", decision.task_id)
        async with deadline():
            standing = await self._gateway.standing(subject.repository)
            if subject.act in {Act.CLOSED, Act.REOPENED}:
                return await self._closed(decision, subject, standing.repo_key, received_at)
            if standing.disabled:
                return self._disabled(decision, digest)
            if decision.decision is DecisionKind.POKE:
                await self._gateway.poke(
                    _poke(decision, subject, standing.repo_key, digest, received_at), subject.kind
                )
                return _poked(decision, True)
            event = task_event(
                decision,
                repo_key=standing.repo_key,
                received_at=received_at,
                payload_hash=digest,
                traceparent=tracing.traceparent(),
            )
            fresh = await self._gateway.deliver(event)
        _count("accepted" if fresh else "duplicate", decision.code)
        return _taken(event) if fresh else _duplicate(event)

    async def _closed(self, decision: Decision, subject: Subject, repo_key: str, received_at: datetime) -> Response:
        closed = ResourceClosed(
            session_key=ids.resource_key(repo_key, subject.kind, subject.number),
            closed=subject.act is Act.CLOSED,
            actor=subject.sender.login,
            received_at=received_at,
        )
        return _poked(decision, await self._gateway.tell_closed(closed))

    def _disabled(self, decision: Decision, digest: str) -> Response:
        code = DecisionCode.REPOSITORY_DISABLED
        declined = Decision(code, decision.delivery_id, decision.event_type, decision.subject)
        self._audit.record(declined, digest)
        _LOG.info("rejected: %s", code, extra=_ids(decision))
        _count("rejected", code)
        if self._settings.disabled_policy == "ignore":
            return _said("ignored", decision, code, reason=declined.reason)
        return problem(ErrorCode.REPOSITORY_DISABLED)


async def read_body(request: Request, limit: int, share: Share | None = None) -> bytes | None:
    """The body, or None as soon as it is known to be longer than `limit`.

    Raises:
        NoRoomError: `share` cannot grow to hold it.
        TimeoutError: it took longer than `BODY_SECONDS`.
        ClientDisconnect: the sender went away.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limit:
        return None
    body = bytearray()
    async with asyncio.timeout(BODY_SECONDS):
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                return None
            if share is not None:
                share.grow(len(body))
    return bytes(body)


def _poke(decision: Decision, subject: Subject, repo_key: str, digest: str, received_at: datetime) -> Poke:
    return Poke(
        act="reviewed" if subject.act is Act.REVIEWED else "unassigned",
        delivery_id=decision.delivery_id,
        event_type=decision.event_type,
        repository=subject.repository,
        repo_key=repo_key,
        session_key=ids.resource_key(repo_key, subject.kind, subject.number),
        number=subject.number,
        title=subject.title[:MAX_TITLE],
        actor=subject.sender.login,
        payload_hash=digest,
        received_at=received_at,
        traceparent=tracing.traceparent(),
    )


def _poked(decision: Decision, told: bool) -> Response:
    _LOG.info("%s, session told: %s", decision.code, told, extra=_ids(decision))
    status = "poked" if told else "ignored"
    _count(status, decision.code)
    return _said(status, decision, decision.code, reason=decision.reason)


def _count(outcome: str, reason: str) -> None:
    metrics.add(DELIVERIES, {"outcome": outcome, "reason": reason})


def _taken(event: TaskEvent) -> Response:
    extra = {"deliveryId": event.delivery_id, "taskId": event.task_id, "sessionKey": event.session_key}
    # After the answer, which is written before this task gives way: it does not wait for the log's disk.
    asyncio.get_running_loop().call_soon(partial(_LOG.info, "queued", extra=extra))
    return JSONResponse({"deliveryId": event.delivery_id, "taskId": event.task_id, "state": "queued"}, 202)


def _duplicate(event: TaskEvent) -> Response:
    extra = {"deliveryId": event.delivery_id, "taskId": event.task_id, "sessionKey": event.session_key}
    _LOG.info("duplicate", extra=extra)
    return JSONResponse(
        {
            "status": "duplicate",
            "deliveryId": event.delivery_id,
            "taskId": event.task_id,
            "code": ErrorCode.DUPLICATE_DELIVERY,
        }
    )


def _said(status: str, decision: Decision, code: DecisionCode, **more: Any) -> Response:
    return JSONResponse({"status": status, "deliveryId": decision.delivery_id, "code": code, **more})


def _ids(decision: Decision) -> dict[str, Any]:
    found = {
        "deliveryId": decision.delivery_id or None,
        "taskId": decision.task_id,
        "sessionKey": decision.resource_key,
    }
    return {name: value for name, value in found.items() if value}
