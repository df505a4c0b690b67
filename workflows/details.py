"""The page that the Web UI shows for a running task (`set_current_details`), in Markdown."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from domain.states import TaskState

from workflows.task_record import TaskRecord

_WHAT_TO_DO = {
    TaskState.QUEUED: "Waits for the repository's workspace. Signal `cancel` ends it.",
    TaskState.PREPARING: "Prepares the worktree on the host. Signal `abort` ends it.",
    TaskState.RUNNING: "Codex works. Signal `abort` ends it.",
    TaskState.VERIFYING_REPLY: "Looks for the answer in Gitea. Signal `abort` ends it.",
    TaskState.WAITING_USER: "Asked a question; the next comment is the answer. Signal `cancel` ends it.",
    TaskState.RETRY_WAIT: "Tries again later by itself. Signal `retry` does it now, `cancel` ends it.",
    TaskState.BLOCKED_WORKSPACE: (
        "The workspace holds something that cannot be saved or that no task accounts for; nothing was reset. Look"
        " at it on the host, then signal `unblock`. Signal `cancel` ends it."
    ),
    TaskState.ABORTING: "Stops the turn and frees the workspace; ends by itself.",
}
_SHOWN_MOVES = 15
_MAX_REASON = 1500


def page(task: TaskRecord) -> str:
    """State, what to do, ids, moves and notes."""
    what = _WHAT_TO_DO.get(task.state, "Ended.")
    return "\n".join([f"## {task.state}", "", what, *_blocked_by(task), "", *_ids(task), *_history(task)])


def _blocked_by(task: TaskRecord) -> list[str]:
    """What blocks the workspace, in full: it names paths, and the table below cuts it."""
    if task.state is not TaskState.BLOCKED_WORKSPACE:
        return []
    return ["", _cell(task.moves[-1].reason, _MAX_REASON)]


def _ids(task: TaskRecord) -> list[str]:
    event = task.event
    facts = {
        "resource": event.session_key,
        "author": event.author,
        "source": event.source_key,
        "round": str(task.round),
        "lease": task.lease_id,
        "host": task.host,
        "thread": task.thread_id,
        "turn": task.turn_id,
        "comment": str(task.comment_id) if task.comment_id else None,
        "commit": task.commit,
    }
    return [f"- {name}: `{value}`" for name, value in facts.items() if value]


def _history(task: TaskRecord) -> list[str]:
    moves = [
        f"| {move.state_version} | {move.at:%H:%M:%S} | {move.to_state} | {_cell(move.reason)} | {move.actor} |"
        for move in task.moves[-_SHOWN_MOVES:]
    ]
    notes = [f"- {_cell(note)}" for note in task.notes]
    return ["", "| # | UTC | state | why | by |", "|---|---|---|---|---|", *moves, "", *notes]


def _cell(text: str, most: int = 160) -> str:
    return " ".join(text.replace("|", "/").split())[:most]
