"""Makes the pages of `docs/reference/` that follow from code: `python reference.py`; a test tells old ones."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from fastapi import FastAPI

import cli
from domain import metrics
from ingress import control, examples
from ingress.openapi import describe

FOLDER = Path(__file__).parent / "docs" / "reference"
_EXIT_CODES = """\
| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the answer is no: not legal in this state, a check failed, the archive is broken |
| 2 | wrong usage or settings |
| 3 | there is no such thing |
| 4 | Temporal cannot be reached; nothing is known to have changed, repeat with the same `--request-id` |
"""


_METRICS = """\
The ingress shows its metrics at `/metrics` on its own port, the worker on `CCWEB_METRICS_PORT`. They need no sign-in
and name no repository and no person; a reverse proxy in front of the ingress need not pass `/metrics` on. With
`OTEL_EXPORTER_OTLP_ENDPOINT` both processes send them by OTLP too (there with dots instead of the first underscores),
and their traces. A histogram has `_bucket`, `_sum` and `_count`. What workflows record has Temporal's labels
`namespace`, `task_queue` and `workflow_type` besides. `deploy/grafana/dashboard.json` and
`deploy/prometheus/alerts.yml` use all of them.
"""
_TEMPORAL = """\
Temporal's SDK adds its own, as its documentation lists them, with units in seconds. The dashboard and the alerts use:
"""


def pages() -> dict[str, str]:
    """File name to content of every page that is made."""
    return {"api.md": api_page(), "cli.md": cli_page(), "metrics.md": metrics_page()}


def api_page() -> str:
    app = FastAPI()
    app.include_router(control.router)
    document = describe(app)
    lines = ["# Operator API", "", document["info"]["description"].strip(), ""]
    lines += [f"The same as OpenAPI: `GET {control.PREFIX}/openapi.json`.", ""]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            lines += _operation(f"{method.upper()} {path}", operation)
    lines += ["# Records", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += _schema(name, schema)
    return "\n".join(lines).rstrip() + "\n"


def _operation(title: str, operation: dict[str, Any]) -> Iterator[str]:
    yield from (f"## {title}", "", operation.get("description", ""), "")
    given = operation.get("parameters", [])
    if given:
        yield from ("| parameter | in | values |", "|---|---|---|")
        yield from (f"| `{one['name']}` | {one['in']} | {_cell(one['schema'])} |" for one in given)
        yield ""
    if "requestBody" in operation:
        yield from ("Body: `Call`, for example", "", "```json", json.dumps(examples.CALL), "```", "")
    yield from ("| answer | what |", "|---|---|")
    for status, answer in sorted(operation["responses"].items()):
        yield f"| {status} | {_codes(answer)} |"
    yield ""
    sample = operation["responses"]["200"].get("content", {}).get("application/json", {}).get("example")
    if sample:
        yield from ("```json", json.dumps(sample, ensure_ascii=False), "```", "")


def _codes(answer: dict[str, Any]) -> str:
    examples = answer.get("content", {}).get("application/problem+json", {}).get("examples")
    if examples:
        return "; ".join(f"`{code}`: {one['value']['title']} {one['summary']}" for code, one in examples.items())
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return f"{answer['description']} {_cell(schema)}".strip()


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f"## {name}", "")
    if text := schema.get("description", ""):
        yield from (text, "")
    if "enum" in schema:
        yield from (", ".join(f"`{one}`" for one in schema["enum"]), "")
    if "properties" in schema:
        yield from ("| field | values | |", "|---|---|---|")
        for field, about in schema["properties"].items():
            told = " ".join(about.get("description", "").split())
            yield f"| `{field}` | {_cell(about)} | {told} |"
        yield ""


def _cell(schema: dict[str, Any]) -> str:
    """The type of a field in a few words."""
    if "$ref" in schema:
        return f"[{(name := schema['$ref'].rsplit('/', 1)[1])}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_cell(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_cell(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_cell(schema['additionalProperties'])}"
    limits = [f"{word} {schema[key]}" for key, word in _LIMITS.items() if key in schema]
    return " ".join([str(schema.get("format") or schema.get("type", "any")), *limits]).replace("|", "\\|")


_LIMITS = {"minimum": "from", "maximum": "to", "minLength": "at least", "maxLength": "at most", "pattern": "like"}


def cli_page() -> str:
    root = typer.main.get_command(cli.app)
    lines = ["# The `ccweb` command", "", f"{root.help}", "", _EXIT_CODES]
    lines += ["With `--json` a command prints one line of JSON on stdout; errors are one line on stderr.", ""]
    for words, command in _commands(root, []):
        lines += [f"## ccweb {' '.join(words)}", "", (command.help or "").strip(), ""]
        rows = [_parameter(parameter) for parameter in command.params]
        lines += [*(["| | | |", "|---|---|---|", *rows, ""] if rows else [])]
    return "\n".join(lines).rstrip() + "\n"


def metrics_page() -> str:
    rows = [
        f"| `{one.exported}` | {one.kind} | {one.of} | {_labels(one)} | {one.meaning} |" for one in metrics.METRICS
    ]
    theirs = [f"| `{name}` | {meaning} |" for name, meaning in metrics.TEMPORAL.items()]
    head = ["| metric | kind | of | labels | meaning |", "|---|---|---|---|---|"]
    lines = ["# Metrics", "", _METRICS, *head, *rows, "", _TEMPORAL, "| metric | meaning |", "|---|---|", *theirs]
    return "\n".join(lines) + "\n"


def _labels(metric: metrics.Metric) -> str:
    return ", ".join(f"`{name.replace('.', '_')}`" for name in metric.labels)


def _commands(command: Any, words: list[str]) -> Iterator[tuple[list[str], Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        if hasattr(inner, "commands"):
            yield from _commands(inner, [*words, name])
        else:
            yield [*words, name], inner


def _parameter(parameter: Any) -> str:
    names = ", ".join(f"`{one}`" for one in parameter.opts)
    name = names if parameter.param_type_name == "option" else f"`{parameter.name.upper()}`"
    return f"| {name} | {'required' if parameter.required else ''} | {getattr(parameter, 'help', None) or ''} |"


if __name__ == "__main__":
    for file, text in pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
