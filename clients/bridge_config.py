"""What a session's bridge must know, written by the worker, read by the bridge (design section 9).

A JSON file outside every workspace, without secrets: the bot's token reaches the bridge as
`GITEA_ACCESS_TOKEN` in its environment only. Standard library only.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BridgeConfig:
    """One Issue/PR and its worktree on this host; sizes in bytes or characters, times in seconds."""

    gitea_url: str
    gitea_mcp_command: str
    bot_name: str
    owner: str
    repo: str
    repository_id: int
    kind: str
    number: int
    default_branch: str
    worktree: str
    git_dir: str
    common_dir: str
    branch: str
    lease_dir: str
    journal_dir: str
    home: str
    """Writable folder for gitea-mcp's own log; outside every workspace."""
    max_reply_chars: int
    max_file_bytes: int
    max_files: int
    start_timeout: float
    call_timeout: float
    """Of one bridge call; below Codex's tool_timeout_sec, so that the bridge answers first."""


def save(path: Path, config: BridgeConfig) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(config), indent=1), encoding="utf-8")
    fresh.replace(path)


def load(path: Path) -> BridgeConfig:
    """Reads a config.

    Raises:
        OSError, ValueError, TypeError: the file is missing or not one of ours.
    """
    return BridgeConfig(**json.loads(path.read_text(encoding="utf-8")))
