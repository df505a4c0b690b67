"""The heads of the audit archive that Temporal remembers: told by each export, out of the archive's reach."""

from temporalio.client import Client

from domain.errors import CcwebError, ErrorCode
from operations import visibility

_MAX_EXPORTS = 2_000


async def exported_heads(client: Client) -> dict[int, str]:
    """Seq to hash, of the exports within retention.

    Raises:
        CcwebError: `temporal_unavailable`; may be retried.
    """
    async with visibility.asking():
        query = 'WorkflowType="AuditExport" AND ExecutionStatus="Completed"'
        runs = await visibility.runs(client, query, _MAX_EXPORTS)
    found = {run.memo.get("seq"): run.memo.get("head") for run in runs}
    return {seq: head for seq, head in found.items() if isinstance(seq, int) and isinstance(head, str) and seq}


def parse_head(text: str | None) -> dict[int, str]:
    """`SEQ:HASH` as an export printed it; raises CcwebError `invalid_request`."""
    if text is None:
        return {}
    seq, _, head = text.partition(":")
    if not seq.isdecimal() or len(head) != 64:
        raise CcwebError(ErrorCode.INVALID_REQUEST, "--head: must be SEQ:HASH")
    return {int(seq): head}
