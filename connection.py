"""How every process reaches Temporal: `temporal.toml` and `TEMPORAL_*`, read by the SDK (design section 2)."""

import re

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.service import RPCError, RPCStatusCode

import tracing
from domain import search_attributes
from domain.errors import CcwebError, ErrorCode, SettingsError

_LONGEST_REASON = 200
# The SDK tells a failed connection as the debug text of its causes; the innermost names what happened.
_CAUSE = re.compile(r'(?:message|error): "((?:[^"\\]|\\.)+)"')
_REFUSED = re.compile(r"Status \{ code: (PermissionDenied|Unauthenticated|Unimplemented)")
_SET = "set TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and its credentials"


class TemporalUnavailableError(CcwebError):
    """Temporal cannot be reached or did not answer. May be retried; whether it took a signal is unknown."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.TEMPORAL_UNAVAILABLE, detail)


def config() -> ClientConnectConfig:
    """Address, namespace, TLS and API key.

    Raises:
        SettingsError: `temporal.toml` or `TEMPORAL_*` cannot be read.
    """
    try:
        found = ClientConfig.load_client_connect_config()
    except (RuntimeError, OSError, ValueError) as error:
        raise _settings_error(f"temporal.toml or TEMPORAL_*: {' '.join(str(error).split())}") from None
    found.setdefault("target_host", "127.0.0.1:7233")
    return found


async def connect(service: str, *, lazy: bool = False) -> Client:
    """A client with the one data converter of ccweb; with `lazy` it connects at its first call.

    Raises:
        TemporalUnavailableError: the server cannot be reached (not when lazy); may be retried.
        SettingsError: the address or the credentials are wrong.
    """
    settings = config()
    address = settings["target_host"]
    plugins = tracing.configure(service)
    try:
        return await Client.connect(**settings, data_converter=pydantic_data_converter, plugins=plugins, lazy=lazy)
    except ValueError as error:
        raise _settings_error(f"TEMPORAL_ADDRESS: {address!r}: {error}") from None
    except RuntimeError as error:
        if _REFUSED.search(str(error)):
            raise _settings_error(f"Temporal at {address} refuses ccweb: {reason(error)}; {_SET}") from None
        raise TemporalUnavailableError(unreachable(error, address)) from None


async def check(client: Client) -> None:
    """Fails early on a namespace that no workflow of ccweb could run in.

    Raises:
        SettingsError: there is no such namespace, or it lacks our search attributes.
        TemporalUnavailableError: the server did not answer; may be retried.
    """
    conditions = (f"{name} IS NULL" for name in search_attributes.TYPES)
    try:
        await client.count_workflows(" AND ".join(conditions))
    except RPCError as error:
        match error.status:
            case RPCStatusCode.NOT_FOUND:
                detail = f"Temporal has no namespace {client.namespace!r}; create it, or set TEMPORAL_NAMESPACE"
            case RPCStatusCode.INVALID_ARGUMENT:
                detail = (
                    f"Temporal's namespace {client.namespace!r} lacks ccweb's search attributes ({error.message}); "
                    "create them as docs/reference/search-attributes.md says"
                )
            case RPCStatusCode.PERMISSION_DENIED | RPCStatusCode.UNAUTHENTICATED:
                detail = f"Temporal refuses ccweb: {reason(error)}; {_SET}"
            case _:
                raise TemporalUnavailableError(unreachable(error, config()["target_host"])) from None
        raise _settings_error(detail) from None


def unreachable(error: Exception, address: str) -> str:
    """One line for a person: what was tried, why it failed, what to do."""
    return f"Temporal at {address} cannot be reached: {reason(error)}; start it or set TEMPORAL_ADDRESS"


def reason(error: Exception) -> str:
    """Why a call to Temporal failed, in a few words."""
    causes = _CAUSE.findall(str(error))
    text = causes[-1] if causes else str(error)
    return " ".join(text.split())[:_LONGEST_REASON] or type(error).__name__


def _settings_error(detail: str) -> SettingsError:
    return SettingsError(ErrorCode.SETTINGS_INVALID, detail)
