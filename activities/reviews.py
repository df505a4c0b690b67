"""Reading the reviews of a PR for what they ask (design section 8)."""

from datetime import datetime, timedelta

from temporalio import activity

from clients.gitea import GiteaClient, Review, User
from domain import deliveries
from domain.events import Poke, Reviews
from domain.reviews import Written, events_of
from policy import policy_of
from settings import Settings

_WINDOW = timedelta(days=1)
"""A poke is about what was just submitted; older reviews that were missed are the reconciler's."""
_SUBMITTED = {"COMMENT", "APPROVED", "REQUEST_CHANGES"}


class ReviewActivities:
    """Reads only; may be repeated."""

    def __init__(self, settings: Settings, client: GiteaClient) -> None:
        self._policy = policy_of(settings)
        self._client = client

    @activity.defn
    async def list_reviews(self, poke: Poke) -> Reviews:
        """The texts of recent reviews and their inline comments that trigger, whether seen before or not.

        Raises:
            GiteaError: may be retried when gitea_unavailable.
        """
        name, since = poke.repository.full_name, poke.received_at - _WINDOW
        found: list[Written] = []
        for review, author in await submitted(self._client, name, poke.number, since):
            found += await self._written(name, poke.number, review, author)
        return Reviews(events=events_of(poke, found, self._policy))

    async def _written(self, name: str, number: int, review: Review, author: User) -> list[Written]:
        comments = await self._client.review_comments(name, number, review.id)
        inline = [
            Written("review_comment", comment.id, user(comment.user), comment.body, comment.path, comment.diff_hunk)
            for comment in comments
        ]
        return [Written("review", review.id, user(author), review.body), *inline]


async def submitted(client: GiteaClient, name: str, number: int, since: datetime) -> list[tuple[Review, User]]:
    """The reviews of a PR that were submitted since then, with who did; neither drafts nor requests for one.

    Raises:
        GiteaError: may be retried when gitea_unavailable.
    """
    return [
        (review, review.user)
        for review in await client.reviews(name, number)
        if review.user is not None and review.state in _SUBMITTED and review.submitted_at >= since
    ]


def user(found: User) -> deliveries.User:
    """An author as the decisions know authors."""
    return deliveries.User(id=found.id, login=found.login)
