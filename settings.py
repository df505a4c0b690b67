"""All settings, from the environment with the prefix `CCWEB_` (design section 11).

Each secret `CCWEB_X` has a twin `CCWEB_X_FILE` that names a file holding it. How to reach Temporal is not
set here but by `temporal.toml` and `TEMPORAL_*` (`temporalio.envconfig`). Durations are seconds.
"""

import os
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import codex_cli_bin
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from domain.errors import ErrorCode, SettingsError
from domain.events import Limits
from domain.triggers import EVERY_TRIGGER, Trigger

PREFIX = "CCWEB_"
_STATE_HOME = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")

_Words = Annotated[frozenset[str], NoDecode]
Seconds = Annotated[float, Field(gt=0)]


class Settings(BaseSettings):
    """Read once at start by each process; immutable."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    # Gitea
    gitea_url: str = Field("http://127.0.0.1:3000", description="Address of Gitea as the worker reaches it")
    gitea_token: SecretStr = Field(
        SecretStr(""), description="The bot's token: write:issue, write:repository, read:user"
    )
    bot_name: str = Field("ccweb-bot", description="Login of the bot account")
    webhook_secrets: SecretStr = Field(
        SecretStr(""),
        description="Secrets that may sign deliveries, separated by blanks (several while rotating)",
    )
    gitea_mcp_command: str = Field("gitea-mcp", description="The official gitea-mcp: a name on PATH or a path")

    # Who may trigger, and what
    triggers: Annotated[frozenset[Trigger], NoDecode] = Field(
        EVERY_TRIGGER, description="What starts a task: comment, edit, body, assignment, review"
    )
    minimum_permission: Literal["read", "write", "admin"] = Field(
        "write", description="Least permission of an author"
    )
    allowed_authors: _Words = Field(frozenset(), description="Logins that may trigger whatever their permission")
    allowed_bots: _Words = Field(frozenset(), description="Logins of other bots that may trigger")
    disabled_policy: Literal["reject", "ignore"] = Field(
        "reject", description="Answer for disabled repositories: 409 or 200"
    )
    language: Literal["zh", "en"] = Field("zh", description="Language of receipts")

    # Ingress
    ingress_host: str = Field("127.0.0.1", description="Address the ingress listens on")
    ingress_port: int = Field(8484, description="Port the ingress listens on")
    max_body_bytes: int = Field(8 * 1024 * 1024, gt=0, description="Bound of a delivery")

    # Metrics
    metrics_port: int = Field(0, ge=0, description="Port of the worker's metrics; 0 is off. The ingress has /metrics")
    metrics_host: str = Field("127.0.0.1", description="Address the worker's metrics are served on")

    # Operators' pages and notifications
    public_url: str = Field("", description="Address at which people reach the ingress; needed for Gitea sign-in")
    gitea_public_url: str = Field("", description="Address of Gitea as people reach it; default CCWEB_GITEA_URL")
    temporal_ui_url: str = Field("", description="Address of Temporal's Web UI, for links; empty is none")
    oidc_client_id: str = Field("", description="Client id of ccweb in Gitea; operators sign in by their Gitea login")
    oidc_client_secret: SecretStr = Field(SecretStr(""), description="Client secret of ccweb in Gitea")
    notify_urls: SecretStr = Field(
        SecretStr(""), description="Apprise URLs that are told what needs a person, separated by blanks; empty is off"
    )

    # Host
    state_dir: Path = Field(_STATE_HOME / "ccweb", description="Everything this host keeps; not under /tmp")
    workspace_root: Path = Field(Path(), description="Clones and worktrees; default <state_dir>/workspaces")
    max_file_bytes: int = Field(50 * 1024 * 1024, gt=0, description="Largest file that publish takes")
    max_files: int = Field(5_000, gt=0, description="Most changed files that publish takes at once")
    command_path: str = Field("/usr/local/bin:/usr/bin:/bin", description="PATH of commands that the model runs")

    # Codex and the model
    codex_bin: Path = Field(Path(codex_cli_bin.bundled_codex_path()), description="The codex program")
    codex_socket: Path = Field(Path(), description="Socket of the app-server; default <state_dir>/codex.sock")
    model: str = Field("gpt-6.1-sol", description="Model slug")
    model_base_url: str = Field("https://api.openai.com/v1", description="Responses API endpoint")
    model_key: SecretStr = Field(SecretStr(""), description="Key of the model endpoint")
    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None = Field(None, description="Reasoning effort")
    max_reply_chars: int = Field(60_000, gt=0, description="Longest answer that the bridge posts")

    # Budgets; 0 is no limit
    task_minutes: float = Field(120, ge=0, description="Minutes of turns that a task may use before it asks")
    task_tokens: int = Field(0, ge=0, description="Tokens that a task may use before it asks; 0 is no limit")
    task_cost: float = Field(0, ge=0, description="Cost of a task, by the prices below, before it asks")
    session_minutes: float = Field(0, ge=0, description="Minutes of turns that an Issue/PR may use before it asks")
    session_tokens: int = Field(0, ge=0, description="Tokens that an Issue/PR may use before it asks")
    session_cost: float = Field(0, ge=0, description="Cost of an Issue/PR before it asks")
    price_input: float = Field(0, ge=0, description="Price of a million input tokens, in any currency")
    price_cached_input: float = Field(0, ge=0, description="Price of a million cached input tokens")
    price_output: float = Field(0, ge=0, description="Price of a million output tokens")

    # Times
    heartbeat_timeout: Seconds = Field(30, description="A worker silent this long is taken for dead")
    stop_budget: Seconds = Field(20, description="Time to interrupt and clean a turn, and for a worker's shutdown")
    turn_timeout: Seconds = Field(3600, description="Longest turn")
    silence_timeout: Seconds = Field(600, description="Longest silence of Codex within a turn")
    tool_timeout: Seconds = Field(120, description="Codex's limit of a tool call; the bridge answers earlier")
    mcp_startup_timeout: Seconds = Field(20, description="Codex's limit for starting the bridge")
    rpc_timeout: Seconds = Field(30, description="Longest answer of one app-server or Gitea call")
    git_timeout: Seconds = Field(600, description="Longest network operation of git")
    retry_delay: Seconds = Field(30, description="Wait before the one retry of a task")
    request_backoff: Seconds = Field(60, description="First wait before a waiting task repeats its lease request")
    read_back_budget: Seconds = Field(120, description="How long the verifier asks Gitea again while unsure")
    probe_interval: Seconds = Field(15, description="How often the holder of a lease is looked at while others wait")
    stuck_after: Seconds = Field(300, description="A holder whose workflow task fails this long is stuck")
    pause_poll: Seconds = Field(10, description="How often a waiting repository looks whether the pause is over")
    reconcile_interval: Seconds = Field(300, description="How often the reconciler looks for what was not delivered")
    reconcile_grace: Seconds = Field(120, description="The reconciler leaves alone what is younger than this")
    session_idle: Seconds = Field(14 * 86400, description="A closed Issue/PR's session ends after this idle time")

    @field_validator("allowed_authors", "allowed_bots", "triggers", mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        return frozenset(value.replace(",", " ").lower().split()) if isinstance(value, str) else value

    @field_validator("gitea_url", "model_base_url", "public_url", "gitea_public_url", "temporal_ui_url")
    @classmethod
    def _url(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return value.rstrip("/")

    @model_validator(mode="before")
    @classmethod
    def _default_paths(cls, values: dict[str, Any]) -> dict[str, Any]:
        state = Path(values.get("state_dir") or _STATE_HOME / "ccweb").expanduser().absolute()
        return {
            "workspace_root": state / "workspaces",
            "codex_socket": state / "codex.sock",
            **values,
            "state_dir": state,
        }

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """The webhook secrets that may sign, never empty ones."""
        return tuple(self.webhook_secrets.get_secret_value().split())

    @property
    def task_budget(self) -> Limits:
        return Limits(minutes=self.task_minutes, tokens=self.task_tokens, cost=self.task_cost)

    @property
    def session_budget(self) -> Limits:
        return Limits(minutes=self.session_minutes, tokens=self.session_tokens, cost=self.session_cost)

    @property
    def codex_home(self) -> Path:
        return self.state_dir / "codex"

    @property
    def secret_dir(self) -> Path:
        """Files the sandbox must not read: the model key as Codex fetches it."""
        return self.state_dir / "secrets"

    @property
    def secret_files(self) -> tuple[Path, ...]:
        """The files that hold our secrets by their `_FILE` twins; the sandbox must not read them."""
        names = (f"{PREFIX}{name.upper()}_FILE" for name in _secret_names())
        return tuple(Path(os.environ[name]).absolute() for name in names if os.environ.get(name))

    @property
    def lease_dir(self) -> Path:
        """Lease files and locks, one per repository.id."""
        return self.state_dir / "leases"

    @property
    def journal_dir(self) -> Path:
        """The bridge's journals, one per task."""
        return self.state_dir / "journals"

    @property
    def bridge_dir(self) -> Path:
        """What each session's bridge needs to know, without secrets."""
        return self.state_dir / "bridge"


def load_settings(**overrides: Any) -> Settings:
    """The settings of this process.

    Raises:
        SettingsError: a setting is missing, unreadable or wrong; the detail names it.
    """
    try:
        values: dict[str, Any] = {**_from_files(), **overrides}
        return Settings(**values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = PREFIX + str(first["loc"][0] if first["loc"] else "").upper()
        why = first["msg"].removeprefix("Value error, ")
        raise SettingsError(ErrorCode.SETTINGS_INVALID, f"{name}: {why}") from None


def require(settings: Settings, name: str) -> None:
    """For a secret that a process cannot do without.

    Raises:
        SettingsError: it is not set.
    """
    if not getattr(settings, name).get_secret_value().strip():
        upper = f"{PREFIX}{name.upper()}"
        detail = f"{upper} or {upper}_FILE: not set (in the environment, or in .env as .env.example shows)"
        raise SettingsError(ErrorCode.SETTINGS_INVALID, detail)


def _from_files() -> dict[str, str]:
    """The values of secrets that are given by their `_FILE` twin."""
    found = {}
    for name in _secret_names():
        path = os.environ.get(f"{PREFIX}{name.upper()}_FILE")
        if path:
            try:
                found[name] = Path(path).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise SettingsError(
                    ErrorCode.SETTINGS_INVALID, f"{PREFIX}{name.upper()}_FILE: {error.strerror}: {path}"
                ) from None
    return found


def _secret_names() -> list[str]:
    return [name for name, field in Settings.model_fields.items() if field.annotation is SecretStr]


def reference() -> list[tuple[str, str, str]]:
    """Name, default and meaning of every setting, as `ccweb settings` and the docs show them."""
    derived = {"state_dir": "~/.local/state/ccweb", "codex_bin": "the bundled one"}
    rows = []
    for name, field in Settings.model_fields.items():
        default = field.default.get_secret_value() if field.annotation is SecretStr else field.default
        rows.append((f"{PREFIX}{name.upper()}", derived.get(name, _plain(default)), field.description or ""))
    return rows


def _plain(default: object) -> str:
    if isinstance(default, frozenset):
        return " ".join(sorted(default))
    return "" if default in {None, "", Path()} else str(default)
