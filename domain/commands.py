"""Commands in a comment: `@bot /stop` and the like (design section 8). Pure.

A command is the first word after the mention. Any other word that begins with a slash is no command, so that
`/etc/hosts is wrong` stays a request.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from domain.replies import Language, used

if TYPE_CHECKING:
    from domain.events import CommandAck

MAX_BUDGETS = 100


class CommandName(StrEnum):
    STOP = "stop"
    RETRY = "retry"
    STATUS = "status"
    STEER = "steer"
    NEW = "new"
    BUDGET = "budget"
    HELP = "help"


N = CommandName
_COMMAND = re.compile(rf"/({'|'.join(N)})(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CommentCommand:
    """`text` is what follows the command; `budgets` how many more budgets `/budget` grants."""

    name: CommandName
    text: str = ""

    @property
    def budgets(self) -> int | None:
        """None when the text is no number from 1 to `MAX_BUDGETS`; nothing means one."""
        if not self.text:
            return 1
        return int(self.text) if self.text.isdecimal() and 1 <= int(self.text[:9]) <= MAX_BUDGETS else None


def parse(instruction: str) -> CommentCommand | None:
    """The command of a text whose leading mention is gone; None when it is an ordinary request.

    `/steer` without a text steers nowhere, so it counts as `/help`.
    """
    found = _COMMAND.fullmatch(instruction.strip())
    if found is None:
        return None
    command = CommentCommand(CommandName(found[1]), (found[2] or "").strip())
    return CommentCommand(N.HELP) if command.name is N.STEER and not command.text else command


HELP: dict[Language, str] = {
    "en": (
        "| command | what it does |\n|---|---|\n"
        "| `/stop` | stops everything that runs or waits here |\n"
        "| `/retry` | tries the last request that did not succeed again, at once |\n"
        "| `/status` | says what runs and waits here |\n"
        "| `/steer <text>` | tells the running agent something without stopping it |\n"
        "| `/new` | the next request begins a new conversation |\n"
        "| `/budget <n>` | allows n more budgets of time, tokens and cost (default 1) |\n"
        "| `/help` | this table |"
    ),
    "zh": (
        "| 命令 | 作用 |\n|---|---|\n"
        "| `/stop` | 停止此处正在运行和等待的一切任务 |\n"
        "| `/retry` | 立即重试上一个未成功的请求 |\n"
        "| `/status` | 说明此处正在运行和等待什么 |\n"
        "| `/steer <文字>` | 不停止代理，直接补充说明 |\n"
        "| `/new` | 下一个请求开始新的对话 |\n"
        "| `/budget <n>` | 再给 n 份时间、令牌和费用预算（默认 1） |\n"
        "| `/help` | 显示本表 |"
    ),
}
NOTHING: dict[Language, dict[CommandName, str]] = {
    "en": {
        N.STOP: "Nothing runs or waits here.",
        N.RETRY: "There is no request here that could be tried again.",
        N.BUDGET: f"`/budget` takes a whole number from 1 to {MAX_BUDGETS}.",
    },
    "zh": {
        N.STOP: "此处没有正在运行或等待的任务。",
        N.RETRY: "此处没有可以重试的请求。",
        N.BUDGET: f"`/budget` 需要 1 到 {MAX_BUDGETS} 之间的整数。",
    },
}


def answer(ack: "CommandAck", language: Language, bot: str) -> str:
    """What is said about a command besides the reaction; empty when the reaction says it all."""
    if not ack.done:
        return "giteabot: " + NOTHING[language][ack.command]
    if ack.command is N.HELP:
        return HELP[language].replace("`/", f"`@{bot} /")
    return _status(ack, language) if ack.command is N.STATUS else ""


def _status(ack: "CommandAck", language: Language) -> str:
    zh = language == "zh"
    rows = [f"| `{task.task_id}` | `{task.state or 'received'}` | {task.asked_by} |" for task in ack.tasks]
    head = ("| 任务 | 状态 | 提出者 |" if zh else "| task | state | asked by |") + "\n|---|---|---|"
    nothing = "没有正在运行或等待的任务。" if zh else "Nothing runs or waits here."
    facts = [f"thread: `{ack.thread_id}`"] if ack.thread_id else []
    return "\n".join(
        ["giteabot:", "", *([head, *rows] if rows else [nothing]), "", *facts, f"used: {used(ack.spent)}"]
    )
