"""May an author trigger in a repository? Asked of Gitea when a delivery could not prove it (design section 8)."""

import logging

from clients.gitea import GiteaClient, Repository
from domain import permissions
from domain.errors import GiteaError
from settings import Settings

log = logging.getLogger("ccweb.gitea")


async def may_trigger(client: GiteaClient, settings: Settings, repository: Repository, author: str) -> bool:
    """Fails closed: who cannot be judged may not.

    Raises:
        GiteaError: gitea_unavailable, may be retried.
    """
    minimum, allowed = settings.minimum_permission, settings.allowed_authors
    if permissions.may_trigger(author, None, minimum, allowed):
        return True
    return permissions.may_trigger(author, await _level(client, repository, author, minimum), minimum, allowed)


async def _level(client: GiteaClient, repository: Repository, author: str, minimum: str) -> str | None:
    """Who may write can be asked with write permission; other levels need the bot to be an admin."""
    if minimum == "write":
        writers = {user.login.lower() for user in await client.assignees(repository.full_name)}
        return "write" if author.lower() in writers else None
    try:
        return (await client.permission(repository.full_name, author)).permission
    except GiteaError as error:
        if error.retryable:
            raise
        log.warning("cannot judge an author", extra={"detail": error.detail})
        return None
