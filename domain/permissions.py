"""May this author start the agent? Pure, fails closed."""

from collections.abc import Collection

_LEVELS = {"none": 0, "read": 1, "write": 2, "admin": 3, "owner": 4}


def may_trigger(author: str, level: str | None, minimum: str, allowed: Collection[str]) -> bool:
    """Whether `author` may trigger with this level; an unknown level (None) counts as none."""
    if author.lower() in allowed:
        return True
    return _LEVELS.get(level or "none", 0) >= _LEVELS[minimum]
