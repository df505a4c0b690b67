"""A stand-in for gitea-mcp over stdio, in three of its versions, that works on a Gitea by REST.

"2025-07" and "2026-03" have a tool for each act; "methods", the official one since spring 2026, has tools with a
`method`, gives short results without a wrapper and only the tools that ccweb may use.

Run by its path with `python -I`; standard library only. `SIM_GITEA_MCP_VERSION` chooses the version and
`SIM_GITEA_MCP_FAULT` one fault: exit_at_start, hang_handshake, die_on_call:<tool> or never_answer:<tool>,
the last after the tool did its work.
"""

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

OLD, NEW, METHODS = "2025-07", "2026-03", "methods"
VERSION = os.environ.get("SIM_GITEA_MCP_VERSION", NEW)
FAULT, _, FAULT_TOOL = os.environ.get("SIM_GITEA_MCP_FAULT", "").partition(":")
SHORT_LISTS_OMIT = ("body", "repository", "assets", "original_author", "original_author_id")
UNREACHABLE = 0

Arguments = dict[str, Any]


class ToolError(Exception):
    """Answered as a JSON-RPC error; gitea-mcp never uses results with isError."""

    def __init__(self, message: str, code: int = -32603) -> None:
        super().__init__(message)
        self.code = code


class RestError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Rest:
    def __init__(self, host: str, token: str) -> None:
        self._base = host.rstrip("/") + "/api/v1"
        self.token = token

    def __call__(self, method: str, path: str, body: Arguments | None = None) -> Any:
        if method != "GET" and not self.token:
            raise RestError(401, "token is required")
        request = urllib.request.Request(self._base + path, method=method)  # noqa: S310 - the host is configured
        if self.token:
            request.add_header("Authorization", f"token {self.token}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        return self._send(request)

    def _send(self, request: urllib.request.Request) -> Any:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise RestError(error.code, _message_of(error.read())) from None
        except (OSError, ValueError) as error:
            raise RestError(UNREACHABLE, str(error)) from None
        except Exception as error:  # noqa: BLE001 - http.client's errors share no narrower base
            raise RestError(UNREACHABLE, str(error)) from None


def _message_of(body: bytes) -> str:
    try:
        return str(json.loads(body).get("message", ""))
    except (ValueError, AttributeError):
        return ""


def _repo(a: Arguments) -> str:
    return f"/repos/{urllib.parse.quote(a['owner'])}/{urllib.parse.quote(a['repo'])}"


def _query(**pairs: Any) -> str:
    return "?" + urllib.parse.urlencode({name: value for name, value in pairs.items() if value not in (None, "")})


def _size(a: Arguments) -> int:
    return int(a.get("perPage" if VERSION == METHODS else "pageSize", 30 if VERSION == METHODS else 100))


def _list(rest: Rest, kind: str, a: Arguments) -> Any:
    query = _query(state=a.get("state"), page=int(a.get("page", 1)), limit=_size(a), type=kind)
    return rest("GET", f"{_repo(a)}/{'pulls' if kind == 'pulls' else 'issues'}{query}")


def _shortened(items: Any) -> Any:
    if VERSION == OLD or not isinstance(items, list):
        return items
    return [{name: value for name, value in item.items() if name not in SHORT_LISTS_OMIT} for item in items]


def _short_pulls(rest: Rest, a: Arguments) -> Any:
    items = _shortened(_list(rest, "pulls", a))
    if VERSION == OLD:
        return items
    return [{**item, "head": item["head"]["ref"], "base": item["base"]["ref"]} for item in items]


def _file(rest: Rest, a: Arguments) -> Any:
    path = urllib.parse.quote(str(a["filePath"]))
    return rest("GET", f"{_repo(a)}/contents/{path}{_query(ref=a.get('ref'))}")


def _create_pull(rest: Rest, a: Arguments) -> Any:
    return rest("POST", f"{_repo(a)}/pulls", {name: a[name] for name in ("title", "body", "head", "base")})


Tool = Callable[[Rest, Arguments], Any]
NAMED: dict[str, tuple[Tool, str]] = {
    "get_my_user_info": (lambda r, _: r("GET", "/user"), "get user info"),
    "get_issue_by_index": (
        lambda r, a: r("GET", f"{_repo(a)}/issues/{a['index']}"),
        "get {owner}/{repo}/issue/{index}",
    ),
    "get_issue_comments_by_index": (
        lambda r, a: r("GET", f"{_repo(a)}/issues/{a['index']}/comments"),
        "get {owner}/{repo}/issues/{index}/comments",
    ),
    "create_issue_comment": (
        lambda r, a: r("POST", f"{_repo(a)}/issues/{a['index']}/comments", {"body": a["body"]}),
        "create {owner}/{repo}/issue/{index}/comment",
    ),
    "edit_issue_comment": (
        lambda r, a: r("PATCH", f"{_repo(a)}/issues/comments/{a['commentID']}", {"body": a["body"]}),
        "edit {owner}/{repo}/issues/comments/{commentID}",
    ),
    "get_pull_request_by_index": (
        lambda r, a: r("GET", f"{_repo(a)}/pulls/{a['index']}"),
        "get {owner}/{repo}/pr/{index}",
    ),
    "create_pull_request": (_create_pull, "create {owner}/{repo}/pull_request"),
    "list_repo_issues": (lambda r, a: _shortened(_list(r, "issues", a)), "get {owner}/{repo}/issues"),
    "list_repo_issues_full": (lambda r, a: _list(r, "issues", a), "get {owner}/{repo}/issues"),
    "list_repo_pull_requests": (_short_pulls, "list {owner}/{repo}/pull_requests"),
    "list_repo_pull_requests_full": (lambda r, a: _list(r, "pulls", a), "list {owner}/{repo}/pull_requests"),
    "get_file_content": (_file, "get file"),
    "list_branches": (lambda r, a: r("GET", f"{_repo(a)}/branches"), "list branches"),
}
# what the newer tools and methods do, by the older names
_METHODS = {
    "get_me": "get_my_user_info",
    "issue_read get": "get_issue_by_index",
    "issue_read get_comments": "get_issue_comments_by_index",
    "issue_write add_comment": "create_issue_comment",
    "issue_write edit_comment": "edit_issue_comment",
    "pull_request_read get": "get_pull_request_by_index",
    "pull_request_write create": "create_pull_request",
    "list_issues": "list_repo_issues_full",
    "list_pull_requests": "list_repo_pull_requests_full",
    "get_file_contents": "get_file_content",
    "list_branches": "list_branches",
}
_KEPT = (
    *("additions", "base", "body", "changed_files", "closed_at", "comments", "content", "created_at", "deletions"),
    *("download_url", "draft", "encoding", "full_name", "head", "html_url", "id", "labels", "login", "mergeable"),
    *(
        "merged",
        "name",
        "number",
        "path",
        "ref",
        "repo",
        "sha",
        "size",
        "state",
        "title",
        "type",
        "updated_at",
        "user",
    ),
)
_LIST_OMITS = ("body", "closed_at", "labels", "additions", "deletions", "changed_files", "mergeable")


def _short(value: Any) -> Any:
    """People by their login alone, and without most of the fields."""
    if isinstance(value, list):
        return [_short(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _short(inner) for key, inner in value.items() if key in _KEPT}
    if "number" not in value:
        return kept if "user" not in value else {**kept, "user": value["user"]["login"]}
    kept |= {"user": value["user"]["login"], "labels": [one["name"] for one in value["labels"]] or None}
    for side in ("head", "base"):
        if side in value:
            repo = value[side]["repo"] or {}
            shown = {"full_name": repo.get("full_name", ""), "description": repo.get("description", "")}
            kept[side] = {"ref": value[side]["ref"], "sha": value[side]["sha"], "repo": shown}
    return kept


def _shorter(items: Any) -> Any:
    """As in lists: pull requests name their branches only."""
    if not isinstance(items, list) or not items or "number" not in items[0]:
        return items
    found = [{key: value for key, value in item.items() if key not in _LIST_OMITS} for item in items]
    for item in found:
        if "head" in item:
            item |= {"head": item["head"]["ref"], "base": item["base"]["ref"]}
            del item["comments"]
    return found


def check_arguments(schema: Arguments, arguments: Arguments) -> Arguments:
    """The arguments with indexes as whole numbers; the old version wants numbers, the new one takes strings."""
    checked = dict(arguments)
    for name in schema.get("required") or ():
        if name not in arguments:
            raise ToolError(f"{name} is required")
    for name, kind in schema.get("properties", {}).items():
        if name in checked and kind.get("type") == "number":
            checked[name] = _whole(name, checked[name])
    return checked


def _whole(name: str, value: Any) -> int:
    if isinstance(value, str) and (VERSION == OLD or not value.isdecimal()):
        raise ToolError(f"{name} is required")
    return int(value)


def named(name: str, arguments: Arguments) -> str:
    """The tool by its older name."""
    if VERSION != METHODS:
        return name
    act = f"{name} {arguments['method']}" if "method" in arguments else name
    if act not in _METHODS:
        raise ToolError(
            f"unknown method: {arguments.get('method')}" if "method" in arguments else f"{act} is not simulated"
        )
    return _METHODS[act]


def run_tool(rest: Rest, schemas: dict[str, Arguments], name: str, arguments: Arguments) -> Arguments:
    if name not in schemas:
        raise ToolError(f"tool '{name}' not found: tool not found", -32602)
    act = named(name, arguments)
    if act not in NAMED:
        raise ToolError(f"{name} is not simulated")
    if FAULT == "die_on_call" and act == FAULT_TOOL:
        os._exit(1)
    checked = check_arguments(schemas[name], arguments)
    tool, label = NAMED[act]
    if act == "create_issue_comment":
        if "body" not in checked:
            raise ToolError("body is required")
        if not checked["body"]:
            raise ToolError(f"{label.format(**checked)} err: body is empty")
    try:
        result = tool(rest, checked)
    except RestError as error:
        if VERSION == OLD and error.status in (UNREACHABLE, 401):
            os._exit(1)  # the old version ends without a word
        if VERSION == METHODS and error.status in (UNREACHABLE, 401) and rest.token:
            raise ToolError(f"get gitea client err: create gitea client err: {error}") from None
        raise ToolError(f"{label.format(**checked)} err: {error}") from None
    if FAULT == "never_answer" and act == FAULT_TOOL:
        time.sleep(3600)
    return {"content": [{"type": "text", "text": _text(result)}]}


def _text(result: Any) -> str:
    shown = _shorter(_short(result)) if VERSION == METHODS else {"Result": result}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def answer(rest: Rest, data: Arguments, message: Arguments) -> Arguments:
    method, params = message.get("method"), message.get("params") or {}
    if method == "initialize":
        if FAULT == "hang_handshake":
            time.sleep(3600)
        return dict(data["initialize_result"])
    if method == "tools/list":
        return dict(data["tools_list_result"])
    if method == "tools/call":
        schemas = {tool["name"]: tool["inputSchema"] for tool in data["tools_list_result"]["tools"]}
        return run_tool(rest, schemas, str(params.get("name")), params.get("arguments") or {})
    if method == "ping":
        return {}
    group = str(method).partition("/")[0]
    text = f"{group} not supported" if group in ("resources", "prompts") else f"Method {method} not found"
    raise ToolError(text, -32601)


def serve(rest: Rest, data: Arguments) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply: Arguments = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = answer(rest, data, message)
        except ToolError as error:
            reply["error"] = {"code": error.code, "message": str(error)}
        sys.stdout.write(json.dumps(reply, ensure_ascii=False) + "\n")
        sys.stdout.flush()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("gitea-mcp", allow_abbrev=False)
    parser.add_argument("-t", "-transport", "--transport", dest="transport", default="stdio", choices=["stdio"])
    hosts = ["-host", "--host", *(["-H"] if VERSION != OLD else [])]
    parser.add_argument(*hosts, dest="host", default=os.environ.get("GITEA_HOST", "https://gitea.com"))
    parser.add_argument("-token", "--token", default=os.environ.get("GITEA_ACCESS_TOKEN", ""))
    return parser.parse_args()


def main() -> int:
    if FAULT == "exit_at_start":
        sys.stderr.write("gitea-mcp: simulated failure at start\n")
        return 1
    options = arguments()
    log = Path.home() / ".gitea-mcp"
    log.mkdir(parents=True, exist_ok=True)  # as the real one: the home must be writable
    (log / "gitea-mcp.log").touch()
    data = json.loads((Path(__file__).parent / "data" / f"tools-{VERSION}.json").read_text(encoding="utf-8"))
    serve(Rest(options.host, options.token), data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
