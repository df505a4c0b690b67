"""How every process reaches Temporal: `temporal.toml` and `TEMPORAL_*`, read by the SDK (design section 2)."""

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig

import telemetry


async def connect(service: str, *, lazy: bool = False) -> Client:
    """A client with the one data converter of ccweb; with `lazy` it connects at its first call.

    Raises:
        RuntimeError: the server cannot be reached (not when lazy); may be retried.
    """
    config = ClientConfig.load_client_connect_config()
    config.setdefault("target_host", "127.0.0.1:7233")
    return await Client.connect(
        **config, data_converter=pydantic_data_converter, plugins=telemetry.configure_tracing(service), lazy=lazy
    )
