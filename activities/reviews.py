"""Reading the reviews of a PR for what they ask (design section 8)."""

from datetime import timedelta

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
        for review in await self._client.reviews(name, poke.number):
            if review.user is not None and review.state in _SUBMITTED and review.submitted_at >= since:
                found += await self._written(name, poke.number, review, review.user)
        return Reviews(events=events_of(poke, found, self._policy))

    async def _written(self, name: str, number: int, review: Review, author: User) -> list[Written]:
        comments = await self._client.review_comments(name, number, review.id)
        inline = [
            Written("review_comment", comment.id, _user(comment.user), comment.body, comment.path, comment.diff_hunk)
            for comment in comments
        ]
        return [Written("review", review.id, _user(author), review.body), *inline]


def _user(user: User) -> deliveries.User:
    return deliveries.User(id=user.id, login=user.login)
