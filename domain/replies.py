"""Reading our markers back from a discussion, and the words of receipts (design section 9). Pure."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from domain import marker
from domain.errors import TEXTS, ErrorCode
from domain.marker import ReceiptMarker, ReplyMarker
from domain.states import TaskState

if TYPE_CHECKING:
    from domain.events import Spend

Language = Literal["zh", "en"]
_STARTED = {"zh": "giteabot: 已收到", "en": "giteabot: received"}
_ENDED = {
    "zh": {
        TaskState.FAILED: "giteabot: 任务失败",
        TaskState.FAILED_REPLY: "giteabot: 回复失败",
        TaskState.CANCELLED: "giteabot: 任务已取消",
        TaskState.ABORTED: "giteabot: 任务已中止",
        TaskState.BLOCKED_WORKSPACE: "giteabot: 工作区受阻",
    },
    "en": {
        TaskState.FAILED: "giteabot: this task failed",
        TaskState.FAILED_REPLY: "giteabot: the answer could not be posted",
        TaskState.CANCELLED: "giteabot: this task was cancelled",
        TaskState.ABORTED: "giteabot: this task was stopped",
        TaskState.BLOCKED_WORKSPACE: "giteabot: the workspace needs an operator",
    },
}


class Author(Protocol):
    @property
    def login(self) -> str: ...


class Comment(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def body(self) -> str: ...
    @property
    def user(self) -> Author: ...


AnyComment = TypeVar("AnyComment", bound=Comment)


def find_reply(
    comments: Iterable[Comment], bot: str, task_id: str, round_: int
) -> tuple[Comment, ReplyMarker] | None:
    """The bot's answer or question of a task's round, whichever turn posted it."""
    for comment, found in marked(comments, bot):
        if isinstance(found, ReplyMarker) and (found.task_id, found.round) == (task_id, round_):
            return comment, found
    return None


def find_receipt(comments: Iterable[Comment], bot: str, comment_key: str) -> Comment | None:
    """The bot's receipt under a commentKey."""
    for comment, found in marked(comments, bot):
        if isinstance(found, ReceiptMarker) and found.comment_key == comment_key:
            return comment
    return None


def seen_sources(comments: Iterable[Comment], bot: str) -> dict[str, str]:
    """SourceKey to taskId of everything the bot has already taken in this discussion."""
    seen: dict[str, str] = {}
    for _, found in marked(comments, bot):
        task_id = found.task_id if isinstance(found, ReplyMarker) else found.comment_key.split(":", 1)[0]
        seen.setdefault(found.source, task_id)
    return seen


def marked(comments: Iterable[AnyComment], bot: str) -> Iterator[tuple[AnyComment, marker.Marker]]:
    """The bot's comments that carry a marker; those of others are never read for one."""
    for comment in comments:
        if comment.user.login.lower() == bot.lower() and (found := marker.parse(comment.body)) is not None:
            yield comment, found


def reaction_target(source_kind: str, source_id: str, number: int) -> str | None:
    """Where Gitea takes a reaction to a source, below `issues/`; None for a review as such, which has none."""
    if source_kind == "review":
        return None
    return f"comments/{source_id}" if source_kind in {"comment", "review_comment"} else str(number)


def used(spent: "Spend") -> str:
    """What was used up, in words that need no translation."""
    return f"{spent.seconds / 60:.0f} min, {spent.tokens} tokens" + (f", {spent.cost:.2f}" if spent.cost else "")


def budget_question(used_up: str, spent: "Spend", bot: str, language: Language) -> str:
    """Says that a budget is used up, what was used, and how it goes on."""
    if language == "zh":
        what = {"time": "时间", "tokens": "令牌", "cost": "费用"}.get(used_up, used_up)
        return (
            f"giteabot: {what}预算已用尽（已用 {used(spent)}）。\n\n"
            f"评论 `@{bot} /budget` 再追加一份预算并继续，`@{bot} /stop` 结束任务。"
        )
    return (
        f"giteabot: the budget of {used_up} is used up ({used(spent)} so far).\n\n"
        f"Comment `@{bot} /budget` to allow as much again and go on, `@{bot} /stop` to end the task."
    )


def receipt_text(state: TaskState, code: ErrorCode | None, text: str, language: Language) -> str:
    """What a receipt says: of a start nothing more; of an abnormal end what happened, its code, what to do."""
    head = _ENDED[language].get(state)
    if head is None:
        return _STARTED[language]
    if code is None:
        return f"{head}{_colon(language)}{text}" if text else head
    words = TEXTS[code]
    what, action = (words.zh, words.action_zh) if language == "zh" else (words.en, words.action_en)
    return f"{head} (`{code}`)\n\n{what} {action}"


def _colon(language: Language) -> str:
    return "：" if language == "zh" else ": "
