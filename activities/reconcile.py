"""One look at everything that people wrote since the last one (design section 5, Reconciler).

Repositories one after another, so that Gitea is asked politely. What one of them refuses is noted, and its
watermark stays where it was.
"""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from temporalio import activity
from temporalio.client import Client

import metrics
import tracing
from activities.replies import ReplyActivities
from activities.reviews import submitted, user
from activities.temporal import result_of
from activities.waiting import heartbeats
from clients import gitea
from clients.gitea import GiteaClient, Issue
from connection import TemporalUnavailableError
from domain import marker, reconcile, replies, search_attributes
from domain.errors import GiteaError
from domain.events import (
    FallbackRequest,
    ReconcileFind,
    ReconcileReport,
    ReconcileRequest,
    RepositoryRef,
    SourceKind,
    TaskEvent,
    TaskResult,
)
from domain.metrics import RECONCILER_ERRORS, RECONCILER_FINDS
from domain.reconcile import Seen
from domain.states import TaskState
from gateway import Gateway, deadline
from policy import policy_of
from settings import Settings

log = logging.getLogger("ccweb.reconcile")
_MAX_REPAIRED = 500
_MAX_ERRORS = 20


class ReconcileActivities:
    """May be repeated: what it finds has ids made from the source."""

    def __init__(self, settings: Settings, client: Client, gitea_client: GiteaClient) -> None:
        self._settings = settings
        self._grace = timedelta(seconds=settings.reconcile_grace)
        self._policy = policy_of(settings)
        self._client = client
        self._gateway = Gateway(client)
        self._gitea = gitea_client
        self._replies = ReplyActivities(settings, gitea_client)

    @activity.defn
    async def reconcile(self, request: ReconcileRequest) -> ReconcileReport:
        """Delivers what was never answered, and posts answers that Gitea did not take when they were due.

        Raises:
            GiteaError: the repositories cannot be listed; may be retried.
        """
        async with heartbeats(self._settings):
            return await self._reconcile(request)

    async def _reconcile(self, request: ReconcileRequest) -> ReconcileReport:
        marks, errors, looked_at = dict(request.state.watermarks), [], 0
        finds: list[ReconcileFind] = []
        repositories = await self._repositories()
        for repository in repositories:
            try:
                seen, found = await self._look_at(repository, request)
            except (GiteaError, TemporalUnavailableError) as error:
                errors.append(f"{repository.full_name}: {error}"[:200])
                continue
            looked_at += seen
            finds += found
            marks[str(repository.id)] = request.now
        repaired, answers = await self._post_what_is_owed(request)
        state = request.state.model_copy(update={"watermarks": marks, "repaired": repaired})
        if not request.dry_run:
            _count([*finds, *answers], len(errors))
        return ReconcileReport(
            state=request.state if request.dry_run else state,
            repositories=len(repositories),
            looked_at=looked_at,
            finds=[*finds, *answers],
            errors=errors[:_MAX_ERRORS],
            dry_run=request.dry_run,
        )

    async def _repositories(self) -> list[RepositoryRef]:
        """Where the bot may write, which is where it can be asked for anything."""
        found = await self._gitea.my_repositories()
        usable = [one for one in found if not one.archived and one.permissions and one.permissions.push]
        return [
            RepositoryRef(id=one.id, owner=one.owner.login, name=one.name, default_branch=one.default_branch)
            for one in usable
        ]

    async def _look_at(self, repository: RepositoryRef, request: ReconcileRequest) -> tuple[int, list[ReconcileFind]]:
        async with deadline():
            standing = await self._gateway.standing(repository)
        if standing.disabled:
            return 0, []
        begin = max(request.state.installed_at, standing.enabled_at or request.state.installed_at)
        mark = request.state.watermarks.get(str(repository.id), begin)
        since = max(begin, mark - reconcile.OVERLAP)
        seen = [
            one
            async for one in self._seen(repository.full_name, since)
            if reconcile.is_due(one, since=since, until=request.now - self._grace, installed_at=begin)
        ]
        asked = list(reconcile.events_of(repository, standing.repo_key, seen, self._policy, request.now))
        missed = await self._without_answer(asked)
        return len(seen), [await self._deliver(event, dry_run=request.dry_run) for event in missed]

    async def _seen(self, name: str, since: datetime) -> AsyncIterator[Seen]:
        for comment in await self._gitea.comments_since(name, since):
            if (one := _of_comment(comment)) is not None:
                yield one
        for issue in await self._gitea.issues_since(name, since):
            if issue.user is not None and issue.created_at is not None and issue.updated_at is not None:
                yield _of_body(issue, issue.user, issue.created_at, issue.updated_at)
            async for one in self._of_issue(name, issue, since):
                yield one

    async def _of_issue(self, name: str, issue: Issue, since: datetime) -> AsyncIterator[Seen]:
        bot = self._settings.bot_name.lower()
        if any(user.login.lower() == bot for user in issue.assignees or ()):
            for one in await self._assignments(name, issue):
                yield one
        if issue.pull_request is not None:
            for review in await self._reviews(name, issue, since):
                yield review

    async def _assignments(self, name: str, issue: Issue) -> list[Seen]:
        """The last assignment to the bot, with who made it."""
        bot = self._settings.bot_name.lower()
        for entry in reversed(await self._gitea.timeline(name, issue.number)):
            ours = entry.type == "assignees" and entry.assignee and entry.assignee.login.lower() == bot
            if ours and not entry.removed_assignee and entry.user is not None:
                found = _seen(issue, "assignment", issue.number, entry.user, issue.body or "", entry.created_at)
                return [replace(found, occurrence=str(entry.id))]
        return []

    async def _reviews(self, name: str, issue: Issue, since: datetime) -> list[Seen]:
        found = []
        # Gitea's times are whole seconds.
        for review, author in await submitted(self._gitea, name, issue.number, since.replace(microsecond=0)):
            at = review.submitted_at
            found.append(_seen(issue, "review", review.id, author, review.body, at))
            for comment in await self._gitea.review_comments(name, issue.number, review.id):
                found.append(_seen(issue, "review_comment", comment.id, comment.user, comment.body, at))
        return found

    async def _without_answer(self, asked: list[tuple[Seen, TaskEvent]]) -> list[TaskEvent]:
        """Those that no comment of ours is about; each discussion is read once."""
        ours: dict[int, list[tuple[datetime | None, marker.Marker]]] = {}
        for _, event in asked:
            if event.number not in ours:
                ours[event.number] = await self._markers(event.repository.full_name, event.number)
        return [event for seen, event in asked if not reconcile.is_taken(seen, event, ours[event.number])]

    async def _markers(self, name: str, number: int) -> list[tuple[datetime | None, marker.Marker]]:
        comments = await self._gitea.comments(name, number)
        return [(one.created_at, found) for one, found in replies.marked(comments, self._settings.bot_name)]

    async def _deliver(self, event: TaskEvent, *, dry_run: bool) -> ReconcileFind:
        if dry_run:
            return _find(event, "would_deliver")
        traced = event.model_copy(update={"traceparent": tracing.traceparent()})
        async with deadline():
            fresh = await self._gateway.deliver(traced)
        log.warning("found without a delivery", extra={"taskId": event.task_id, "sessionKey": event.session_key})
        return _find(event, "delivered" if fresh else "known")

    async def _post_what_is_owed(self, request: ReconcileRequest) -> tuple[list[str], list[ReconcileFind]]:
        """Answers of tasks that ended `failed_reply`: found by now, posted now, or owed again next time."""
        repaired, finds = list(request.state.repaired), []
        query = f'WorkflowType="AgentTask" AND {search_attributes.STATE}="{TaskState.FAILED_REPLY}"'
        async for task in self._client.list_workflows(query):
            if task.id in repaired:
                continue
            result = await result_of(self._client.get_workflow_handle(task.id, result_type=TaskResult))
            if result is None or result.owed is None:
                continue
            found = await self._post(result.owed, dry_run=request.dry_run)
            finds.append(
                ReconcileFind(
                    source_key=result.owed.source_key, task_id=task.id, session_key="", author="",
                    kind="answer_posted" if found else "answer_missing",
                )
            )  # fmt: skip
            repaired += [task.id] if found else []
        return repaired[-_MAX_REPAIRED:], finds

    async def _post(self, owed: FallbackRequest, *, dry_run: bool) -> bool:
        if dry_run:
            return False
        return (await self._replies.post_fallback(owed)).found in {"final", "question", "rest_fallback"}


def _count(finds: list[ReconcileFind], errors: int) -> None:
    for find in finds:
        metrics.add(RECONCILER_FINDS, {"kind": find.kind})
    metrics.add(RECONCILER_ERRORS, count=errors)


def _of_comment(comment: gitea.Comment) -> Seen | None:
    url = comment.pull_request_url or comment.issue_url
    number = url.rstrip("/").rpartition("/")[2]
    if not number.isdecimal() or comment.created_at is None or comment.updated_at is None:
        return None
    return Seen(
        kind="pull_request" if comment.pull_request_url else "issue",
        number=int(number),
        title="",
        source_kind="comment",
        source_id=comment.id,
        author=user(comment.user),
        text=comment.body,
        created_at=comment.created_at,
        at=comment.updated_at,
    )


def _of_body(issue: Issue, author: gitea.User, created_at: datetime, updated_at: datetime) -> Seen:
    written = _seen(issue, "issue", issue.number, author, issue.body or "", created_at)
    return replace(written, at=updated_at)


def _seen(issue: Issue, source_kind: SourceKind, source_id: int, author: gitea.User, text: str, at: datetime) -> Seen:
    return Seen(
        kind="pull_request" if issue.pull_request is not None else "issue",
        number=issue.number,
        title=issue.title,
        source_kind=source_kind,
        source_id=source_id,
        author=user(author),
        text=text,
        created_at=at,
        at=at,
    )


def _find(event: TaskEvent, kind: Literal["delivered", "known", "would_deliver"]) -> ReconcileFind:
    return ReconcileFind(
        source_key=event.source_key,
        task_id=event.task_id,
        session_key=event.session_key,
        author=event.author,
        kind=kind,
    )
