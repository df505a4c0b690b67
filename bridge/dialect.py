"""The words of gitea-mcp: a tool for each act in older versions, tools with a `method` in those since spring 2026.

Newer results are not wrapped, and name people by their login alone.
"""

import json
from typing import Any

from bridge import rpc

# act -> tools that do it, the newest first; the first one that this gitea-mcp has is called
_TOOLS: dict[str, tuple[tuple[str, rpc.Message], ...]] = {
    "read_issue": (("issue_read", {"method": "get"}), ("get_issue_by_index", {})),
    "read_comments": (("issue_read", {"method": "get_comments"}), ("get_issue_comments_by_index", {})),
    "add_comment": (("issue_write", {"method": "add_comment"}), ("create_issue_comment", {})),
    "create_pull": (("pull_request_write", {"method": "create"}), ("create_pull_request", {})),
    "read_pull": (("pull_request_read", {"method": "get"}), ("get_pull_request_by_index", {})),
    # a full list where there is one: the plain one of that version leaves the branches' repositories out
    "list_pulls": (("list_pull_requests", {}), ("list_repo_pull_requests_full", {}), ("list_repo_pull_requests", {})),
}


def spoken(tools: dict[str, rpc.Message], act: str, arguments: rpc.Message) -> tuple[str, rpc.Message]:
    """Name and arguments of the tool for an act; without any, the oldest name, which gitea-mcp then refuses."""
    known = [(name, more) for name, more in _TOOLS[act] if name in tools]
    name, more = (known or _TOOLS[act][-1:])[0]
    if "perPage" in tools.get(name, {}).get("inputSchema", {}).get("properties", {}):
        arguments = {"perPage" if key == "pageSize" else key: value for key, value in arguments.items()}
    return name, {**more, **arguments}


def result(answer: rpc.Message) -> Any:
    """What a call gave: one text item of JSON, in older versions as `{"Result": ...}`.

    Raises:
        ValueError, KeyError, IndexError, TypeError: it has another form.
    """
    found = json.loads(answer["content"][0]["text"])
    return found["Result"] if isinstance(found, dict) and found.keys() == {"Result"} else found


def login(user: Any) -> str:
    """The name of a person in a result."""
    return str(user.get("login") or "") if isinstance(user, dict) else str(user or "")


def same_repository(head: rpc.Message, base: rpc.Message) -> bool:
    """Whether both sides of a pull request lie in one repository; newer versions give no ids."""
    if "repo_id" in head:
        return bool(head["repo_id"] == base.get("repo_id"))
    ours, theirs = (side.get("repo") or {} for side in (base, head))
    return bool(ours) and ours.get("full_name") == theirs.get("full_name")
