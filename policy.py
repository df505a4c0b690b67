"""Who may trigger what, as the settings say."""

from domain.triggers import EVERY_TRIGGER, Policy
from settings import Settings


def policy_of(settings: Settings, *, bot_name: str | None = None, all_triggers: bool = False) -> Policy:
    """Who may trigger what, from the settings."""
    return Policy(
        bot_name=bot_name or settings.bot_name,
        minimum_permission=settings.minimum_permission,
        allowed_authors=settings.allowed_authors,
        allowed_bots=settings.allowed_bots,
        triggers=EVERY_TRIGGER if all_triggers else settings.triggers,
    )
