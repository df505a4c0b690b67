"""The verifier and the REST fallback: an answer counts when Gitea shows it (design section 9)."""

import asyncio
import time

from temporalio import activity

import metrics
from activities.waiting import heartbeats
from clients.gitea import GiteaClient
from domain import marker, replies
from domain.errors import GiteaError
from domain.events import FallbackRequest, RepositoryRef, Verification, VerifyRequest
from domain.metrics import FALLBACKS
from settings import Settings

_POLL = 1.0
_NOTHING_SAID = {"zh": "代理没有给出回复。", "en": "The agent ended without an answer."}


class ReplyActivities:
    """May be repeated: the fallback looks before it posts."""

    def __init__(self, settings: Settings, client: GiteaClient) -> None:
        self._settings = settings
        self._client = client

    @activity.defn
    async def verify_reply(self, request: VerifyRequest) -> Verification:
        """Reads the discussion back; while Gitea fails it asks again for `budget` seconds, then says unknown."""
        async with heartbeats(self._settings):
            return await self._read_back(request)

    @activity.defn
    async def post_fallback(self, request: FallbackRequest) -> Verification:
        """Posts the agent's last words, or the question for more budget, by REST under the round's marker, unless
        something is there, and reads back.

        A post that Gitea answered with success and that is not found afterwards is `missing`.
        """
        async with heartbeats(self._settings):
            return await self._post(request)

    async def _post(self, request: FallbackRequest) -> Verification:
        look = _look(request.repository, request.number, request.task_id, request.round, request.budget)
        before = await self._read_back(look)
        if before.found != "missing":
            return before
        stamp = marker.ReplyMarker(
            request.kind, request.task_id, request.turn_id or "none", request.round, request.source_key
        )
        try:
            await self._client.create_comment(
                request.repository.full_name, request.number, marker.stamp(self._text(request), stamp)
            )
        except GiteaError as error:
            # It may have been posted all the same: only what is read back counts.
            found = (await self._read_back(look)).model_copy(update={"detail": str(error)[:300]})
        else:
            found = await self._read_back(look)
        if request.kind == "rest_fallback":
            metrics.add(FALLBACKS, {"found": found.found})
        return found

    def _text(self, request: FallbackRequest) -> str:
        language = self._settings.language
        if request.used_up:
            bot = self._settings.bot_name
            return replies.budget_question(request.used_up, request.spent, bot, language)
        return request.text.strip() or _NOTHING_SAID[language]

    async def _read_back(self, request: VerifyRequest) -> Verification:
        end = time.monotonic() + request.budget
        while True:
            try:
                return await self._look(request)
            except GiteaError as error:
                if not error.retryable or time.monotonic() > end:
                    return Verification(found="unknown", detail=str(error)[:300])
            await asyncio.sleep(_POLL)

    async def _look(self, request: VerifyRequest) -> Verification:
        comments = await self._client.comments(request.repository.full_name, request.number)
        found = replies.find_reply(comments, self._settings.bot_name, request.task_id, request.round)
        if found is None:
            return Verification(found="missing")
        comment, mark = found
        fields = {"found": mark.kind, "comment_id": comment.id, "turn_id": mark.turn_id}
        return Verification.model_validate(fields)


def _look(repository: RepositoryRef, number: int, task_id: str, round_: int, budget: float) -> VerifyRequest:
    return VerifyRequest(repository=repository, number=number, task_id=task_id, round=round_, budget=budget)
