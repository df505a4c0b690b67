"""Who makes a call, whether it may write now, and its two lines in the journal (design section 9)."""

import os
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge import rpc
from clients import journal, lease
from clients.bridge_config import BridgeConfig
from domain.errors import CcwebError, ErrorCode, WorkspaceError

_WORD = re.compile(r"[A-Za-z0-9_.:/@+-]{1,300}")
_TASK = re.compile(r"[A-Za-z0-9_-]{1,100}")
_ROUND = re.compile(r"[0-9]{1,6}")


class RefusedError(CcwebError):
    """An own tool did not do it, or does not know whether it did."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The task, round and turn that a call belongs to, as Codex sends them."""

    task_id: str
    lease_id: str
    round: int
    source_key: str
    turn_id: str


def turn_of(params: rpc.Message) -> Turn:
    """Reads the turn's identity.

    Raises:
        RefusedError: not_current_task, when a key is missing or malformed.
    """
    meta = params.get("_meta")
    keys = meta.get("x-codex-turn-metadata") if isinstance(meta, dict) else None
    keys = keys if isinstance(keys, dict) else {}
    return Turn(
        task_id=_word(keys, "ccweb_task_id", _TASK),
        lease_id=_word(keys, "ccweb_lease_id", _WORD),
        round=int(_word(keys, "ccweb_round", _ROUND)),
        source_key=_word(keys, "ccweb_source_key", _WORD),
        turn_id=_word(keys, "turn_id", _WORD),
    )


def _word(keys: dict[str, Any], name: str, form: re.Pattern[str]) -> str:
    text = str(keys.get(name, ""))
    if form.fullmatch(text) is None:
        raise RefusedError(ErrorCode.NOT_CURRENT_TASK, f"the call carries no valid {name}")
    return text


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an own tool."""

    config: BridgeConfig
    token: str
    turn: Turn
    tool: str
    expired: Callable[[], bool]
    """Whether the call was given up already, so that nothing may follow any more."""

    def check_lease(self) -> None:
        """Right before each effect.

        Raises:
            WorkspaceError: lease_expired or not_current_task.
        """
        if self.expired():
            raise WorkspaceError(ErrorCode.TOOL_TIMEOUT, "the call took too long")
        held = lease.current(Path(self.config.lease_dir), self.config.repository_id)
        if held is None or held.lease_id != self.turn.lease_id:
            raise WorkspaceError(ErrorCode.LEASE_EXPIRED, "the lease of this turn is not the current one")
        if held.task_id != self.turn.task_id:
            raise WorkspaceError(ErrorCode.NOT_CURRENT_TASK, "another task holds the workspace")

    def journaled(self, intent: rpc.Message, effect: Callable[[], rpc.Message]) -> rpc.Message:
        """The effect between its intent and its result in the journal, with the lease checked in between.

        Raises:
            OSError: the intent could not be written; nothing was done.
        """
        call_id = uuid.uuid4().hex
        self._write(call_id, "intent", intent)
        outcome = refusal(ErrorCode.INTERNAL_ERROR, "")
        try:
            self.check_lease()
            outcome = effect()
        except CcwebError as error:
            outcome = refusal(error.code, error.detail)
        finally:
            self._write(call_id, "result", outcome)
        return outcome

    def _write(self, call_id: str, phase: str, fields: rpc.Message) -> None:
        clean = {
            key: rpc.scrub(value, self.token) if isinstance(value, str) else value for key, value in fields.items()
        }
        turn = self.turn
        line = journal.JournalLine(
            at=time.time(),
            pid=os.getpid(),
            call_id=call_id,
            phase=phase,
            tool=self.tool,
            task_id=turn.task_id,
            turn_id=turn.turn_id,
            round=turn.round,
            lease_id=turn.lease_id,
            fields=clean,
        )
        journal.append(Path(self.config.journal_dir), line)


def refusal(code: ErrorCode, message: str, comment_id: int | None = None) -> rpc.Message:
    return {"accepted": False, "commentId": comment_id, "errorCode": str(code), "message": message}


def success(message: str, comment_id: int | None = None, **more: Any) -> rpc.Message:
    return {"accepted": True, "commentId": comment_id, "errorCode": None, "message": message, **more}
