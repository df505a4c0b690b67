"""How a command asks Temporal: one client, one question, then the process ends."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from operations import terminal

if TYPE_CHECKING:
    from temporalio.client import Client

    from settings import Settings

T = TypeVar("T")
ENV_FILE = Path(__file__).parent.parent / ".env"


def ask(question: "Callable[[Client, Settings], Coroutine[Any, Any, T]]") -> T:
    """The answer to one question.

    Raises:
        CcwebError: whatever the question raises.
    """

    async def answer() -> T:
        from connection import connect  # noqa: PLC0415

        settings = read_settings()
        return await question(await connect("ccweb-cli", lazy=True), settings)

    terminal.asked_temporal = True
    return asyncio.run(answer())


def read_settings() -> "Settings":
    """The settings, `.env` included."""
    from dotenv import load_dotenv  # noqa: PLC0415

    from settings import load_settings  # noqa: PLC0415

    load_dotenv(ENV_FILE)
    return load_settings()
