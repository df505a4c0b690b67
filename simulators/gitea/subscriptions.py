"""Which deliveries the words of a webhook's `events` really ask for, as measured."""

from typing import Any

# Kinds by their place in the API's answers, and the words that subscribe to each besides its own.
_KINDS: dict[str, set[str]] = {
    "create": set(),
    "delete": set(),
    "fork": set(),
    "push": set(),
    "issues": {"issues_only"},
    "issue_assign": {"issues"},
    "issue_label": {"issues"},
    "issue_milestone": {"issues"},
    "issue_comment": {"issues"},
    "pull_request": {"pull_request_only"},
    "pull_request_assign": {"pull_request"},
    "pull_request_label": {"pull_request"},
    "pull_request_milestone": {"pull_request"},
    "pull_request_comment": {"pull_request"},
    "pull_request_review_approved": {"pull_request", "pull_request_review"},
    "pull_request_review_rejected": {"pull_request", "pull_request_review"},
    "pull_request_review_comment": {"pull_request", "pull_request_review"},
    "pull_request_sync": {"pull_request"},
    "wiki": set(),
    "repository": set(),
    "release": set(),
    "package": set(),
    "pull_request_review_request": {"pull_request"},
}
# Words that the API ignores although they are kinds.
_IGNORED = frozenset(f"pull_request_review_{verdict}" for verdict in ("approved", "rejected", "comment"))


def kinds_of(words: list[str]) -> list[str]:
    """The kinds that the API notes for the words of `events`; none at all means pushes."""
    given = set(words or ["push"]) - _IGNORED
    return [kind for kind, wider in _KINDS.items() if given & {kind, *wider}]


def covers(hook: dict[str, Any], event_type: str) -> bool:
    """A review with verdict "comment" goes to those who asked for comments, whatever the answer listed."""
    wanted = "pull_request_comment" if event_type == "pull_request_review_comment" else event_type
    return wanted in hook["events"]
