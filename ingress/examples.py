"""What answers look like, for the description of the API. A test reads each as the record it stands for."""

from typing import Any

from pydantic.config import JsonDict

TASK_ID = "gitea-task-0123456789abcdef"
_AT = "2026-12-01T08:00:01Z"
_LATER = "2026-12-01T08:02:30Z"
_TASK: dict[str, Any] = {
    "taskId": TASK_ID,
    "deliveryKey": "default:8f7c2c1e-77a5-4a53-9d0a-1f2f3c4d5e6f",
    "deliveryKeys": ["default:8f7c2c1e-77a5-4a53-9d0a-1f2f3c4d5e6f"],
    "sourceKey": "17:comment:101",
    "repoKey": "default:acme/widget",
    "resourceKey": "default:acme/widget:issue:42",
    "sessionKey": "default:acme/widget:issue:42",
    "author": "alice",
    "state": "running",
    "errorCode": None,
    "executionStatus": "running",
    "cost": None,
    "createdAt": _AT,
    "closedAt": None,
}
TASKS = {"tasks": [_TASK], "nextCursor": None}
TASK = _TASK | {
    "title": "The build fails",
    "instruction": "please fix the failing test",
    "kind": "issue",
    "number": 42,
    "aliasTaskIds": [],
    "stateVersion": 3,
    "attempt": 0,
    "replyAttempt": 0,
    "round": 1,
    "threadId": None,
    "turnId": None,
    "commentId": None,
    "commit": None,
    "leaseId": f"{TASK_ID}/1",
    "host": "host-1a2b3c4d",
    "reason": "",
    "problem": None,
    "moves": [
        {
            "stateVersion": 1,
            "fromState": "received",
            "toState": "queued",
            "actor": "system",
            "errorCode": None,
            "at": _AT,
        }
    ],
    "turns": [
        {
            "turnKey": f"{TASK_ID}/1.1",
            "turnId": None,
            "threadId": None,
            "kind": "normal",
            "round": 1,
            "status": "started",
            "errorCode": None,
            "usage": None,
            "spent": None,
            "startedAt": _LATER,
            "completedAt": None,
        }
    ],
    "comments": [
        {
            "commentKey": f"{TASK_ID}:status:queued",
            "kind": "status",
            "commentId": 102,
            "turnId": None,
            "status": "sent",
        }
    ],
}
OVERVIEW = {
    "control": {
        "globalPaused": False,
        "pauseReason": None,
        "updatedBy": "admin:olga",
        "updatedAt": _AT,
        "disabled": {"default:acme/legacy": "being moved"},
        "version": 4,
    },
    "openTasks": {"running": 1, "queued": 1},
    "endedLastDay": {"succeeded": 12},
    "runningSlots": 1,
    "queues": [
        {
            "repoKey": "default:acme/widget",
            "working": [TASK_ID],
            "queued": ["gitea-task-fedcba9876543210"],
            "waiting": [],
        }
    ],
    "queuesCut": False,
    "wedgedWorkflows": [],
    "workers": [{"taskQueue": "agent", "workers": 1, "lastSeenAt": _LATER}],
    "notes": [],
}
AUDIT = {
    "events": [
        {
            "eventId": f"{TASK_ID}/0199a3c2-58f5-7a0e-b5c5-6f1d7c6f2a10/37",
            "taskId": TASK_ID,
            "action": "task.abort",
            "actor": "admin:olga",
            "fromState": None,
            "toState": None,
            "deliveryId": None,
            "turnId": None,
            "commentId": None,
            "errorCode": None,
            "timestamp": _LATER,
            "metadata": {"via": "update", "requestId": "0d4a6c1e", "reason": "wrong branch"},
        }
    ],
    "nextCursor": None,
}
RESULT = {
    "requestId": "0d4a6c1e",
    "action": "abort",
    "taken": True,
    "repoKey": None,
    "tasks": [TASK_ID],
    "fromState": "running",
}
CALL: JsonDict = {"requestId": "0d4a6c1e", "reason": "wrong branch"}
