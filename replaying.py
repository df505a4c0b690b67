"""`ccweb replay`: does this code still lead a workflow where its history says it went?"""

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer

from domain.errors import CcwebError, ErrorCode
from operations import visibility
from worker import WORKFLOWS


async def replay(client: Client, workflow_id: str) -> str | None:
    """What broke, in one line; None when the history replays.

    Raises:
        CcwebError: `not_found`. `temporal_unavailable`; may be retried.
    """
    async with visibility.asking(60):
        try:
            history = await client.get_workflow_handle(workflow_id).fetch_history()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            raise CcwebError(ErrorCode.NOT_FOUND, f"no workflow {workflow_id[:100]!r}") from None
    replayer = Replayer(workflows=list(WORKFLOWS), data_converter=pydantic_data_converter)
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    failure = result.replay_failure
    return " ".join(f"{type(failure).__name__}: {failure}".split())[:500] if failure else None
