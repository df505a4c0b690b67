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
"""The server terminates a run whose KeywordList grows over 2,048 bytes."""
