"""`ccweb setup`: the files and registrations that a first installation needs. Safe to repeat: it keeps what is there.

Secrets go into files of their own, readable by this user only; `.env` names the files.
"""

import os
import secrets
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client

from domain import search_attributes
from operations import visibility
from operations.operators import FILE, Operators, Role

_RPC = timedelta(seconds=10)
_KINDS = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "KeywordList": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
    "Double": IndexedValueType.INDEXED_VALUE_TYPE_DOUBLE,
}


@dataclass(frozen=True, slots=True)
class Answers:
    """What a person was asked. An empty secret leaves its file as it is."""

    gitea_url: str
    bot_name: str
    gitea_token: str
    model: str
    model_base_url: str
    model_key: str


def write_secrets(folder: Path, answers: Answers) -> dict[str, Path]:
    """The files of the three secrets by setting; the webhook secret is made, never changed."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = {
        "CCWEB_GITEA_TOKEN_FILE": (folder / "gitea-token", answers.gitea_token),
        "CCWEB_MODEL_KEY_FILE": (folder / "model-key-given", answers.model_key),
        "CCWEB_WEBHOOK_SECRETS_FILE": (folder / "webhook-secrets", ""),
    }
    for name, (path, value) in files.items():
        fresh = name == "CCWEB_WEBHOOK_SECRETS_FILE" and not path.exists()
        text = secrets.token_hex(32) if fresh else value
        if text:
            write_private(path, text + "\n")
    return {name: path for name, (path, _) in files.items()}


def write_env(path: Path, values: dict[str, str]) -> None:
    """Sets these names in `.env` and keeps every other line."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in lines if line.partition("=")[0].strip() not in values]
    fresh = [f"{name}={value}" for name, value in values.items() if value]
    write_private(path, "\n".join([*kept, *fresh]) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replaces a file in one step; only this user may read it."""
    fresh = path.with_name(f".{path.name}.fresh")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def env_of(answers: Answers, files: dict[str, Path]) -> dict[str, str]:
    return {
        "CCWEB_GITEA_URL": answers.gitea_url,
        "CCWEB_BOT_NAME": answers.bot_name,
        "CCWEB_MODEL": answers.model,
        "CCWEB_MODEL_BASE_URL": answers.model_base_url,
        **{name: str(path) for name, path in files.items() if path.exists()},
    }


async def register_attributes(client: Client) -> list[str]:
    """Registers the search attributes that the namespace lacks; returns their names.

    Raises:
        CcwebError: `temporal_unavailable`; may be retried.
    """
    async with visibility.asking():
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace), timeout=_RPC
        )
        missing = {
            name: kind for name, kind in search_attributes.TYPES.items() if name not in listed.custom_attributes
        }
        if missing:
            request = AddSearchAttributesRequest(
                namespace=client.namespace,
                search_attributes={name: _KINDS[kind] for name, kind in missing.items()},
            )
            await client.operator_service.add_search_attributes(request, timeout=_RPC)
    return sorted(missing)


def first_operator(state_dir: Path, name: str) -> str | None:
    """Makes the first admin of the HTTP API and returns the token; None when there are operators."""
    operators = Operators(state_dir / FILE)
    return None if operators.all() else operators.add(name, Role.ADMIN)
