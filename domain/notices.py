"""What people are told about a task that needs them. Pure; ids and fixed words only, nothing secret."""

from domain.errors import TEXTS
from domain.events import Notice

_TITLES: dict[str, tuple[str, str]] = {
    "failed": ("A task failed", "任务失败"),
    "failed_reply": ("An answer could not be posted", "回复未能发出"),
    "blocked": ("A workspace is blocked", "工作区受阻"),
    "budget": ("A budget is used up", "预算已用完"),
    "stuck": ("A stuck task was ended", "停滞的任务已被终止"),
    "found": ("Requests that no delivery told about", "发现未投递的请求"),
}


def words(notice: Notice, language: str, public_url: str, left_out: int = 0) -> tuple[str, str]:
    """Title and text; `left_out` counts the notices that were not sent before this one."""
    zh = language == "zh"
    text = TEXTS[notice.error_code] if notice.error_code else None
    lines = [
        notice.session_key,
        f"{notice.error_code}: {text.zh if zh else text.en}" if text else "",
        (text.action_zh if zh else text.action_en) if text else "",
        f"{notice.count}" if notice.kind == "found" else "",
        (f"{public_url}/tasks/{notice.task_id}" if public_url else notice.task_id) if notice.task_id else "",
        (f"此前另有 {left_out} 条未发送。" if zh else f"{left_out} more were not sent.") if left_out else "",
    ]
    return f"ccweb: {_TITLES[notice.kind][zh]}", "\n".join(line for line in lines if line)
