"""gitea-mcp's reading tools, each pinned to this repository."""

import re
from typing import Any

from bridge import dialect, rpc
from bridge.upstream import NoAnswerError, StartError, ToolFailedError, Upstream
from clients.bridge_config import BridgeConfig
from domain.errors import ErrorCode

# Named one by one: what a later version adds stays out until somebody looked at it.
READING = (
    "get_issue_by_index",
    "get_issue_comments_by_index",
    "get_pull_request_by_index",
    "get_pull_request_diff",
    "get_pull_request_review",
    "list_pull_request_reviews",
    "list_pull_request_review_comments",
    "list_repo_issues",
    "list_repo_pull_requests",
    "get_file_content",
    "get_dir_content",
    "list_branches",
    "list_repo_commits",
    "list_tags",
    "get_tag",
    "list_releases",
    "get_release",
    "get_latest_release",
    "list_repo_labels",
    "get_repo_label",
    "list_milestones",
    "get_milestone",
    # since spring 2026
    "issue_read",
    "pull_request_read",
    "list_issues",
    "list_pull_requests",
    "get_file_contents",
    "get_dir_contents",
    "get_repository_tree",
    "list_commits",
    "get_commit",
    "milestone_read",
)
PROBE = "get_issue_by_index"
"""Answered with every version: the worker asks for this before each turn."""
_PINNED = ("owner", "repo")
_CLIMBS = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)|%2e|%2f|[?#\x00]", re.IGNORECASE)


def listed(upstream: Upstream) -> list[rpc.Message]:
    """The reading tools that this gitea-mcp has, without the arguments that we fill in."""
    return [_without_pins(upstream.tools[name]) for name in READING if _usable(upstream, name)]


def call(upstream: Upstream, config: BridgeConfig, name: str, arguments: rpc.Message) -> rpc.Message:
    """One read, tried a second time when gitea-mcp ended under the first.

    Raises:
        rpc.RpcError: no such tool.
    """
    if name == PROBE:
        name, arguments = dialect.spoken(upstream.tools, "read_issue", arguments)
    if not _usable(upstream, name):
        raise rpc.RpcError(rpc.INVALID_PARAMS, f"unknown tool {name}")
    if not _stays_here(config, arguments):
        return rpc.text_result(
            f"{ErrorCode.WRONG_REPOSITORY}: this tool reads {config.owner}/{config.repo} only", is_error=True
        )
    full = _numbers(upstream.tools[name], {**arguments, "owner": config.owner, "repo": config.repo})
    limit = config.call_timeout / 4
    try:
        try:
            return upstream.call(name, full, limit)
        except NoAnswerError:
            return upstream.call(name, full, limit)
    except (NoAnswerError, StartError) as error:
        return rpc.text_result(f"{ErrorCode.GITEA_UNAVAILABLE}: {error}", is_error=True)
    except ToolFailedError as error:
        return rpc.text_result(str(error), is_error=True)


def _usable(upstream: Upstream, name: str) -> bool:
    properties = upstream.tools.get(name, {}).get("inputSchema", {}).get("properties", {})
    return name in READING and all(pin in properties for pin in _PINNED)


def _without_pins(tool: rpc.Message) -> rpc.Message:
    schema = dict(tool["inputSchema"])
    schema["properties"] = {key: value for key, value in schema["properties"].items() if key not in _PINNED}
    schema["required"] = [key for key in schema.get("required") or () if key not in _PINNED]
    return {**tool, "inputSchema": schema}


def _stays_here(config: BridgeConfig, arguments: rpc.Message) -> bool:
    """Whether the call is about this repository, also by its paths: gitea-mcp puts them into addresses."""
    here = {"owner": config.owner, "repo": config.repo}
    if any(str(arguments.get(pin, value)).casefold() != value.casefold() for pin, value in here.items()):
        return False
    return not any(isinstance(value, str) and _CLIMBS.search(value) for value in arguments.values())


def _numbers(tool: rpc.Message, arguments: rpc.Message) -> rpc.Message:
    """Digits given as text become numbers: one version of gitea-mcp takes nothing else."""
    kinds: dict[str, Any] = tool["inputSchema"]["properties"]
    return {
        key: int(value)
        if kinds.get(key, {}).get("type") == "number" and isinstance(value, str) and value.isdecimal()
        else value
        for key, value in arguments.items()
    }
