"""The span and the metrics of a turn, by OpenTelemetry's GenAI conventions (design section 10). No text of people."""

import contextlib
from collections.abc import Iterator

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv._incubating.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import (
    GenAiOperationNameValues,
    GenAiProviderNameValues,
    GenAiTokenTypeValues,
)
from opentelemetry.trace import Span, SpanKind, StatusCode

import metrics
import tracing
from clients import journal
from clients.journal import JournalLine
from domain.events import TurnOutcome, TurnRequest
from domain.metrics import TURN_COST, TURN_DURATION, TURN_TOKENS
from settings import Settings

_AGENT = "codex"
_NANO = 1_000_000_000
_tracer = tracing.tracer("ccweb.turn")


@contextlib.contextmanager
def span(settings: Settings, request: TurnRequest) -> Iterator[Span]:
    """The span of one attempt to run a turn, as current."""
    attributes = {
        **_common(settings),
        **tracing.resource(request.repository, request.kind, request.number),
        gen_ai.GEN_AI_AGENT_NAME: _AGENT,
        "ccweb.task.id": request.task_id,
        "ccweb.turn.key": request.turn_key,
        "ccweb.turn.purpose": request.purpose,
    }
    with _tracer.start_as_current_span(
        f"invoke_agent {_AGENT}", kind=SpanKind.CLIENT, attributes=attributes
    ) as opened:
        yield opened


def ended(settings: Settings, request: TurnRequest, outcome: TurnOutcome, opened: Span) -> None:
    """Says what became of the turn, and what the bridge did in it."""
    _measure(settings, request, outcome)
    opened.set_attributes(
        {
            gen_ai.GEN_AI_CONVERSATION_ID: outcome.thread_id,
            gen_ai.GEN_AI_RESPONSE_ID: outcome.turn_id or "",
            gen_ai.GEN_AI_USAGE_INPUT_TOKENS: outcome.usage.input_tokens,
            gen_ai.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: outcome.usage.cached_input_tokens,
            gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS: outcome.usage.output_tokens,
            "ccweb.turn.status": outcome.status,
        }
    )
    if outcome.error_code is not None:
        opened.set_attribute(ERROR_TYPE, outcome.error_code)
        opened.set_status(StatusCode.ERROR, outcome.error_code)
    _tool_calls(settings, request.task_id, outcome.turn_id)


def _common(settings: Settings) -> dict[str, str]:
    return {
        gen_ai.GEN_AI_OPERATION_NAME: GenAiOperationNameValues.INVOKE_AGENT.value,
        gen_ai.GEN_AI_PROVIDER_NAME: GenAiProviderNameValues.OPENAI.value,
        gen_ai.GEN_AI_REQUEST_MODEL: settings.model,
    }


def _measure(settings: Settings, request: TurnRequest, outcome: TurnOutcome) -> None:
    labels = {"purpose": request.purpose, "status": outcome.status, "error_code": outcome.error_code or ""}
    metrics.record(TURN_DURATION, outcome.spent.seconds, labels)
    metrics.record(TURN_COST, outcome.spent.cost, {gen_ai.GEN_AI_REQUEST_MODEL: settings.model})
    counts = {
        GenAiTokenTypeValues.INPUT.value: outcome.usage.input_tokens,
        "input_cached": outcome.usage.cached_input_tokens,
        GenAiTokenTypeValues.OUTPUT.value: outcome.usage.output_tokens,
    }
    for kind, tokens in counts.items():
        metrics.record(TURN_TOKENS, tokens, {**_common(settings), gen_ai.GEN_AI_TOKEN_TYPE: kind})


def _tool_calls(settings: Settings, task_id: str, turn_id: str | None) -> None:
    """One span for each effect of the bridge, which keeps times in its journal and sends none itself."""
    intents: dict[str, JournalLine] = {}
    for line in journal.read(settings.journal_dir, task_id):
        if line.turn_id != turn_id:
            continue
        if line.phase == "intent":
            intents[line.call_id] = line
        elif (intent := intents.pop(line.call_id, None)) is not None:
            _tool_call(intent, line)


def _tool_call(intent: JournalLine, result: JournalLine) -> None:
    attributes: dict[str, str | int | bool] = {
        gen_ai.GEN_AI_OPERATION_NAME: GenAiOperationNameValues.EXECUTE_TOOL.value,
        gen_ai.GEN_AI_TOOL_NAME: intent.tool,
        gen_ai.GEN_AI_TOOL_CALL_ID: intent.call_id,
        "ccweb.accepted": bool(result.fields.get("accepted")),
    }
    if comment := result.fields.get("commentId"):
        attributes["ccweb.comment.id"] = comment
    opened = _tracer.start_span(
        f"execute_tool {intent.tool}", attributes=attributes, start_time=int(intent.at * _NANO)
    )
    if error := result.fields.get("errorCode"):
        opened.set_attribute(ERROR_TYPE, error)
        opened.set_status(StatusCode.ERROR, error)
    opened.end(int(result.at * _NANO))
