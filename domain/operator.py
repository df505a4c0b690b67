"""What an operator's signal says, read from whatever the Web UI or the CLI sent. Standard library only.

Signals must never raise: an exception in a handler leaves the workflow failing for ever. So nothing (`None`),
a text and an object are commands; everything else is junk, which the workflow records and ignores.
"""

from dataclasses import dataclass

_MAX_WORDS = 200
_MAX_GRANT = 100
OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Command:
    actor: str = OPERATOR
    reason: str = ""
    repo: str = ""
    request_id: str = ""


def parse_command(raw: object, text_is: str = "reason") -> Command | None:
    """The command of a signal's argument; None for junk. A plain text is the field named by `text_is`."""
    if raw is None:
        return Command()
    if isinstance(raw, str):
        raw = {text_is: raw}
    if not isinstance(raw, dict):
        return None
    return Command(
        _field(raw, "actor") or OPERATOR, _field(raw, "reason"), _field(raw, "repo"), _field(raw, "requestId")
    )


def _field(fields: dict[object, object], name: str) -> str:
    value = fields.get(name)
    return " ".join(value.split())[:_MAX_WORDS] if isinstance(value, str) else ""


def parse_grant(raw: object) -> tuple[int | None, str]:
    """How many more budgets and by whom; no argument means one, None junk."""
    budgets, actor = raw, OPERATOR
    if isinstance(raw, dict):
        budgets, actor = raw.get("budgets", 1), _field(raw, "actor") or OPERATOR
    if budgets is None:
        budgets = 1
    valid = isinstance(budgets, int) and not isinstance(budgets, bool) and 1 <= budgets <= _MAX_GRANT
    return (budgets if valid and isinstance(budgets, int) else None), actor
