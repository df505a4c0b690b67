"""What a delivery asks for: one pure decision (design section 8).

The author of the text is judged, not the sender: somebody with permission may edit what an outsider wrote.
A kind of trigger that the policy leaves out is decided the same way and answered `not_enabled`.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from domain import ids, marker, mentions
from domain.deliveries import Delivery, Permissions, User
from domain.events import MAX_TEXT, AuthorCheck, SourceKind, TaskEvent
from domain.subjects import Act, Subject, subject_of

MAX_TITLE = 500
_CUT = "\n\n[ccweb: cut here, {} characters in all; read the rest by tool]"


class Trigger(StrEnum):
    """What may start a task; `CCWEB_TRIGGERS` names the enabled ones."""

    COMMENT = "comment"
    EDIT = "edit"
    BODY = "body"
    ASSIGNMENT = "assignment"
    REVIEW = "review"


EVERY_TRIGGER = frozenset(Trigger)


class DecisionKind(StrEnum):
    TRIGGER = "trigger"
    POKE = "poke"
    IGNORE = "ignore"
    REJECT = "reject"


class DecisionCode(StrEnum):
    """Every answer there is. The last ones come from outside of `decide`: the transport, operators."""

    ACCEPTED = "accepted"
    AUTHOR_CHECK_PENDING = "author_check_pending"
    RESOURCE_CLOSED = "resource_closed"
    RESOURCE_REOPENED = "resource_reopened"
    REVIEW_SUBMITTED = "review_submitted"
    UNASSIGNED = "unassigned"
    NOT_ENABLED = "not_enabled"
    EVENT_NOT_USED = "event_not_used"
    OWN_EVENT = "own_event"
    OTHER_BOT = "other_bot"
    OWN_MARKER = "own_marker"
    COMMENT_DELETED = "comment_deleted"
    UNCHANGED_EDIT = "unchanged_edit"
    NO_MENTION = "no_mention"
    MENTION_NOT_ADDED = "mention_not_added"
    OTHER_ASSIGNEE = "other_assignee"
    INSUFFICIENT_PERMISSION = "insufficient_permission"
    INVALID_PAYLOAD = "invalid_payload"
    INVALID_SIGNATURE = "invalid_signature"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    REPOSITORY_DISABLED = "repository_disabled"


C, K = DecisionCode, DecisionKind
MEANING: dict[DecisionCode, tuple[DecisionKind, int, str]] = {
    C.ACCEPTED: (K.TRIGGER, 202, "a person who may asks the bot"),
    C.AUTHOR_CHECK_PENDING: (K.TRIGGER, 202, "the delivery does not prove what its author may; admission asks Gitea"),
    C.RESOURCE_CLOSED: (K.POKE, 200, "the issue or PR was closed; its session is told if there is one"),
    C.RESOURCE_REOPENED: (K.POKE, 200, "the issue or PR was reopened; its session is told if there is one"),
    C.REVIEW_SUBMITTED: (K.POKE, 200, "the session lists the reviews, since the delivery lacks their comments"),
    C.UNASSIGNED: (K.POKE, 200, "the bot is no longer assigned; its session may be assigned again"),
    C.NOT_ENABLED: (K.IGNORE, 200, "this kind of trigger is not enabled"),
    C.EVENT_NOT_USED: (K.IGNORE, 200, "this event asks for nothing"),
    C.OWN_EVENT: (K.IGNORE, 200, "the bot itself did or wrote this"),
    C.OTHER_BOT: (K.IGNORE, 200, "another bot wrote this and is not in CCWEB_ALLOWED_BOTS"),
    C.OWN_MARKER: (K.IGNORE, 200, "the text ends with ccweb's own marker"),
    C.COMMENT_DELETED: (K.IGNORE, 200, "the comment was deleted"),
    C.UNCHANGED_EDIT: (K.IGNORE, 200, "the edit did not change the text"),
    C.NO_MENTION: (
        K.IGNORE,
        200,
        "no mention of the bot (code, quotes, links and HTML comments do not count)",
    ),
    C.MENTION_NOT_ADDED: (K.IGNORE, 200, "the text mentioned the bot before the edit too"),
    C.OTHER_ASSIGNEE: (K.IGNORE, 200, "the assignment does not concern the bot"),
    C.INSUFFICIENT_PERMISSION: (K.REJECT, 200, "the author has less than CCWEB_MINIMUM_PERMISSION"),
    C.INVALID_PAYLOAD: (K.REJECT, 400, "the delivery cannot be read"),
    C.INVALID_SIGNATURE: (K.REJECT, 401, "no configured secret made this signature"),
    C.METHOD_NOT_ALLOWED: (K.REJECT, 405, "only POST is taken; set the webhook's HTTP method to POST"),
    C.PAYLOAD_TOO_LARGE: (K.REJECT, 413, "the body is larger than CCWEB_MAX_BODY_BYTES"),
    C.UNSUPPORTED_MEDIA_TYPE: (K.REJECT, 415, "the content type is neither application/json nor a form"),
    C.REPOSITORY_DISABLED: (K.REJECT, 409, "an operator switched ccweb off for this repository"),
}


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may trigger; logins are lower-case."""

    bot_name: str
    minimum_permission: Literal["read", "write", "admin"] = "write"
    allowed_authors: frozenset[str] = frozenset()
    allowed_bots: frozenset[str] = frozenset()
    triggers: frozenset[Trigger] = EVERY_TRIGGER


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one delivery. `subject` is None when the event asks for nothing or was not read."""

    code: DecisionCode
    delivery_id: str = ""
    event_type: str = ""
    subject: Subject | None = None
    instruction: str = ""
    detail: str = ""

    @property
    def decision(self) -> DecisionKind:
        return MEANING[self.code][0]

    @property
    def http_status(self) -> int:
        return MEANING[self.code][1]

    @property
    def reason(self) -> str:
        return f"{MEANING[self.code][2]}: {self.detail}" if self.detail else MEANING[self.code][2]

    @property
    def delivery_key(self) -> str | None:
        return ids.delivery_key(self.delivery_id) if self.delivery_id else None

    @property
    def source_key(self) -> str | None:
        subject = self.subject
        if subject is None or subject.source_id is None:
            return None
        return ids.source_key(subject.repository.id, subject.source_kind, subject.source_id)

    @property
    def resource_key(self) -> str | None:
        subject = self.subject
        return ids.resource_key(subject.repo_key, subject.kind, subject.number) if subject else None

    @property
    def task_id(self) -> str | None:
        """The task that this delivery starts; None unless it triggers."""
        key = self.delivery_key
        return ids.task_id(key) if key and self.decision is K.TRIGGER else None


def decide(delivery: Delivery, policy: Policy) -> Decision:
    """The decision about a delivery that was signed and could be read. Pure; never raises."""
    subject = subject_of(delivery.event) if delivery.event else None
    if subject is None:
        return Decision(C.EVENT_NOT_USED, delivery.delivery_id, delivery.event_type)
    return decide_subject(subject, policy, delivery.delivery_id, delivery.event_type)


def decide_subject(subject: Subject, policy: Policy, delivery_id: str, event_type: str) -> Decision:
    """The decision about something that happened, however we heard of it. Pure; never raises."""
    code = _code(subject, policy)
    if MEANING[code][0] is not K.IGNORE and not _is_enabled(subject, policy):
        code = C.NOT_ENABLED
    instruction = instruction_of(subject.text, policy.bot_name) if MEANING[code][0] is K.TRIGGER else ""
    return Decision(code, delivery_id, event_type, subject, instruction)


def instruction_of(text: str, bot_name: str) -> str:
    r"""The person's whole text without the mention it begins with, at most `MAX_TEXT` characters.

    Line ends become `\n`. A longer text is cut with a note how long it is and that a tool reads the rest.
    """
    text = mentions.without_leading_mention(text, bot_name)
    if len(text) <= MAX_TEXT:
        return text
    note = _CUT.format(len(text))
    return text[: MAX_TEXT - len(note)] + note


def task_event(
    decision: Decision, *, repo_key: str, received_at: datetime, payload_hash: str, traceparent: str
) -> TaskEvent:
    """What the Session is signalled for a decision that triggers; `repo_key` is the repository's first-seen one."""
    subject, delivery_key, source_key, task = (
        decision.subject,
        decision.delivery_key,
        decision.source_key,
        decision.task_id,
    )
    if subject is None or delivery_key is None or source_key is None or task is None:
        raise ValueError(f"{decision.code} does not trigger")
    return TaskEvent(
        delivery_id=decision.delivery_id,
        delivery_key=delivery_key,
        source_key=source_key,
        task_id=task,
        event_type=decision.event_type,
        repository=subject.repository,
        repo_key=repo_key,
        session_key=ids.resource_key(repo_key, subject.kind, subject.number),
        kind=subject.kind,
        number=subject.number,
        source_kind=subject.source_kind,
        source_id=str(subject.source_id),
        author=subject.author.login,
        author_check=AuthorCheck.ALLOWED if decision.code is C.ACCEPTED else AuthorCheck.PENDING,
        instruction=decision.instruction,
        title=subject.title[:MAX_TITLE],
        payload_hash=payload_hash,
        received_at=received_at,
        traceparent=traceparent,
    )


_TRIGGER_OF_ACT = {
    Act.EDITED: Trigger.EDIT,
    Act.ASSIGNED: Trigger.ASSIGNMENT,
    Act.UNASSIGNED: Trigger.ASSIGNMENT,
    Act.REVIEWED: Trigger.REVIEW,
}
_TRIGGER_OF_SOURCE: dict[SourceKind, Trigger] = {
    "comment": Trigger.COMMENT,
    "issue": Trigger.BODY,
    "assignment": Trigger.ASSIGNMENT,
    "review": Trigger.REVIEW,
    "review_comment": Trigger.REVIEW,
}


def _is_enabled(subject: Subject, policy: Policy) -> bool:
    if subject.act in {Act.CLOSED, Act.REOPENED}:
        return True
    return (_TRIGGER_OF_ACT.get(subject.act) or _TRIGGER_OF_SOURCE[subject.source_kind]) in policy.triggers


def _code(subject: Subject, policy: Policy) -> DecisionCode:
    # A merge or close by the bot itself ends the session too: it is a fact about the resource, no request.
    if subject.act is Act.CLOSED:
        return C.RESOURCE_CLOSED
    if subject.act is Act.REOPENED:
        return C.RESOURCE_REOPENED
    return _unheard(subject, policy) or _wish(subject, policy) or _author_code(subject, policy)


def _unheard(subject: Subject, policy: Policy) -> DecisionCode | None:
    """Why nobody listens, whatever the text says."""
    author = subject.author.login.lower()
    if policy.bot_name.lower() in {author, subject.sender.login.lower()}:
        return C.OWN_EVENT
    if subject.act is Act.DELETED:
        return C.COMMENT_DELETED
    if is_bot(subject.author) and author not in policy.allowed_bots:
        return C.OTHER_BOT
    return None


def _wish(subject: Subject, policy: Policy) -> DecisionCode | None:
    """What the event asks for, when that is already the answer; None when its author asks the bot to work."""
    if subject.act is Act.REVIEWED:
        return C.REVIEW_SUBMITTED
    if subject.act in {Act.ASSIGNED, Act.UNASSIGNED}:
        return _assignment(subject, policy)
    if subject.act is Act.EDITED and subject.before in {None, subject.text}:
        return C.UNCHANGED_EDIT
    return _silence(subject.text, subject.before, policy.bot_name)


def _silence(text: str, before: str | None, bot_name: str) -> DecisionCode | None:
    if marker.parse(text) is not None:
        return C.OWN_MARKER
    if not mentions.is_mentioned(text, bot_name):
        return C.NO_MENTION
    if before is not None and mentions.is_mentioned(before, bot_name):
        return C.MENTION_NOT_ADDED
    return None


def _assignment(subject: Subject, policy: Policy) -> DecisionCode | None:
    assigned = policy.bot_name.lower() in subject.assignees
    if assigned != (subject.act is Act.ASSIGNED):
        return C.OTHER_ASSIGNEE
    return None if assigned else C.UNASSIGNED


def _author_code(subject: Subject, policy: Policy) -> DecisionCode:
    if subject.author.login.lower() in policy.allowed_authors:
        return C.ACCEPTED
    if subject.permissions is None:
        return C.AUTHOR_CHECK_PENDING
    return C.ACCEPTED if _suffices(subject.permissions, policy) else C.INSUFFICIENT_PERMISSION


def _suffices(permissions: Permissions, policy: Policy) -> bool:
    least = {"read": permissions.pull, "write": permissions.push, "admin": permissions.admin}
    return least[policy.minimum_permission]


def is_bot(user: User) -> bool:
    """Whether an account is a bot, as far as a delivery tells.

    Gitea marks none. Its own accounts have ids below zero; others are known by a name that ends in `bot` as a
    word (`renovate-bot`, `app[bot]`).
    """
    name = user.login.lower()
    return user.id < 0 or name.endswith(("-bot", "_bot", ".bot", "[bot]"))
