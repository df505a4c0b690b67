"""The bodies of Gitea's webhooks at the edge: only the fields we need, unknown ones ignored (design section 8).

Inner code never asks whether a field is there. Which body it is follows from its keys, which are signed; the
type header is not, so it may only agree or name an event that we do not use.

Bodies are validated from their text, so that what we ignore never becomes Python objects: 8 MB of `[],` would
become 200 MB of them and stop the process for seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, StringConstraints, ValidationError

from domain.errors import CcwebError, ErrorCode
from domain.ids import is_repository_name

MAX_BRANCH = 255
"""Characters of a branch's name, as Gitea stores it; it travels in every event of its repository."""
Id = Annotated[int, Field(gt=0, lt=2**63)]


def _repository_name(value: str) -> str:
    if not is_repository_name(value):
        raise ValueError("not a name that Gitea allows")
    return value


Name = Annotated[str, AfterValidator(_repository_name)]
Login = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._\[\]-]{1,100}$")]
DeliveryId = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,200}$")]


class DeliveryError(CcwebError):
    """A delivery that cannot be read; the detail names the field. Never retried."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.INVALID_PAYLOAD, detail)


class _Edge(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Something(_Edge):
    """Any object, whatever it holds."""


class User(_Edge):
    """`id` is negative for Gitea's own accounts (ghost, actions)."""

    id: Annotated[int, Field(gt=-(2**63), lt=2**63)] = 0
    login: Login


class Owner(_Edge):
    login: Name


class Permissions(_Edge):
    admin: bool = False
    push: bool = False
    pull: bool = False


class Repository(_Edge):
    id: Id
    name: Name
    owner: Owner
    default_branch: Annotated[str, Field(max_length=MAX_BRANCH)] = "main"
    permissions: Permissions | None = None


class Previous(_Edge):
    text: Annotated[str, Field(alias="from")] = ""


class Changes(_Edge):
    body: Previous | None = None


class Resource(_Edge):
    """An issue or a pull request; `pull_request` is an object in an issue that is one."""

    number: Id
    user: User
    title: str = ""
    body: str | None = None
    updated_at: str = ""
    # Fails at the first fault: a gathered error of each of four million members takes 4 GB and minutes.
    assignees: Annotated[list[User] | None, FailFast()] = None
    pull_request: _Something | None = None


class Comment(_Edge):
    id: Id
    user: User
    body: str = ""
    updated_at: str = ""


class Review(_Edge):
    content: str = ""


class _Event(_Edge):
    action: str
    repository: Repository
    sender: User
    changes: Changes | None = None


class CommentEvent(_Event):
    issue: Resource
    comment: Comment
    is_pull: bool = False


class ReviewEvent(_Event):
    pull_request: Resource
    review: Review


class PullEvent(_Event):
    pull_request: Resource


class IssueEvent(_Event):
    issue: Resource


Event = CommentEvent | ReviewEvent | PullEvent | IssueEvent
Body = TypeVar("Body", bound=_Edge)


class _Keys(_Edge):
    """Which of the telling keys a body has."""

    issue: _Something | None = None
    comment: _Something | None = None
    pull_request: _Something | None = None
    review: _Something | None = None


# By the keys that only this body has, the more telling first.
_SHAPES: tuple[tuple[frozenset[str], type[Event]], ...] = (
    (frozenset({"issue", "comment"}), CommentEvent),
    (frozenset({"pull_request", "review"}), ReviewEvent),
    (frozenset({"pull_request"}), PullEvent),
    (frozenset({"issue"}), IssueEvent),
)
# By `X-Gitea-Event-Type`. Types that are not here ask for nothing.
_TYPES: dict[str, type[Event]] = {
    "issue_comment": CommentEvent,
    "pull_request_comment": CommentEvent,
    "pull_request_review_comment": ReviewEvent,
    "pull_request_review_approved": ReviewEvent,
    "pull_request_review_rejected": ReviewEvent,
    "pull_request": PullEvent,
    "pull_request_assign": PullEvent,
    "issues": IssueEvent,
    "issue_assign": IssueEvent,
}


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery; `event` is None when nothing in it can be meant for us."""

    delivery_id: str
    event_type: str
    event: Event | None


class _Headers(_Edge):
    delivery_id: DeliveryId


def read(headers: Mapping[str, str], text: bytes) -> Delivery:
    """The delivery with lower-case `headers` whose signed JSON is `text`.

    Raises:
        DeliveryError: not JSON, not an object, a needed field missing or wrong, or no delivery id.
    """
    event_type = headers.get("x-gitea-event-type", "")
    model = _model(text, event_type)
    event = None if model is None else _validated(model, text)
    return Delivery(_delivery_id(headers, event), event_type, event)


def _model(text: bytes, event_type: str) -> type[Event] | None:
    wanted = _TYPES.get(event_type)
    if event_type and wanted is None:
        _validated(_Something, text)
        return None
    keys = _validated(_Keys, text)
    shape = next((model for names, model in _SHAPES if all(getattr(keys, name) for name in names)), None)
    if wanted is not None and shape is not wanted:
        raise DeliveryError(f"the body is not one of {event_type}")
    return shape  # Older senders have no such header.


def _validated(model: type[Body], text: bytes) -> Body:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise DeliveryError(_first(error)) from None


def _first(error: ValidationError) -> str:
    """The place and kind of the first fault, without the value."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if not fault["loc"]:
        return f"the body is not a JSON object: {fault['msg']}"
    return f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"


def _delivery_id(headers: Mapping[str, str], event: Event | None) -> str:
    found = headers.get("x-gitea-delivery") or _payload_id(event)
    if not found:
        raise DeliveryError("no X-Gitea-Delivery header, and nothing in the body identifies the delivery")
    try:
        return _Headers(delivery_id=found).delivery_id
    except ValidationError:
        raise DeliveryError("X-Gitea-Delivery is not an id") from None


def _payload_id(event: Event | None) -> str:
    """What identifies an event without its header: the object, what happened to it and when.

    A review has no id in its delivery, so there is none for it.
    """
    if event is None or isinstance(event, ReviewEvent):
        return ""
    if isinstance(event, CommentEvent):
        parts = ("comment", event.comment.id, event.action, event.comment.updated_at)
    elif isinstance(event, PullEvent):
        parts = ("issue", event.pull_request.number, event.action, event.pull_request.updated_at)
    else:
        parts = ("issue", event.issue.number, event.action, event.issue.updated_at)
    return ":".join(str(part) for part in ("payload", event.repository.id, *parts))
