"""Admission and receipts: what the worker itself asks of and posts to Gitea (design sections 8 and 9)."""

import logging

from temporalio import activity

from activities.authors import may_trigger
from activities.waiting import heartbeats
from clients.gitea import Comment, GiteaClient, Repository
from domain import commands, marker, mentions, replies
from domain.errors import ErrorCode, GiteaError
from domain.events import (
    Admission,
    AuthorCheck,
    CommentPosted,
    CommentRequest,
    ReactionTarget,
    RepositoryRef,
    SessionStart,
    TaskEvent,
    TaskPolicy,
    TaskStart,
)
from domain.triggers import instruction_of
from settings import Settings

log = logging.getLogger("ccweb.gitea")
_TAKEN = "eyes"


class GiteaActivities:
    """All may be repeated: each looks before it writes."""

    def __init__(self, settings: Settings, client: GiteaClient) -> None:
        self._settings = settings
        self._client = client

    @activity.defn
    async def admit(self, start: TaskStart) -> Admission:
        """May this task run, and in which surroundings? Asks Gitea, writes nothing.

        Raises:
            GiteaError: gitea_unavailable, may be retried for long.
        """
        try:
            async with heartbeats(self._settings):
                return await self._admit(start.event)
        except GiteaError as error:
            if error.retryable:
                raise
            return self._answer(start.event.repository, "failed", error.code, error.detail)

    async def _admit(self, event: TaskEvent) -> Admission:
        found = await self._client.repository(event.repository.full_name)
        ref = _ref(found)
        if found.archived:
            return self._answer(ref, "failed", ErrorCode.REPOSITORY_UNAVAILABLE, "the repository is archived")
        if event.author_check == AuthorCheck.PENDING and not await may_trigger(
            self._client, self._settings, found, event.author
        ):
            return self._answer(ref, "rejected", ErrorCode.INSUFFICIENT_PERMISSION, event.author)
        comments = await self._client.comments(found.full_name, event.number)
        taken = replies.seen_sources(comments, self._settings.bot_name).get(event.source_key, event.task_id)
        if taken != event.task_id:
            return self._answer(ref, "duplicate", ErrorCode.DUPLICATE_DELIVERY, taken)
        admission = self._as_it_reads_now(self._answer(ref, "queued"), event, comments)
        if admission.state != "queued":
            return admission
        return await self._with_head(admission, event) if event.kind == "pull_request" else admission

    def _as_it_reads_now(self, admission: Admission, event: TaskEvent, comments: list[Comment]) -> Admission:
        """A comment that was deleted, or lost its mention, is withdrawn; one that was edited counts as edited."""
        if event.source_kind != "comment":
            return admission
        bot = self._settings.bot_name
        body = next((one.body for one in comments if str(one.id) == event.source_id), None)
        if body is None:
            return admission.model_copy(update={"state": "cancelled", "reason": "the request was deleted"})
        if not mentions.is_mentioned(body, bot):
            return admission.model_copy(update={"state": "cancelled", "reason": "the mention was taken back"})
        now = instruction_of(body, bot)
        # The text of a task that a command started is not that of the command's comment.
        edited = now != event.instruction and commands.parse(now) is None
        return admission.model_copy(update={"instruction": now if edited else None})

    async def _with_head(self, admission: Admission, event: TaskEvent) -> Admission:
        pull = await self._client.pull(admission.repository.full_name, event.number)
        fork = pull.head.repo is None or pull.head.repo.id != admission.repository.id
        return admission.model_copy(update={"pull_head": pull.head.ref, "fork": fork})

    def _answer(
        self, repository: RepositoryRef, state: str, code: ErrorCode | None = None, reason: str = ""
    ) -> Admission:
        settings = self._settings
        policy = TaskPolicy(
            heartbeat_timeout=settings.heartbeat_timeout,
            stop_budget=settings.stop_budget,
            turn_timeout=settings.turn_timeout,
            retry_delay=settings.retry_delay,
            request_backoff=settings.request_backoff,
            read_back_budget=settings.read_back_budget,
            task_budget=settings.task_budget,
            session_budget=settings.session_budget,
        )
        fields = {"state": state, "error_code": code, "reason": reason, "repository": repository, "policy": policy}
        return Admission.model_validate(fields)

    @activity.defn
    async def post_receipt(self, request: CommentRequest) -> CommentPosted:
        """Reacts to what was taken, and posts the receipt unless one with its commentKey is there.

        Raises:
            GiteaError: may be retried when gitea_unavailable.
        """
        async with heartbeats(self._settings):
            return await self._post_receipt(request)

    async def _post_receipt(self, request: CommentRequest) -> CommentPosted:
        name = request.repository.full_name
        if request.react_to is not None:
            await self._react(name, request.number, request.react_to)
        if request.reaction_only:
            return CommentPosted(comment_id=None, created=False)
        known = replies.find_receipt(
            await self._client.comments(name, request.number), self._settings.bot_name, request.comment_key
        )
        if known is not None:
            return CommentPosted(comment_id=known.id, created=False)
        posted = await self._client.create_comment(name, request.number, self._receipt(request))
        return CommentPosted(comment_id=posted.id, created=True)

    def _receipt(self, request: CommentRequest) -> str:
        text = replies.receipt_text(request.state, request.error_code, request.text, self._settings.language)
        return marker.stamp(text, marker.ReceiptMarker(request.comment_key, request.source_key))

    async def _react(self, name: str, number: int, target: ReactionTarget) -> None:
        """A reaction is a courtesy: where it is refused the receipt still comes."""
        path = replies.reaction_target(target.source_kind, target.source_id, number)
        if path is None:
            return
        try:
            await self._client.react(name, path, _TAKEN)
        except GiteaError as error:
            log.warning("no reaction", extra={"detail": error.detail})

    async def seen_sources(self, start: SessionStart) -> dict[str, str]:
        """Sources with a marker of ours in the discussion; empty when Gitea does not say (admission asks again)."""
        number = int(start.session_key.rsplit(":", 1)[1])
        try:
            comments: list[Comment] = await self._client.comments(start.repository.full_name, number)
        except GiteaError as error:
            log.warning("no look at the discussion", extra={"detail": error.detail})
            return {}
        return replies.seen_sources(comments, self._settings.bot_name)


def _ref(found: Repository) -> RepositoryRef:
    return RepositoryRef(id=found.id, owner=found.owner.login, name=found.name, default_branch=found.default_branch)
