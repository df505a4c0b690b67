"""The error codes, their class and what a person can do (design section 7). Standard library only.

An error is raised once, at the edge, as a subclass of `CcwebError`; Temporal, HTTP and receipts map it
from here and nowhere else.
"""

from dataclasses import dataclass
from enum import StrEnum


class ErrorCode(StrEnum):
    INVALID_SIGNATURE = "invalid_signature"
    INVALID_PAYLOAD = "invalid_payload"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    INVALID_REQUEST = "invalid_request"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    ILLEGAL_STATE = "illegal_state"
    REQUEST_ID_REUSED = "request_id_reused"
    DUPLICATE_DELIVERY = "duplicate_delivery"
    REPOSITORY_DISABLED = "repository_disabled"
    TEMPORAL_UNAVAILABLE = "temporal_unavailable"
    INGRESS_BUSY = "ingress_busy"
    INSUFFICIENT_PERMISSION = "insufficient_permission"
    REPOSITORY_UNAVAILABLE = "repository_unavailable"
    TOKEN_SCOPE_MISSING = "token_scope_missing"
    GITEA_AUTH_FAILED = "gitea_auth_failed"
    GITEA_UNAVAILABLE = "gitea_unavailable"
    WORKSPACE_AUTH_FAILED = "workspace_auth_failed"
    WORKSPACE_DIRTY = "workspace_dirty"
    WORKSPACE_UNAVAILABLE = "workspace_unavailable"
    PUBLISH_CONFLICT = "publish_conflict"
    PUBLISH_REFUSED = "publish_refused"
    NESTED_REPOSITORY = "nested_repository"
    SPECIAL_FILE = "special_file"
    FILE_TOO_LARGE = "file_too_large"
    TOO_MANY_FILES = "too_many_files"
    NOTHING_TO_PUBLISH = "nothing_to_publish"
    LEASE_EXPIRED = "lease_expired"
    HOLDER_STUCK = "holder_stuck"
    APP_SERVER_TIMEOUT = "app_server_timeout"
    APP_SERVER_OVERLOADED = "app_server_overloaded"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    INTERRUPTED_BY_RESTART = "interrupted_by_restart"
    MCP_COMMAND_MISSING = "mcp_command_missing"
    MCP_START_FAILED = "mcp_start_failed"
    MCP_HANDSHAKE_FAILED = "mcp_handshake_failed"
    MCP_REPLY_MISSING = "mcp_reply_missing"
    CODEX_CONFIG_INVALID = "codex_config_invalid"
    MODEL_CONTEXT_EXCEEDED = "model_context_exceeded"
    MODEL_QUOTA_EXCEEDED = "model_quota_exceeded"
    MODEL_RATE_LIMITED = "model_rate_limited"
    MODEL_AUTH_FAILED = "model_auth_failed"
    MODEL_REQUEST_REFUSED = "model_request_refused"
    MODEL_UNAVAILABLE = "model_unavailable"
    CAPABILITY_DOWNGRADE = "capability_downgrade"
    THREAD_LOST = "thread_lost"
    TOOL_TIMEOUT = "tool_timeout"
    REPLY_ALREADY_POSTED = "reply_already_posted"
    REPLY_TOO_LONG = "reply_too_long"
    REPLY_EMPTY = "reply_empty"
    REPLY_UNKNOWN = "reply_unknown"
    NOT_CURRENT_TASK = "not_current_task"
    WRONG_REPOSITORY = "wrong_repository"
    BUDGET_EXCEEDED = "budget_exceeded"
    ABORT_TIMEOUT = "abort_timeout"
    TERMINATED = "terminated"
    DISK_FULL = "disk_full"
    SETTINGS_INVALID = "settings_invalid"
    INTERNAL_ERROR = "internal_error"


@dataclass(frozen=True, slots=True)
class ErrorText:
    """What a code means: may the task be tried again by itself, and what to tell people."""

    retryable: bool
    en: str
    zh: str
    action_en: str
    action_zh: str


def _t(retryable: bool, en: str, zh: str, action_en: str, action_zh: str) -> ErrorText:
    return ErrorText(retryable, en, zh, action_en, action_zh)


_AGENT_EN, _AGENT_ZH = "The agent was told and can act on it.", "已告知代理，由其处理。"
_OPERATOR_EN, _OPERATOR_ZH = (
    "Ask the operator of ccweb to look at the worker's log.",
    "请联系 ccweb 运维查看 worker 日志。",
)
_AGAIN_EN, _AGAIN_ZH = "Comment again to retry.", "请再次评论以重试。"

C = ErrorCode
TEXTS: dict[ErrorCode, ErrorText] = {
    C.INVALID_SIGNATURE: _t(False, "The delivery has no valid signature.", "投递签名无效。",
        "Set the same secret in the webhook and in CCWEB_WEBHOOK_SECRETS.", "请让 webhook 与 CCWEB_WEBHOOK_SECRETS 使用同一密钥。"),
    C.INVALID_PAYLOAD: _t(False, "The delivery cannot be read.", "无法解析投递内容。",
        "Send Gitea's own JSON; the detail names the field.", "请发送 Gitea 原始 JSON；详情给出字段名。"),
    C.PAYLOAD_TOO_LARGE: _t(False, "The delivery is larger than the bound.", "投递内容超过上限。",
        "Write a shorter comment, or raise CCWEB_MAX_BODY_BYTES.", "请缩短评论，或提高 CCWEB_MAX_BODY_BYTES。"),
    C.NOT_FOUND: _t(False, "There is nothing at this address.", "此地址不存在。",
        "Check the address and the id; deliveries go to /api/gitea/webhook.", "请检查地址与标识；投递地址为 /api/gitea/webhook。"),
    C.METHOD_NOT_ALLOWED: _t(False, "Only POST is taken here.", "仅接受 POST。",
        "Set the webhook's HTTP method to POST.", "请将 webhook 的 HTTP 方法设为 POST。"),
    C.UNSUPPORTED_MEDIA_TYPE: _t(False, "The content type is neither JSON nor form.", "内容类型既非 JSON 也非表单。",
        "Set the webhook's content type to application/json.", "请将 webhook 内容类型设为 application/json。"),
    C.INVALID_REQUEST: _t(False, "The request cannot be read.", "无法解析请求。", "The detail names the field.", "详情给出字段名。"),
    C.UNAUTHENTICATED: _t(False, "The call has no valid operator token.", "缺少有效的运维令牌。",
        "Send 'Authorization: Bearer TOKEN'; make one with 'ccweb operator add'.", "请发送 Authorization: Bearer 令牌；用 ccweb operator add 创建。"),
    C.FORBIDDEN: _t(False, "The operator's role does not allow this.", "该运维角色无权执行此操作。",
        "Ask an operator with a higher role.", "请联系更高角色的运维。"),
    C.ILLEGAL_STATE: _t(False, "The task is not in a state that allows this.", "任务当前状态不允许此操作。",
        "Look at the task again; the detail names its state.", "请重新查看任务；详情给出其状态。"),
    C.REQUEST_ID_REUSED: _t(False, "This requestId already belongs to another call.", "该 requestId 已用于其他调用。",
        "Use a fresh requestId for each new call.", "请为每次新调用使用新的 requestId。"),
    C.DUPLICATE_DELIVERY: _t(False, "This was already taken.", "该请求已受理。", "Nothing to do.", "无需操作。"),
    C.REPOSITORY_DISABLED: _t(False, "ccweb is switched off for this repository.", "此仓库已停用 ccweb。",
        "An operator can enable it.", "运维可重新启用。"),
    C.TEMPORAL_UNAVAILABLE: _t(True, "The Temporal server did not answer in time.", "Temporal 服务未及时响应。",
        "Start Temporal; the reconciler or a redelivery brings the event.", "请启动 Temporal；事件可由对账或重新投递补回。"),
    C.INGRESS_BUSY: _t(True, "Too many large deliveries arrive at once.", "同时到达的大型投递过多。",
        "Send it again, or wait: the reconciler brings the event.", "请重新投递，或等待对账补回。"),
    C.INSUFFICIENT_PERMISSION: _t(False, "The author may not start the agent here.", "作者无权在此触发代理。",
        "Give the author write permission, or name them in CCWEB_ALLOWED_AUTHORS.", "请授予写权限或加入 CCWEB_ALLOWED_AUTHORS。"),
    C.REPOSITORY_UNAVAILABLE: _t(False, "The repository is gone, hidden from the bot, or archived.", "仓库不存在、对机器人不可见或已归档。",
        "Give the bot access as a collaborator with write permission.", "请将机器人加为有写权限的协作者。"),
    C.TOKEN_SCOPE_MISSING: _t(False, "The bot's token lacks a scope.", "机器人令牌缺少权限范围。",
        "Make a token with write:issue, write:repository, read:user.", "请创建含 write:issue、write:repository、read:user 的令牌。"),
    C.GITEA_AUTH_FAILED: _t(False, "Gitea refused the bot's token.", "Gitea 拒绝了机器人令牌。",
        "Check CCWEB_GITEA_TOKEN_FILE.", "请检查 CCWEB_GITEA_TOKEN_FILE。"),
    C.GITEA_UNAVAILABLE: _t(True, "Gitea did not answer.", "Gitea 无响应。", _AGAIN_EN, _AGAIN_ZH),
    C.WORKSPACE_AUTH_FAILED: _t(True, "Git could not clone, fetch or push with the bot's token.", "机器人令牌无法执行 git 克隆、拉取或推送。",
        "Give the bot's token write:repository and the bot write permission.", "请确保令牌含 write:repository 且机器人有写权限。"),
    C.WORKSPACE_DIRTY: _t(False, "The workspace holds something that cannot be saved or that no task accounts for.", "工作区存在无法保存或无法归属的内容。",
        "An operator looks at the path that the task's page names, then unblocks the task.", "请运维检查任务页面所列路径，然后解除阻塞。"),
    C.WORKSPACE_UNAVAILABLE: _t(True, "The workspace could not be prepared.", "无法准备工作区。", _OPERATOR_EN, _OPERATOR_ZH),
    C.PUBLISH_CONFLICT: _t(False, "The branch was moved or rewritten in Gitea since the work began.", "分支在此期间已被更新或改写。", _AGENT_EN, _AGENT_ZH),
    C.PUBLISH_REFUSED: _t(False, "Gitea refused the push.", "Gitea 拒绝了推送。",
        "Check branch protection and the bot's permission.", "请检查分支保护与机器人权限。"),
    C.NESTED_REPOSITORY: _t(False, "A repository inside the workspace cannot be published.", "工作区内的嵌套仓库不能发布。", _AGENT_EN, _AGENT_ZH),
    C.SPECIAL_FILE: _t(False, "Only files and links that can be read can be published.", "只能发布可读取的普通文件和符号链接。", _AGENT_EN, _AGENT_ZH),
    C.FILE_TOO_LARGE: _t(False, "A file is larger than can be published.", "文件过大，不能发布。", _AGENT_EN, _AGENT_ZH),
    C.TOO_MANY_FILES: _t(False, "More files changed than can be published at once.", "改动文件过多，不能一次发布。", _AGENT_EN, _AGENT_ZH),
    C.NOTHING_TO_PUBLISH: _t(False, "Nothing changed since the last publish.", "自上次发布以来没有改动。", _AGENT_EN, _AGENT_ZH),
    C.LEASE_EXPIRED: _t(True, "The task lost its workspace lease.", "任务失去了工作区租约。", _AGAIN_EN, _AGAIN_ZH),
    C.HOLDER_STUCK: _t(False, "The task that held the workspace stopped making progress.", "占用工作区的任务停滞。", _OPERATOR_EN, _OPERATOR_ZH),
    C.APP_SERVER_TIMEOUT: _t(True, "The Codex app-server was not reachable or fell silent.", "Codex app-server 不可达或无响应。", _AGAIN_EN, _AGAIN_ZH),
    C.APP_SERVER_OVERLOADED: _t(True, "The Codex app-server is overloaded.", "Codex app-server 过载。", _AGAIN_EN, _AGAIN_ZH),
    C.SANDBOX_UNAVAILABLE: _t(False, "The command sandbox cannot start on this host.", "此主机无法启动命令沙箱。",
        "Allow unprivileged user namespaces on the worker host.", "请在主机上允许非特权用户命名空间。"),
    C.INTERRUPTED_BY_RESTART: _t(True, "The turn was cut by a restart.", "执行被重启中断。", _AGAIN_EN, _AGAIN_ZH),
    C.MCP_COMMAND_MISSING: _t(False, "The gitea-mcp program was not found.", "找不到 gitea-mcp 程序。",
        "Install gitea-mcp and set CCWEB_GITEA_MCP_COMMAND, then comment again.", "请安装 gitea-mcp 并设置 CCWEB_GITEA_MCP_COMMAND，然后再次评论。"),
    C.MCP_START_FAILED: _t(False, "gitea-mcp ended right after it was started.", "gitea-mcp 启动后立即退出。",
        "Run the command by hand on the worker host, then comment again.", "请在主机上手动运行该命令，然后再次评论。"),
    C.MCP_HANDSHAKE_FAILED: _t(False, "gitea-mcp did not complete its handshake.", "gitea-mcp 握手失败。",
        "Check its version and the Gitea URL, then comment again.", "请检查其版本与 Gitea 地址，然后再次评论。"),
    C.MCP_REPLY_MISSING: _t(True, "The agent ended without an answer in Gitea.", "代理结束但未在 Gitea 中回复。", _AGAIN_EN, _AGAIN_ZH),
    C.CODEX_CONFIG_INVALID: _t(False, "Codex did not accept its configuration.", "Codex 未接受其配置。", _OPERATOR_EN, _OPERATOR_ZH),
    C.MODEL_CONTEXT_EXCEEDED: _t(False, "The conversation no longer fits the model.", "对话超出模型上下文。",
        "Open a new issue, or ask for a smaller step.", "请新建 issue，或拆分请求。"),
    C.MODEL_QUOTA_EXCEEDED: _t(False, "The model account has no quota left.", "模型账户额度已用尽。",
        "Top up or wait for the reset, then comment again.", "请充值或等待重置后再次评论。"),
    C.MODEL_RATE_LIMITED: _t(True, "The model endpoint limits the rate.", "模型端点限流。", _AGAIN_EN, _AGAIN_ZH),
    C.MODEL_AUTH_FAILED: _t(False, "The model endpoint refused the key.", "模型端点拒绝了密钥。",
        "Check CCWEB_MODEL_KEY_FILE.", "请检查 CCWEB_MODEL_KEY_FILE。"),
    C.MODEL_REQUEST_REFUSED: _t(False, "The model endpoint refused the request.", "模型端点拒绝了请求。", _OPERATOR_EN, _OPERATOR_ZH),
    C.MODEL_UNAVAILABLE: _t(True, "The model endpoint failed or cut the answer.", "模型端点故障或中断。", _AGAIN_EN, _AGAIN_ZH),
    C.CAPABILITY_DOWNGRADE: _t(False, "Codex lacks a capability; the turn ran without it.", "Codex 缺少某项能力，已降级执行。", "Nothing to do.", "无需操作。"),
    C.THREAD_LOST: _t(False, "The Codex thread of this conversation is lost.", "此对话的 Codex 线程已丢失。", _AGAIN_EN, _AGAIN_ZH),
    C.TOOL_TIMEOUT: _t(True, "A tool did not answer in time.", "工具未及时响应。", _AGENT_EN, _AGENT_ZH),
    C.REPLY_ALREADY_POSTED: _t(False, "The answer of this round is already posted.", "本轮回复已发布。", _AGENT_EN, _AGENT_ZH),
    C.REPLY_TOO_LONG: _t(False, "The answer is too long for a comment.", "回复过长。", _AGENT_EN, _AGENT_ZH),
    C.REPLY_EMPTY: _t(False, "The answer is empty.", "回复为空。", _AGENT_EN, _AGENT_ZH),
    C.REPLY_UNKNOWN: _t(True, "It is not known whether the answer reached Gitea.", "无法确认回复是否已到达 Gitea。", _OPERATOR_EN, _OPERATOR_ZH),
    C.NOT_CURRENT_TASK: _t(False, "The call does not belong to the task that holds the workspace.", "该调用不属于当前任务。", _AGENT_EN, _AGENT_ZH),
    C.WRONG_REPOSITORY: _t(False, "The tool is limited to this repository.", "该工具仅限本仓库。", _AGENT_EN, _AGENT_ZH),
    C.BUDGET_EXCEEDED: _t(False, "The budget of time, tokens or cost is used up.", "时间、令牌或费用预算已用尽。",
        "Write `/budget` to allow as much again.", "请评论 `/budget` 以追加预算。"),
    C.ABORT_TIMEOUT: _t(False, "The turn did not stop in time and was given up.", "执行未能及时停止，已强制放弃。", _OPERATOR_EN, _OPERATOR_ZH),
    C.TERMINATED: _t(False, "An operator ended the task.", "任务被运维终止。", _AGAIN_EN, _AGAIN_ZH),
    C.DISK_FULL: _t(True, "The worker's disk is full.", "worker 磁盘已满。", "Free space on the worker host, then comment again.", "请清理磁盘后再次评论。"),
    C.SETTINGS_INVALID: _t(False, "A setting is missing or wrong.", "配置缺失或错误。", "The message names the setting.", "消息中给出了配置项。"),
    C.INTERNAL_ERROR: _t(False, "ccweb made an error.", "ccweb 内部错误。", _OPERATOR_EN, _OPERATOR_ZH),
}  # fmt: skip


class CcwebError(Exception):
    """An expected failure with a stable code.

    Attributes:
        code: what happened; decides retry, HTTP status and receipt.
        detail: for logs and operators; holds no secret and no untrusted text longer than a line.
    """

    def __init__(self, code: ErrorCode, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else str(code))
        self.code = code
        self.detail = detail

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later without a person's help."""
        return TEXTS[self.code].retryable


class GiteaError(CcwebError):
    """Gitea's REST API refused or failed."""


class WorkspaceError(CcwebError):
    """Git or the workspace on disk refused or failed."""


class CodexError(CcwebError):
    """The Codex app-server, its configuration or its model failed."""


class SettingsError(CcwebError):
    """A setting is missing or wrong; the detail names it."""


def lines(error: BaseException) -> list[str]:
    """What to tell a person: one line for each error of a group, or the one of a single error."""
    if isinstance(error, BaseExceptionGroup):
        return [line for one in error.exceptions for line in lines(one)]
    return [error.detail or str(error)] if isinstance(error, CcwebError) else [str(error)]
