"""What an event is about: who did what to which text, and where (design section 8). Pure."""

from dataclasses import dataclass
from enum import StrEnum

from domain import ids
from domain.deliveries import (
    CommentEvent,
    Event,
    IssueEvent,
    Permissions,
    PullEvent,
    Repository,
    Resource,
    ReviewEvent,
    User,
)
from domain.events import RepositoryRef, ResourceKind, SourceKind


class Act(StrEnum):
    """What happened to the source."""

    WRITTEN = "written"
    EDITED = "edited"
    DELETED = "deleted"
    ASSIGNED = "assigned"
    UNASSIGNED = "unassigned"
    REVIEWED = "reviewed"
    CLOSED = "closed"
    REOPENED = "reopened"


@dataclass(frozen=True, slots=True)
class Subject:
    """What an event is about: who did what to which text, and where.

    `author` wrote the text (or assigned, reviewed, closed), `sender` acted. `permissions` are the author's,
    or None when the delivery does not show them. `before` is the text before an edit. The source of an
    assignment is the issue alone; the session adds its latch count.
    """

    act: Act
    repository: RepositoryRef
    kind: ResourceKind
    number: int
    title: str
    author: User
    sender: User
    text: str
    source_kind: SourceKind
    source_id: int | None
    before: str | None = None
    permissions: Permissions | None = None
    assignees: frozenset[str] = frozenset()

    @property
    def repo_key(self) -> str:
        return ids.repo_key(self.repository.owner, self.repository.name)


def subject_of(event: Event) -> Subject | None:
    """What the event is about, or None when its action asks for nothing."""
    match event:
        case CommentEvent():
            return _of_comment(event)
        case ReviewEvent():
            return _of_review(event)
        case _:
            return _of_resource(event)


def _of_comment(event: CommentEvent) -> Subject | None:
    acts = {"created": Act.WRITTEN, "edited": Act.EDITED, "deleted": Act.DELETED}
    if event.action not in acts:
        return None
    # The permissions shown are the sender's, so they are the author's only when the two are one.
    own = event.sender.login.lower() == event.comment.user.login.lower()
    return Subject(
        act=acts[event.action],
        repository=_reference(event.repository),
        kind="pull_request" if event.is_pull or event.issue.pull_request is not None else "issue",
        number=event.issue.number,
        title=event.issue.title,
        author=event.comment.user,
        sender=event.sender,
        text=event.comment.body,
        source_kind="comment",
        source_id=event.comment.id,
        before=event.changes.body.text if event.changes and event.changes.body else None,
        permissions=event.repository.permissions if own else None,
    )


def _of_review(event: ReviewEvent) -> Subject | None:
    if event.action != "reviewed":
        return None
    return Subject(
        act=Act.REVIEWED,
        repository=_reference(event.repository),
        kind="pull_request",
        number=event.pull_request.number,
        title=event.pull_request.title,
        author=event.sender,
        sender=event.sender,
        text=event.review.content,
        source_kind="review",
        source_id=None,
    )


def _of_resource(event: IssueEvent | PullEvent) -> Subject | None:
    acts = {
        "opened": Act.WRITTEN,
        "edited": Act.EDITED,
        "assigned": Act.ASSIGNED,
        "unassigned": Act.UNASSIGNED,
        "closed": Act.CLOSED,
        "reopened": Act.REOPENED,
    }
    if event.action not in acts:
        return None
    act = acts[event.action]
    resource, kind = _resource(event)
    return Subject(
        act=act,
        repository=_reference(event.repository),
        kind=kind,
        number=resource.number,
        title=resource.title,
        author=resource.user if act in {Act.WRITTEN, Act.EDITED} else event.sender,
        sender=event.sender,
        text=resource.body or "",
        source_kind="assignment" if act in {Act.ASSIGNED, Act.UNASSIGNED} else "issue",
        # The number and not the id: pull requests and issues number together, but each count their own ids.
        source_id=resource.number,
        before=event.changes.body.text if event.changes and event.changes.body else None,
        assignees=frozenset(user.login.lower() for user in resource.assignees or ()),
    )


def _resource(event: IssueEvent | PullEvent) -> tuple[Resource, ResourceKind]:
    if isinstance(event, PullEvent):
        return event.pull_request, "pull_request"
    return event.issue, "pull_request" if event.issue.pull_request is not None else "issue"


def _reference(repository: Repository) -> RepositoryRef:
    return RepositoryRef(
        id=repository.id,
        owner=repository.owner.login,
        name=repository.name,
        default_branch=repository.default_branch or "main",
    )
