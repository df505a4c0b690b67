"""The operators' switches: pause everything, disable a repository (design section 5, Control).

The state is the memo, so that readers need no worker; signals are the only writers.
"""

from collections.abc import Callable
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from domain import ids
    from domain.events import ControlState, Verdict
    from domain.operator import Command, parse_command

from workflows.verdicts import Verdicts

_MAX_DISABLED = 1_000
_MAX_NOTES = 20


@workflow.defn(name="Control")
class Control:
    @workflow.init
    def __init__(self, start: Any = None) -> None:
        self._state = _carried(start)
        self._written = -1
        self._notes: list[str] = []
        self._verdicts = Verdicts(start)

    @workflow.run
    async def run(self, start: Any = None) -> None:
        """Never ends; `start` is the state of an earlier run, if any."""
        while True:
            await workflow.wait_condition(lambda: self._written != self._state.version)
            self._publish()
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._state.model_dump(mode="json") | self._verdicts.carried())

    def _publish(self) -> None:
        workflow.upsert_memo({"control": self._state.model_dump(mode="json")})
        workflow.set_current_details(self._page())
        self._written = self._state.version

    @workflow.signal(description="Operator: grant no more workspaces; running turns go on")
    def pause(self, command: Any = None) -> None:
        self._operate("pause", command, lambda said: {"paused": True, "reason": said.reason})

    @workflow.signal(description="Operator: grant workspaces again")
    def resume(self, command: Any = None) -> None:
        self._operate("resume", command, lambda said: {"paused": False, "reason": said.reason})

    @workflow.signal(description="Operator: take nothing from this repository (default:<owner>/<repo>, or its id)")
    def disable(self, command: Any = None) -> None:
        self._operate("disable", command, self._disabled, text_is="repo")

    @workflow.signal(description="Operator: take work from this repository again")
    def enable(self, command: Any = None) -> None:
        self._operate("enable", command, self._enabled, text_is="repo")

    # The same four as updates: whoever waits for an answer calls these, and needs a worker.

    @workflow.update(name="pause", description="Operator: as the signal, with an answer")
    def pause_now(self, command: Any = None) -> Verdict:
        return self._operate("pause", command, lambda said: {"paused": True, "reason": said.reason})

    @workflow.update(name="resume", description="Operator: as the signal, with an answer")
    def resume_now(self, command: Any = None) -> Verdict:
        return self._operate("resume", command, lambda said: {"paused": False, "reason": said.reason})

    @workflow.update(name="disable", description="Operator: as the signal, with an answer")
    def disable_now(self, command: Any = None) -> Verdict:
        return self._operate("disable", command, self._disabled, text_is="repo")

    @workflow.update(name="enable", description="Operator: as the signal, with an answer")
    def enable_now(self, command: Any = None) -> Verdict:
        return self._operate("enable", command, self._enabled, text_is="repo")

    @workflow.update(description="Operator: remembers which blocked tasks a call about a repository meant")
    def unblock(self, command: Any = None) -> Verdict:
        said = parse_command(command)
        if known := self._verdicts.known(said):
            return known
        listed = command.get("targets") if isinstance(command, dict) else None
        targets = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
        if said:
            self._note(f"unblock by {said.actor}: {said.reason} {said.repo}")
        return self._verdicts.note(said, "unblock", bool(targets), targets=targets)

    def _disabled(self, said: Command) -> dict[str, Any] | None:
        if not said.repo or len(self._state.disabled) >= _MAX_DISABLED:
            return None
        return {"disabled": {**self._state.disabled, _key(said.repo): said.reason or "disabled"}}

    def _enabled(self, said: Command) -> dict[str, Any] | None:
        name = _key(said.repo)
        if name not in self._state.disabled:
            return None
        enabled = {**self._state.enabled_at, name: workflow.now()}
        return {
            "disabled": {key: why for key, why in self._state.disabled.items() if key != name},
            "enabled_at": dict(list(enabled.items())[-_MAX_DISABLED:]),
        }

    def _operate(
        self, name: str, raw: Any, change: Callable[[Command], dict[str, Any] | None], text_is: str = "reason"
    ) -> Verdict:
        said = parse_command(raw, text_is)
        if known := self._verdicts.known(said):
            return known
        changes = change(said) if said else None
        if said is None or changes is None:
            self._note(f"{name}: ignored, nothing in it to act on")
            return self._verdicts.note(said, name, False)
        stamp = {"version": self._state.version + 1, "updated_by": said.actor, "updated_at": workflow.now()}
        self._state = self._state.model_copy(update=changes | stamp)
        self._note(f"{name} by {said.actor}: {said.reason} {said.repo}".rstrip())
        return self._verdicts.note(said, name, True)

    def _note(self, text: str) -> None:
        self._notes = [*self._notes, f"{workflow.now():%Y-%m-%d %H:%M:%S}Z {text}"][-_MAX_NOTES:]
        workflow.set_current_details(self._page())

    def _page(self) -> str:
        state = self._state
        head = (
            f"## {'paused' if state.paused else 'running'}\n\nversion {state.version}, {state.reason or 'no reason'}"
        )
        disabled = [f"- disabled `{name}`: {why}" for name, why in state.disabled.items()]
        return "\n".join([head, "", *disabled, "", *(f"- {note}" for note in self._notes)])


def _key(repo: str) -> str:
    """A repoKey or repository.id as readers compare it; `owner/repo` alone means this instance."""
    name = repo.strip().lower()
    return f"{ids.INSTANCE_ID}:{name}" if "/" in name and ":" not in name else name


def _carried(start: Any) -> ControlState:
    try:
        return ControlState.model_validate(start or {})
    except ValidationError:
        return ControlState()
