"""Identifiers and idempotency keys (design section 3). Standard library only: the bridge imports this."""

import hashlib
import re
from dataclasses import dataclass

INSTANCE_ID = "default"
CONTROL_WORKFLOW_ID = f"control/{INSTANCE_ID}"
RECONCILE_SCHEDULE_ID = f"reconcile/{INSTANCE_ID}"
AUDIT_SCHEDULE_ID = f"audit-export/{INSTANCE_ID}"

TASK_QUEUE = "agent"
"""Workflows and light activities. What touches a host's disk or Codex runs on `host_queue`."""

_TASK_ID = re.compile(r"gitea-task-[0-9a-f]{16}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


def repo_key(owner: str, repo: str) -> str:
    """The label of a repository; Gitea's names do not depend on case."""
    return f"{INSTANCE_ID}:{owner}/{repo}".lower()


def resource_key(repo: str, kind: str, number: int) -> str:
    """One Issue or PR; also the sessionKey. `repo` is a repoKey, `kind` is `issue` or `pull_request`."""
    return f"{repo}:{kind}:{number}"


def delivery_key(delivery_id: str) -> str:
    return f"{INSTANCE_ID}:{delivery_id}"


def source_key(repository_id: int, kind: str, object_id: int | str) -> str:
    """The thing a person wrote; at most one task per source, ever."""
    return f"{repository_id}:{kind}:{object_id}"


def task_id(delivery: str) -> str:
    """The taskId of a deliveryKey; also the id of its AgentTask workflow."""
    return "gitea-task-" + hashlib.sha256(delivery.encode()).hexdigest()[:16]


def is_task_id(text: str) -> bool:
    return _TASK_ID.fullmatch(text) is not None


def turn_key(task: str, round_: int, n: int) -> str:
    """Our idempotency key of a Codex turn (`clientUserMessageId`), fixed before the turn starts."""
    return f"{task}/{round_}.{n}"


def thread_name(session: str, epoch: int) -> str:
    """What a session's thread is called in Codex; `/new` begins another epoch."""
    return f"{session}#{epoch}" if epoch else session


def lease_id(task: str, k: int) -> str:
    return f"{task}/{k}"


def status_comment_key(task: str, state: str) -> str:
    return f"{task}:status:{state}"


def session_workflow_id(session: str) -> str:
    return f"session/{session}"


def repository_workflow_id(repository_id: int) -> str:
    return f"repository/{INSTANCE_ID}:{repository_id}"


def host_queue(host: str) -> str:
    return f"{TASK_QUEUE}@{host}"


def is_repository_name(text: str) -> bool:
    """Whether Gitea could have made this owner or repository name (and it is safe as a folder name)."""
    return _NAME.fullmatch(text) is not None and text not in {".", ".."}


@dataclass(frozen=True, slots=True)
class ResourceRef:
    """The parts of a resourceKey."""

    owner: str
    repo: str
    kind: str
    number: int

    @classmethod
    def parse(cls, key: str) -> "ResourceRef":
        """Reads `default:<owner>/<repo>:<kind>:<number>`; raises ValueError for anything else."""
        instance, name, kind, number = key.split(":")
        owner, repo = name.split("/")
        if instance != INSTANCE_ID or kind not in {"issue", "pull_request"}:
            raise ValueError(f"not a resourceKey: {key!r}")
        return cls(owner, repo, kind, int(number))
