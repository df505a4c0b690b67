"""Is a login mentioned in a text? Agrees with Gitea but for quotes and CJK text (design section 8).

The text is read by a real Markdown parser. Code, HTML comments, raw HTML blocks, the texts and addresses of
links, and quotes do not count: a quote repeats what somebody asked before. CJK text and punctuation may be
glued to the mention (`@ccweb-bot，请…`), which Gitea does not allow.

Bounds: of a long text the first `HEAD` and the last `TAIL` characters are looked at, of a long paragraph the
surroundings of each candidate, and only so many of these: no text takes longer than about a second.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

HEAD = 64_000
TAIL = 16_000
_WINDOW = 1_000
"""Characters of a paragraph on each side of a candidate that its markup is judged by."""
_MAX_WINDOWS = 40
"""Candidates that are judged at all: the parser takes quadratic time on some texts."""

# Letters, digits and punctuation of CJK scripts, but for what would make another name or sign of the mention
# (full-width letters, `＠`, `／`, `－`, `．`, `＿`) and for quotation marks, which have classes of their own.
_CJK = (
    "\u2e80-\u2fdf\u3000-\u300b\u3010-\u301c\u3020-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\u1100-\u11ff\uac00-\ud7af\uff01\uff03-\uff06\uff08-\uff0c\uff1a-\uff1f\uff3b\uff3d\uff5b-\uff9f"
    "\U00020000-\U000323af"
)
_OPENING, _CLOSING = "\u300c\u300e\u301d", "\u300d\u300f\u301e\u301f"
_BEFORE = rf"(?:\A|(?<=[\s(\[{_CJK}{_CLOSING}]))"
_AFTER = rf"(?=\Z|['\s)\]{_CJK}{_OPENING}]|[:,;.?!](?:\Z|[\s{_CJK}{_OPENING}]))"

_ADDRESS = re.compile(r"(?:https?://|www\.)[!-~]+", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = re.compile(r"<(/?)(a|blockquote|code|kbd|pre|q|samp|script|style|textarea)\b([^<>]*)", re.IGNORECASE)
_BREAK = re.compile(r"<br\b", re.IGNORECASE)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)", re.MULTILINE)
_PLAIN = re.compile(r"(?! |.*(?:www\.|_|  ))[\w @.,!?;'()，。！？、-]+", re.IGNORECASE)
"""A line of words and their punctuation, as most comments are: nothing in it can be markup."""
_HIDDEN = "\ufffc"
"""Stands where something does not count: it is neither a blank nor part of a name."""

_BLOCKS = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable(["inline", "text_join"])
_INLINE = MarkdownIt("commonmark").enable("strikethrough").inline


def is_mentioned(text: str, login: str) -> bool:
    """Whether `text` speaks to `login`; names do not depend on case."""
    pattern, candidate = _patterns(login)
    if candidate.search(text) is None:
        return False
    if len(text) <= _WINDOW and _PLAIN.fullmatch(text):
        return pattern.search(text) is not None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return any(_mentioned_in(part, pattern, candidate) for part in _parts(text) if candidate.search(part))


def without_leading_mention(text: str, login: str) -> str:
    """The text as it was written, but for the mention it begins with and the blanks around it.

    Mentions elsewhere stay, since the sentences around them would not read without. A text that is nothing
    but a mention comes back whole.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    found = _patterns(login)[0].match(text)
    if found is None or text[found.end() : found.end() + 1] in {"'", ")", "]"}:
        return text
    return text[found.end() :].lstrip(" \t\n\u3000,:;.!，：；。！、") or text


@lru_cache(maxsize=16)
def _patterns(login: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The mention within its surroundings, and the bare words that a text must have to be looked at."""
    name = "@" + re.escape(login)
    return re.compile(_BEFORE + name + _AFTER, re.IGNORECASE | re.ASCII), re.compile(name, re.IGNORECASE | re.ASCII)


def _parts(text: str) -> Iterator[str]:
    if len(text) <= HEAD + TAIL:
        yield text
        return
    yield text[:HEAD]
    start = text.find("\n", len(text) - TAIL) + 1
    if start:
        yield _opened_before(text, start) + text[start:]


def _opened_before(text: str, position: int) -> str:
    """What opens the HTML comment or the fence that still runs at `position`; empty when none does."""
    if text.rfind("<!--", 0, position) > text.rfind("-->", 0, position):
        return "<!--\n"
    fence = ""
    for line in _FENCE.finditer(text, 0, position):
        marks, rest = line.groups()
        if not fence:
            fence = marks
        elif marks.startswith(fence) and not rest.strip():
            fence = ""
    return fence and f"{fence}\n"


def _mentioned_in(text: str, pattern: re.Pattern[str], candidate: re.Pattern[str]) -> bool:
    references: dict[str, Any] = {}
    paragraphs = _paragraphs(_BLOCKS.parse(text, references))
    windows = (window for content in paragraphs for window in _windows(content, candidate))
    return any(pattern.search(_visible(window, references)) for window in islice(windows, _MAX_WINDOWS))


def _paragraphs(tokens: list[Token]) -> Iterator[str]:
    """The raw texts that may speak: paragraphs, headings and cells outside of quotes and hiding HTML."""
    quotes, html = 0, _OpenTags()
    for token in tokens:
        if token.type == "html_block":
            html.read(token.content)
        elif token.type in {"blockquote_open", "blockquote_close"}:
            quotes += token.nesting
        elif token.type == "inline" and not quotes and not html.hiding:
            yield token.content


def _windows(content: str, candidate: re.Pattern[str]) -> Iterator[str]:
    """The text around each candidate, short texts whole; a candidate within a former window gets none."""
    end = 0
    for found in candidate.finditer(content):
        if end == len(content) or found.end() + _WINDOW // 2 <= end:
            continue
        start = max(0, found.start() - _WINDOW)
        end = min(len(content), found.end() + _WINDOW)
        # A cut edge must not look like the edge of the text.
        yield (_HIDDEN if start else "") + content[start:end] + (_HIDDEN if end < len(content) else "")


def _visible(content: str, references: dict[str, Any]) -> str:
    """The words of an inline text as a reader sees them, with what does not count replaced by `_HIDDEN`."""
    tokens: list[Token] = []
    _INLINE.parse(content, _BLOCKS, references, tokens)
    links, html, words = 0, _OpenTags(), []
    for token in tokens:
        if token.type in {"link_open", "link_close"}:
            links += token.nesting
        elif token.type == "html_inline":
            html.read(token.content)
            words.append("\n" if _BREAK.match(token.content) else "")
        else:
            words.append(_HIDDEN if links or html.hiding else _words(token))
    return _ADDRESS.sub(_HIDDEN, "".join(words))


def _words(token: Token) -> str:
    if token.type in {"softbreak", "hardbreak"}:
        return "\n"
    if token.type == "text":
        return token.content
    if token.type == "text_special":  # An escaped or encoded at sign was meant not to call anybody.
        return token.content.replace("@", _HIDDEN)
    return _HIDDEN if token.type in {"code_inline", "image"} else ""


class _OpenTags:
    """Which raw HTML elements that hide their content are open."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @property
    def hiding(self) -> bool:
        return any(count > 0 for count in self._open.values())

    def read(self, html: str) -> None:
        for closing, name, rest in _TAG.findall(_COMMENT.sub("", html)):
            tag = name.lower()
            if closing:
                self._open[tag] = max(0, self._open[tag] - 1)
            elif tag != "a" or "href" in rest.lower():
                self._open[tag] += 1
