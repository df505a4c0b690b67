"""Compares the shape of JSON with what a real Gitea 1.22 sent: keys and types, at every depth."""

import functools
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "data"


def api(name: str) -> dict[str, Any]:
    """One captured pair of request and response."""
    return _read(DATA / "gitea_api" / f"{name}.json")


def capture(name: str) -> dict[str, Any]:
    """One captured delivery: method, path, headers, body."""
    return _read(DATA / "webhooks" / f"{name}.json")


def delivery(name: str) -> Any:
    """The body of one captured delivery."""
    return json.loads(capture(name)["body"])


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def differences(seen: Any, captured: Any, where: str = "$") -> list[str]:
    """What differs in keys and types. Null is taken where any capture has it; lists differ by their first items."""
    if captured is None or (seen is None and where.rpartition(".")[2] in _nullable()):
        return []
    if isinstance(captured, dict) and isinstance(seen, dict):
        return _of_objects(seen, captured, where)
    if isinstance(captured, list) and isinstance(seen, list):
        return differences(seen[0], captured[0], f"{where}[0]") if seen and captured else []
    return [] if type(seen) is type(captured) else [f"{where}: {type(seen).__name__}, not {type(captured).__name__}"]


def _of_objects(seen: dict[str, Any], captured: dict[str, Any], where: str) -> list[str]:
    found = [f"{where}.{key}: not in Gitea" for key in seen.keys() - captured.keys()]
    found += [f"{where}.{key}: missing" for key in captured.keys() - seen.keys()]
    for key in seen.keys() & captured.keys():
        found += differences(seen[key], captured[key], f"{where}.{key}")
    return sorted(found)


@functools.cache
def _nullable() -> frozenset[str]:
    """The keys that are null somewhere in what Gitea sent."""
    found: set[str] = set()
    for path in (DATA / "webhooks").glob("*.json"):
        if (text := _read(path)["body"])[:1] == "{":
            _nulls(json.loads(text), found)
    for path in (DATA / "gitea_api").glob("*.json"):
        _nulls(_read(path).get("response", {}).get("body"), found)
    return frozenset(found)


def _nulls(value: Any, found: set[str]) -> None:
    if isinstance(value, dict):
        found.update(key for key, inner in value.items() if inner is None)
        value = list(value.values())
    for inner in value if isinstance(value, list) else []:
        _nulls(inner, found)
