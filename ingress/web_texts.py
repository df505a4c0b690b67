"""Words of the operators' pages in English and Chinese."""

from typing import Literal

from starlette.requests import Request

Language = Literal["en", "zh"]
COOKIE = "ccweb_lang"

TEXTS: dict[str, tuple[str, str]] = {
    "overview": ("Overview", "总览"),
    "tasks": ("Tasks", "任务"),
    "task": ("Task", "任务"),
    "sign_in": ("Sign in", "登录"),
    "sign_in_gitea": ("Sign in with Gitea", "用 Gitea 登录"),
    "sign_out": ("Sign out", "退出"),
    "token": ("Operator token", "操作员令牌"),
    "token_help": (
        "The token that `ccweb operator add` printed. It is sent once and not kept in the browser.",
        "由 `ccweb operator add` 输出的令牌。只发送一次，浏览器不保存。",
    ),
    "token_wrong": ("This token is not known.", "令牌无效。"),
    "oidc_failed": ("Gitea did not confirm the sign-in. Try again.", "Gitea 未确认登录，请重试。"),
    "skip": ("Skip to content", "跳到正文"),
    "other_language": ("中文", "English"),
    "running": ("Running", "运行中"),
    "waiting": ("Waiting", "等待中"),
    "queued": ("Queued", "排队中"),
    "blocked": ("Blocked", "受阻"),
    "failed": ("Failed", "失败"),
    "ended": ("Ended", "已结束"),
    "last_day": ("last 24 h", "近 24 小时"),
    "none": ("None.", "无。"),
    "queues": ("Queues by repository", "各仓库队列"),
    "repository": ("Repository", "仓库"),
    "working": ("working", "处理中"),
    "state": ("State", "状态"),
    "cost": ("Cost", "费用"),
    "cost_title": ("Cost by repository and day", "各仓库每日费用"),
    "cost_none": (
        "No cost in the last 14 days. Prices are set by CCWEB_PRICE_INPUT and its kin.",
        "近 14 天没有费用。价格由 CCWEB_PRICE_INPUT 等设置。",
    ),
    "total": ("Total", "合计"),
    "others": ("others", "其他"),
    "paused": ("Paused", "已暂停"),
    "disabled": ("Disabled repositories", "已停用仓库"),
    "no_worker": (
        "No worker runs: tasks stand still, and what you ask here is stored until one runs.",
        "没有运行中的 worker：任务停滞，此处的操作会保存到 worker 恢复。",
    ),
    "wedged": (
        "Workflows that fail again and again; see the worker's log:",
        "反复失败的工作流，请查看 worker 日志：",
    ),
    "queues_cut": ("There are more open tasks than are shown here.", "未结束的任务多于此处所示。"),
    "switches": ("Switches", "开关"),
    "all_runs": ("All repositories take work.", "所有仓库均接受任务。"),
    "pause": ("Pause", "暂停"),
    "resume": ("Resume", "恢复"),
    "disable": ("Disable", "停用"),
    "enable": ("Enable", "启用"),
    "cancel": ("Cancel", "取消"),
    "abort": ("Abort", "中止"),
    "retry": ("Retry now", "立即重试"),
    "unblock": ("Unblock", "解除阻塞"),
    "reason": ("Reason", "原因"),
    "reason_help": ("It stands in the audit trail.", "会记入审计记录。"),
    "actions": ("Actions", "操作"),
    "filter": ("Filter", "筛选"),
    "any": ("any", "任意"),
    "more": ("Older tasks", "更早的任务"),
    "timeline": ("Timeline", "时间线"),
    "instruction": ("Request", "请求"),
    "asked_by": ("asked by", "发起人"),
    "turn": ("Turn", "回合"),
    "tokens": ("tokens", "令牌数"),
    "comment": ("Comment", "评论"),
    "open_gitea": ("Discussion in Gitea", "Gitea 讨论"),
    "open_temporal": ("History in Temporal", "Temporal 历史"),
    "source_comment": ("Asking comment", "发起评论"),
    "answer": ("Answer", "回复"),
    "what_to_do": ("What to do", "处理建议"),
    "ids": ("Identifiers", "标识"),
    "commit": ("Commit", "提交"),
    "done": ("Done.", "已执行。"),
    "stored": (
        "Stored. It takes effect as soon as a worker runs.",
        "已保存，worker 运行后生效。",
    ),
    "back": ("Back", "返回"),
    "problem": ("This did not work", "未能完成"),
    "by": ("by", "由"),
    # States
    "received": ("received", "已接收"),
    "s_queued": ("queued", "排队"),
    "preparing": ("preparing", "准备中"),
    "s_running": ("running", "运行"),
    "waiting_user": ("waits for a person", "等待用户"),
    "verifying_reply": ("verifying the answer", "核对回复"),
    "retry_wait": ("will try again", "等待重试"),
    "blocked_workspace": ("workspace blocked", "工作区受阻"),
    "aborting": ("aborting", "中止中"),
    "succeeded": ("succeeded", "成功"),
    "succeeded_with_rest_fallback": ("succeeded (posted by ccweb)", "成功（由 ccweb 代发）"),
    "s_failed": ("failed", "失败"),
    "failed_reply": ("answer not posted", "回复未发出"),
    "cancelled": ("cancelled", "已取消"),
    "aborted": ("aborted", "已中止"),
    "ignored": ("ignored", "已忽略"),
    "duplicate": ("duplicate", "重复"),
    "rejected": ("rejected", "已拒绝"),
}


def text(key: str, language: Language) -> str:
    return TEXTS[key][language == "zh"]


def state_text(state: str, language: Language) -> str:
    """A task's state in words."""
    return text(f"s_{state}" if f"s_{state}" in TEXTS else state, language)


def language_of(request: Request) -> Language:
    """`?lang=`, then what was chosen before, then what the browser prefers."""
    for wish in (request.query_params.get("lang"), request.cookies.get(COOKIE)):
        if wish == "zh":
            return "zh"
        if wish == "en":
            return "en"
    return _preferred(request.headers.get("accept-language", ""))


def _preferred(header: str) -> Language:
    wishes = []
    for part in header.split(",")[:20]:
        tag, _, weight = part.partition(";q=")
        try:
            wishes.append((float(weight or 1), tag.strip().lower()[:2]))
        except ValueError:
            continue
    known = [(weight, tag) for weight, tag in wishes if tag in {"zh", "en"}]
    best = max(known, key=lambda wish: wish[0], default=(0.0, "en"))[1]
    return "zh" if best == "zh" else "en"
