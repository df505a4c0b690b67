"""A model endpoint that plays scripts: `POST /v1/responses` as Codex speaks it, and `/_sim/` to steer it.

The script is named by `[[script:NAME]]` in the last user message that has one (or a known sentence), the step
is the number of tool outputs after it: the endpoint keeps no conversation, so a resumed thread goes on where
it was.
"""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from simulators.model.scripts import BY_TEXT, DEFAULT, SCRIPTS, Step

_NAMED = re.compile(r"\[\[script:([\w-]+)\]\]")
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_HTTP_FAULTS: dict[str, tuple[int, dict[str, Any]]] = {
    "401": (401, {"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}}),
    "403": (403, {"error": {"message": "Forbidden", "type": "invalid_request_error"}}),
    "404": (404, {"error": {"message": "The model does not exist", "code": "model_not_found"}}),
    "400": (400, {"error": {"message": "Invalid prompt", "type": "invalid_request_error"}}),
    "429-rate": (429, {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}),
    "429-quota": (429, {"error": {"message": "You exceeded your current quota", "type": "usage_limit_reached"}}),
    "500": (500, {"error": {"message": "The server had an error", "type": "server_error"}}),
    "503": (503, {"error": {"message": "overloaded", "code": "server_is_overloaded"}}),
}
_FAILED_EVENTS = {
    "context": ("context_length_exceeded", "Your input exceeds the context window of this model."),
    "quota": ("insufficient_quota", "You exceeded your current quota."),
    "rate": ("rate_limit_exceeded", "Rate limit reached."),
    "server_error": ("server_error", "The server had an error."),
}


@dataclass(slots=True)
class Model:
    """The scripts, the gates and what was asked so far."""

    key: str
    scripts: dict[str, list[Step]] = field(default_factory=lambda: dict(SCRIPTS))
    requests: list[dict[str, Any]] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    def step(self, body: dict[str, Any]) -> tuple[str, int, Step]:
        """Script, index and step of a request; past its end a script says `Done.`."""
        name, outputs = _position(body["input"])
        steps = self.scripts.get(name, [{"say": f"There is no script {name}."}])
        step = steps[len(outputs)] if len(outputs) < len(steps) else {"say": "Done."}
        filled = json.loads(json.dumps(step).replace("{output}", json.dumps(outputs[-1] if outputs else "")[1:-1]))
        return name, len(outputs), filled


def create_app(key: str) -> Starlette:
    """The endpoint; requests must carry `key`."""
    app = Starlette(
        routes=[
            Route("/v1/responses", _responses, methods=["POST"]),
            Route("/v1/models", _models),
            Route("/_sim/scripts", _scripts, methods=["POST"]),
            Route("/_sim/requests", _requests),
            Route("/_sim/release/{gate}", _release, methods=["POST"]),
        ]
    )
    app.state.model = Model(key)
    return app


async def _responses(request: Request) -> Response:
    model: Model = request.app.state.model
    if request.headers.get("authorization") != f"Bearer {model.key}":
        return _fault("401")
    body = await request.json()
    name, index, step = model.step(body)
    metadata = json.loads(request.headers.get("x-codex-turn-metadata", "{}"))
    model.requests.append({"script": name, "step": index, "turnId": metadata.get("turn_id"), "body": body})
    if gate := step.get("gate"):
        await model.gate(gate).wait()
    fault = step.get("fault")
    if fault in _HTTP_FAULTS:
        return _fault(fault)
    if fault == "never_headers":
        while not await request.is_disconnected():
            await asyncio.sleep(0.05)
    return StreamingResponse(_stream(next(model.numbers), step), media_type="text/event-stream")


def _fault(name: str) -> JSONResponse:
    status, body = _HTTP_FAULTS[name]
    return JSONResponse(body, status)


async def _models(request: Request) -> Response:
    model: Model = request.app.state.model
    if request.headers.get("authorization") != f"Bearer {model.key}":
        return _fault("401")
    return JSONResponse({"models": [], "data": [], "object": "list"})


async def _scripts(request: Request) -> Response:
    request.app.state.model.scripts |= await request.json()
    return JSONResponse({})


async def _requests(request: Request) -> Response:
    """What was asked, without bodies unless `?bodies=1`."""
    keep = "bodies" in request.query_params
    return JSONResponse(
        [{k: v for k, v in one.items() if keep or k != "body"} for one in request.app.state.model.requests]
    )


async def _release(request: Request) -> Response:
    request.app.state.model.gate(request.path_params["gate"]).set()
    return JSONResponse({})


async def _stream(number: int, step: Step) -> AsyncIterator[str]:
    response = f"resp_{number}"
    yield _event("response.created", {"response": {"id": response}})
    fault = step.get("fault")
    if fault == "silence":
        await asyncio.Event().wait()
    if fault == "cut":
        return
    if fault in _FAILED_EVENTS:
        code, message = _FAILED_EVENTS[fault]
        yield _event("response.failed", {"response": {"id": response, "error": {"code": code, "message": message}}})
        return
    for index, item in enumerate(_items(number, step)):
        yield _event("response.output_item.done", {"output_index": index, "item": item})
    yield _event("response.completed", {"response": {"id": response, "usage": _USAGE}})


_USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 120,
}


def _items(number: int, step: Step) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if text := step.get("say"):
        phase = "commentary" if step.keys() & {"exec", "mcp"} else "final_answer"
        content = [{"type": "output_text", "text": text}]
        items.append(
            {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": content, "phase": phase}
        )
    if command := step.get("exec"):
        arguments = {"cmd": command, "login": False, "yield_time_ms": step.get("yield_time_ms", 30000)}
        items.append(_call(number, "exec_command", arguments))
    if tool := step.get("mcp"):
        items.append(_call(number, tool, step.get("arguments", {})) | {"namespace": "mcp__gitea"})
    return items


def _call(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": name,
        "arguments": json.dumps(arguments),
    }


def _event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"


def _position(items: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """The script of the last user message that names one, and the tool outputs after that message."""
    name, outputs = DEFAULT, list[str]()
    for item in items:
        if item.get("type") in _OUTPUTS:
            outputs.append(_text(item.get("output")))
        elif item.get("role") == "user" and (found := _script_in(_text(item.get("content")))):
            name, outputs = found, []
    return name, outputs


def _script_in(text: str) -> str | None:
    if named := _NAMED.findall(text):
        return str(named[-1])
    return next((script for sentence, script in BY_TEXT if sentence in text.lower()), None)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return _own_output(value)
    return _own_output("\n".join(str(part.get("text", "")) for part in value or [] if isinstance(part, dict)))


def _own_output(text: str) -> str:
    """A command's output without what Codex writes above it."""
    return text.split("Output:\n", 1)[-1].strip()
