"""What each operator's call came to, by its requestId: a repeated one gets the first answer (design section 13).

Temporal remembers updates by their id, but not signals, and nothing over a continue-as-new.
"""

from collections.abc import Sequence
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from domain.events import Verdict
    from domain.operator import Command

_KEPT = 200
_CARRIED = "verdicts"


class Verdicts:
    """`start` may be the input of a continued run, which holds what `carried` gave."""

    def __init__(self, start: Any = None) -> None:
        self._by_request = {verdict.request_id: verdict for verdict in _parsed(start)}

    def known(self, command: Command | None) -> Verdict | None:
        return self._by_request.get(_request_id(command))

    def note(
        self,
        command: Command | None,
        action: str,
        accepted: bool,
        from_state: str = "",
        targets: Sequence[str] = (),
    ) -> Verdict:
        """Remembers a fresh answer; one without a requestId is only returned."""
        verdict = Verdict(
            request_id=_request_id(command),
            action=action,
            accepted=accepted,
            from_state=from_state,
            targets=list(targets),
        )
        if verdict.request_id:
            self._by_request[verdict.request_id] = verdict
            for oldest in list(self._by_request)[:-_KEPT]:
                del self._by_request[oldest]
        return verdict

    def carried(self) -> dict[str, Any]:
        return {_CARRIED: [verdict.model_dump(mode="json") for verdict in self._by_request.values()]}


def _request_id(command: Command | None) -> str:
    """The caller's own, else the id of the update."""
    update = workflow.current_update_info()
    given = command.request_id if command else ""
    return given or (update.id if update else "")


def _parsed(start: Any) -> list[Verdict]:
    listed = start.get(_CARRIED) if isinstance(start, dict) else None
    found = []
    for one in listed if isinstance(listed, list) else []:
        try:
            found.append(Verdict.model_validate(one))
        except ValidationError:
            continue
    return found
