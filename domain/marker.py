"""The hidden marker that ties a comment in Gitea to its task (design section 9). Standard library only.

Every comment ccweb writes ends with one HTML comment on a line of its own. Only the bot's own comments are
ever read for markers; text from the agent is stripped of anything that looks like one before we stamp ours.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_MARKER = re.compile(r"^<!-- ccweb((?: [A-Za-z]+=[A-Za-z0-9_.:/@+-]+)+) -->$")
_ANYTHING_LIKE = re.compile(r"<!--\s*ccweb\b.*?(?:-->|\Z)", re.DOTALL | re.IGNORECASE)
REPLY_KINDS = frozenset({"final", "question", "rest_fallback"})


@dataclass(frozen=True, slots=True)
class ReplyMarker:
    """Marks the answer or the question of one round."""

    kind: str
    task_id: str
    turn_id: str
    round: int
    source: str

    def __str__(self) -> str:
        return (
            f"<!-- ccweb kind={self.kind} taskId={self.task_id} turnId={self.turn_id} "
            f"round={self.round} source={self.source} -->"
        )


@dataclass(frozen=True, slots=True)
class ReceiptMarker:
    """Marks a start receipt or the receipt of an abnormal end."""

    comment_key: str
    source: str

    def __str__(self) -> str:
        return f"<!-- ccweb commentKey={self.comment_key} source={self.source} -->"


Marker = ReplyMarker | ReceiptMarker


def strip(body: str) -> str:
    """Removes everything marker-like, also an unfinished one, and trailing blanks."""
    while (cleaned := _ANYTHING_LIKE.sub("", body)) != body:
        body = cleaned
    return body.rstrip()


def stamp(body: str, marker: Marker) -> str:
    """The body with `marker` as its last line, after removing anything marker-like from it."""
    return f"{strip(body)}\n\n{marker}"


def parse(body: str) -> Marker | None:
    """The marker on the last line of a comment, if it is a complete one."""
    lines = body.replace("\r\n", "\n").rstrip().rsplit("\n", 1)
    found = _MARKER.match(lines[-1])
    if found is None:
        return None
    fields = dict(pair.split("=", 1) for pair in found[1].split())
    return _receipt(fields) or _reply(fields)


def _receipt(fields: Mapping[str, str]) -> ReceiptMarker | None:
    if fields.keys() != {"commentKey", "source"}:
        return None
    return ReceiptMarker(fields["commentKey"], fields["source"])


def _reply(fields: Mapping[str, str]) -> ReplyMarker | None:
    if fields.keys() != {"kind", "taskId", "turnId", "round", "source"}:
        return None
    if fields["kind"] not in REPLY_KINDS or not fields["round"].isdecimal():
        return None
    return ReplyMarker(fields["kind"], fields["taskId"], fields["turnId"], int(fields["round"]), fields["source"])
