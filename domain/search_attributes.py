"""Search attributes of ccweb's workflows (design section 3). Standard library only.

Defined once: start-up registers them from here, workflows and queries name them from here.
"""

STATE = "CcwebState"
REPO = "CcwebRepo"
RESOURCE = "CcwebResource"
AUTHOR = "CcwebAuthor"
SOURCE = "CcwebSource"
DELIVERIES = "CcwebDeliveries"
COST = "CcwebCost"

KEYWORDS = (STATE, REPO, RESOURCE, AUTHOR, SOURCE)
KEYWORD_LISTS = (DELIVERIES,)
DOUBLES = (COST,)

TYPES: dict[str, str] = {
    **dict.fromkeys(KEYWORDS, "Keyword"),
    **dict.fromkeys(KEYWORD_LISTS, "KeywordList"),
    **dict.fromkeys(DOUBLES, "Double"),
}
"""Name to type, as `temporal server start-dev --search-attribute NAME=TYPE` takes them."""

MAX_DELIVERIES = 20
_MAX_BYTES = 1_800
"""The server terminates a run whose KeywordList grows over 2,048 bytes."""


def deliveries(keys: list[str], aliases: list[str]) -> list[str]:
    """The value of DELIVERIES: deliveryKeys, oldest first, then the taskIds that all but the first would have made.

    So a task is found by the taskId of any of its deliveries. What would make the list too long is left out.
    """
    found: list[str] = []
    size = 0
    for one in [*keys[:MAX_DELIVERIES], *aliases[:MAX_DELIVERIES]]:
        size += len(one.encode()) + 8
        if size <= _MAX_BYTES:
            found.append(one)
    return found
