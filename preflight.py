"""What a person should know before anything is started: Gitea, the bot's token, the gitea-mcp program."""

import os
import shlex
import shutil

import httpx

from clients.gitea import GiteaClient
from domain.errors import CcwebError, ErrorCode, GiteaError, SettingsError
from settings import Settings

_LIMIT = 10.0
_REMEDY = "make one as the bot (Settings, Applications) with write:issue, write:repository and read:user"


def gitea_mcp(settings: Settings) -> None:
    """Looks for the program as the bridge does.

    Raises:
        SettingsError: it is not there.
    """
    command = settings.gitea_mcp_command
    if shutil.which(command) or shutil.which((shlex.split(command) or [""])[0]):
        return
    raise SettingsError(
        ErrorCode.MCP_COMMAND_MISSING,
        f"CCWEB_GITEA_MCP_COMMAND: {command} is not on PATH; install gitea-mcp (https://gitea.com/gitea/gitea-mcp), "
        "or set the path of the program",
    )


async def gitea(settings: Settings) -> list[CcwebError]:
    """What is wrong with Gitea's address and the bot's token; empty when they work."""
    try:
        async with httpx.AsyncClient(timeout=_LIMIT) as http:
            header = {"Authorization": f"token {settings.gitea_token.get_secret_value()}"}
            answer = await http.get(f"{settings.gitea_url}/api/v1/user", headers=header)
    except httpx.HTTPError as error:
        detail = f"{settings.gitea_url} cannot be reached: {_root(error)}; start Gitea, or set its address"
        return [GiteaError(ErrorCode.GITEA_UNAVAILABLE, f"CCWEB_GITEA_URL: {detail}")]
    return _judge(settings, answer)


def _root(error: BaseException) -> str:
    """What the operating system said, below the layers of HTTP clients."""
    cause = error.__cause__ or error.__context__
    if cause is not None:
        return _root(cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause)
    if isinstance(error, OSError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return str(error) or type(error).__name__


def _judge(settings: Settings, answer: httpx.Response) -> list[CcwebError]:
    match answer.status_code:
        case 200:
            return _owner(settings, answer)
        case 401:
            return [GiteaError(ErrorCode.GITEA_AUTH_FAILED, f"CCWEB_GITEA_TOKEN: Gitea refuses it; {_REMEDY}")]
        case 403:
            return [GiteaError(ErrorCode.TOKEN_SCOPE_MISSING, f"CCWEB_GITEA_TOKEN: it lacks a scope; {_REMEDY}")]
        case status:
            detail = f"CCWEB_GITEA_URL: {settings.gitea_url} answers {status}; is this the address of Gitea itself?"
            return [GiteaError(ErrorCode.GITEA_UNAVAILABLE, detail)]


def _owner(settings: Settings, answer: httpx.Response) -> list[CcwebError]:
    """The token must be the bot's: by its name ccweb tells its own comments from people's."""
    try:
        login = str(answer.json()["login"])
    except (ValueError, KeyError, TypeError):
        detail = f"CCWEB_GITEA_URL: {settings.gitea_url} does not answer as Gitea's API does"
        return [GiteaError(ErrorCode.GITEA_UNAVAILABLE, detail)]
    if login.lower() == settings.bot_name.lower():
        return []
    detail = f"CCWEB_GITEA_TOKEN: it belongs to {login}, but CCWEB_BOT_NAME is {settings.bot_name}; set both alike"
    return [GiteaError(ErrorCode.GITEA_AUTH_FAILED, detail)]


async def author_checks(settings: Settings, client: GiteaClient) -> list[str]:
    """Where authors cannot be judged, which is where they are refused (design section 8): one line each.

    With the minimum `write` Gitea tells who may; for any other level it tells only admins of the repository.

    Raises:
        GiteaError: Gitea does not list the bot's repositories.
    """
    if settings.minimum_permission == "write":
        return []
    repositories = await client.my_repositories()
    blind = [one.full_name for one in repositories if not (one.permissions and one.permissions.admin)]
    level = settings.minimum_permission
    why = f"CCWEB_MINIMUM_PERMISSION is {level}, and Gitea tells only admins of a repository who has that"
    return [f"{name}: {why}; make the bot an admin there, or set write" for name in blind]
