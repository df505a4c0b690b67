"""Commands in comments: who may, whether it was obeyed before, and the answer (design section 8)."""

from temporalio import activity

from activities.authors import may_trigger
from clients.gitea import GiteaClient
from domain import commands, ids, marker, replies
from domain.events import AuthorCheck, CommandAck, CommandCheck, TaskEvent
from settings import Settings

_OBEYED = "+1"


class CommandActivities:
    """May be repeated: the reaction to a command tells that it was obeyed."""

    def __init__(self, settings: Settings, client: GiteaClient) -> None:
        self._settings = settings
        self._client = client

    @activity.defn
    async def check_command(self, event: TaskEvent) -> CommandCheck:
        """May the author command here, and did we react to this comment already?

        Raises:
            GiteaError: may be retried when gitea_unavailable.
        """
        name = event.repository.full_name
        if event.author_check == AuthorCheck.PENDING:
            repository = await self._client.repository(name)
            if not await may_trigger(self._client, self._settings, repository, event.author):
                return CommandCheck(allowed=False)
        return CommandCheck(allowed=True, obeyed=await self._obeyed(event))

    async def _obeyed(self, event: TaskEvent) -> bool:
        target = replies.reaction_target(event.source_kind, event.source_id, event.number)
        if target is None:
            return False
        reactions = await self._client.reactions(event.repository.full_name, target)
        bot = self._settings.bot_name.lower()
        return any(
            one.content == _OBEYED and one.user is not None and one.user.login.lower() == bot for one in reactions
        )

    @activity.defn
    async def acknowledge(self, ack: CommandAck) -> None:
        """Reacts to the command's comment; says in words what was asked for, or that nothing was to be done.

        Raises:
            GiteaError: may be retried when gitea_unavailable.
        """
        event, language = ack.event, self._settings.language
        if text := commands.answer(ack, language, self._settings.bot_name):
            await self._say(event, text)
        target = replies.reaction_target(event.source_kind, event.source_id, event.number)
        if target is not None:
            await self._client.react(event.repository.full_name, target, _OBEYED)

    async def _say(self, event: TaskEvent, text: str) -> None:
        name, key = event.repository.full_name, ids.status_comment_key(event.task_id, "command")
        known = replies.find_receipt(await self._client.comments(name, event.number), self._settings.bot_name, key)
        if known is None:
            stamp = marker.ReceiptMarker(key, event.source_key)
            await self._client.create_comment(name, event.number, marker.stamp(text, stamp))
