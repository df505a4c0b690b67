"""What a task shows in lists from its start: memo, search attributes, one line of summary."""

from typing import Any

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.workflow import unsafe

with unsafe.imports_passed_through():
    from domain import search_attributes as names
    from domain.events import TaskEvent
    from domain.states import TaskState

_MAX_SUMMARY = 160


def of_task(event: TaskEvent) -> TypedSearchAttributes:
    keywords = {
        names.STATE: str(TaskState.RECEIVED),
        names.REPO: event.repo_key,
        names.RESOURCE: event.session_key,
        names.AUTHOR: event.author,
        names.SOURCE: event.source_key,
    }
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(SearchAttributeKey.for_keyword(name), value) for name, value in keywords.items()
    ]
    deliveries = SearchAttributeKey.for_keyword_list(names.DELIVERIES)
    return TypedSearchAttributes([*pairs, SearchAttributePair(deliveries, [event.delivery_key])])


def task_memo(event: TaskEvent) -> dict[str, Any]:
    """Ingress tells its own arrival from a duplicate by `receivedAt`."""
    return {
        "receivedAt": event.received_at.isoformat(),
        "sessionKey": event.session_key,
        "repositoryId": event.repository.id,
    }


def summary(event: TaskEvent) -> str:
    place = f"{event.repository.full_name}#{event.number}"
    return " ".join(f"{place} {event.author}: {event.instruction}".split())[:_MAX_SUMMARY]
