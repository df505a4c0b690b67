"""Who may operate ccweb: operators with a role and a bearer token, in one file of this host (design section 13).

The file holds hashes, never a token. A token is 256 random bits, so a plain SHA-256 of it cannot be searched;
a slow password hash would only slow down every call.
"""

import hashlib
import json
import os
import re
import secrets
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from domain.errors import CcwebError, ErrorCode

FILE = "operators.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class Role(IntEnum):
    """Each role may do what those before it may: read; steer tasks; switch ccweb or a repository off and on."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


RoleName = Annotated[
    Role,
    BeforeValidator(lambda value: Role[value.upper()] if isinstance(value, str) else value),
    PlainSerializer(lambda role: role.name.lower(), return_type=str),
]


class Operator(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    name: str
    role: RoleName
    token_hash: str
    created_at: datetime


_FILE = TypeAdapter(list[Operator])


class Operators:
    """The operators in `path`; read again whenever the file changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._known: dict[str, Operator] = {}

    def all(self) -> list[Operator]:
        """By name.

        Raises:
            CcwebError: `settings_invalid`, the file cannot be read.
        """
        self._refresh()
        return sorted(self._known.values(), key=lambda operator: operator.name)

    def by_token(self, token: str) -> Operator | None:
        """The operator that a bearer token names.

        Raises:
            CcwebError: `settings_invalid`, the file cannot be read.
        """
        self._refresh()
        return self._known.get(hash_of(token))

    def add(self, name: str, role: Role) -> str:
        """Makes an operator and returns the token, which is kept nowhere.

        Raises:
            CcwebError: `invalid_request`, the name is taken or no name.
        """
        if not _NAME.fullmatch(name):
            raise CcwebError(ErrorCode.INVALID_REQUEST, f"{name!r} is no name: a-z, 0-9, '.', '_' and '-', up to 64")
        there = self.all()
        if any(operator.name == name for operator in there):
            raise CcwebError(ErrorCode.INVALID_REQUEST, f"there is an operator {name!r} already; remove it first")
        token = f"ccweb_{secrets.token_urlsafe(32)}"
        made = Operator(name=name, role=role, token_hash=hash_of(token), created_at=datetime.now(UTC))
        self._write([*there, made])
        return token

    def remove(self, name: str) -> None:
        """Makes an operator's token worthless at once.

        Raises:
            CcwebError: `not_found`.
        """
        there = self.all()
        left = [operator for operator in there if operator.name != name]
        if len(left) == len(there):
            raise CcwebError(ErrorCode.NOT_FOUND, f"there is no operator {name!r}")
        self._write(left)

    def _refresh(self) -> None:
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp:
                listed = _FILE.validate_json(self._path.read_bytes())
                self._known = {operator.token_hash: operator for operator in listed}
                self._stamp = stamp
        except FileNotFoundError:
            self._known, self._stamp = {}, None
        except (OSError, ValidationError, KeyError) as error:
            detail = f"{self._path} cannot be read: {type(error).__name__}"
            raise CcwebError(ErrorCode.SETTINGS_INVALID, detail) from None

    def _write(self, operators: list[Operator]) -> None:
        """Replaces the file in one step, so that no reader meets half of it."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            listed = [operator.model_dump(mode="json", by_alias=True) for operator in operators]
            json.dump(listed, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)


def hash_of(token: str) -> str:
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()
