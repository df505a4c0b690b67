"""Mentions beyond Gitea's table: CJK, nesting, raw HTML, and the bounds."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import mentions
from domain.mentions import HEAD, TAIL, is_mentioned, without_leading_mention

BOT = "ccweb-bot"


@pytest.mark.parametrize(
    "text",
    [
        "@ccweb-bot，请修复",
        "请@ccweb-bot。",
        "（@ccweb-bot）请看",
        "@ccweb-bot：请看",
        "@ccweb-bot\u3000请看",
        "麻烦@ccweb-bot、@bob 看一下",
        "@ccweb-bot,请修复",
        "@ccweb-botをお願いします",
        "@ccweb-bot님 확인",
        "@ccweb-bot「これ」を直して",
        "> quoted\nlazy\n\n@ccweb-bot please",
        "```\ncode\n```\n@ccweb-bot please",
        "`code` @ccweb-bot",
        "text<br>@ccweb-bot please",
        "<details>\n\n@ccweb-bot please\n\n</details>",
        '<a name="top"></a>\n\n@ccweb-bot please',
        "1. one\n   - @ccweb-bot two",
        "see https://example.test/a then @ccweb-bot",
        "**bold**\r\n@ccweb-bot\r\n",
    ],
)
def test_it_counts(text: str) -> None:
    assert is_mentioned(text, BOT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no bot",
        "「@ccweb-bot」という名前",
        "＂@ccweb-bot＂",
        "@ccweb-bot／team",
        "@ccweb-bot**2** please",
        "foo**@ccweb-bot** please",
        "> quoted\n@ccweb-bot in a lazy line of the quote",
        "> > @ccweb-bot",
        "- > @ccweb-bot",
        "> - @ccweb-bot",
        "<blockquote>\n\n@ccweb-bot please\n\n</blockquote>",
        "<pre>\n@ccweb-bot\n\n@ccweb-bot\n</pre>",
        "say <code>@ccweb-bot</code> or <kbd>@ccweb-bot</kbd>",
        'see <a href="x">@ccweb-bot</a>',
        "a <!-- @ccweb-bot --> b",
        "<!--\n\n@ccweb-bot\n\n-->",
        "![@ccweb-bot](x.png)",
        "[@ccweb-bot]\n\n[@ccweb-bot]: http://example.test",
        "[a](http://example.test '@ccweb-bot')",
        "<http://example.test/(@ccweb-bot)>",
        "http://example.test/?q=(@ccweb-bot)",
        "``@ccweb-bot ` @ccweb-bot``",
        "~~~~\n~~~\n@ccweb-bot\n~~~~",
        "    @ccweb-bot",
        "\t@ccweb-bot",
        "> ```\n> @ccweb-bot\n> ```",
        "@ccweb\u200b-bot",
    ],
)
def test_it_does_not_count(text: str) -> None:
    assert not is_mentioned(text, BOT)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("@ccweb-bot please", "please"),
        ("  @CCWEB-BOT, please\r\nand more", "please\nand more"),
        ("@ccweb-bot，请修复", "请修复"),
        ("@ccweb-bot修复", "修复"),
        ("@ccweb-bot's turn", "@ccweb-bot's turn"),
        ("@ccweb-bot", "@ccweb-bot"),
        ("@ccweb-bot2 @ccweb-bot", "@ccweb-bot2 @ccweb-bot"),
        ("ask @ccweb-bot", "ask @ccweb-bot"),
    ],
)
def test_only_a_leading_mention_is_trimmed(text: str, rest: str) -> None:
    assert without_leading_mention(text, BOT) == rest


def test_the_ends_of_a_long_text_are_read() -> None:
    log = "0123456789 a line of a log\n" * 200_000
    assert is_mentioned(f"@ccweb-bot read this\n{log}", BOT)
    assert is_mentioned(f"{log}\n@ccweb-bot read this", BOT)
    assert is_mentioned(f"```\n{log}```\n\n@ccweb-bot read this", BOT)
    assert not is_mentioned(f"```\n{log}\n@ccweb-bot read this\n```", BOT)
    assert not is_mentioned(f"<!--\n{log}\n@ccweb-bot read this\n-->", BOT)


def test_the_end_of_a_long_paragraph_is_read_with_its_surroundings() -> None:
    words = "word " * 12_000
    assert len(words) < HEAD + TAIL
    assert is_mentioned(f"{words} @ccweb-bot", BOT)
    assert not is_mentioned(f"{words} `@ccweb-bot`", BOT)


HOSTILE = {
    "brackets": "[",
    "links": "[a](",
    "images": "![",
    "ticks": "`a``b",
    "stars": "*a **b ",
    "tags": "<a ",
    "comments": "<!-- ",
    "quotes": "> ",
    "nested lists": "- a\n  ",
    "lists": "* a\n",
    "tables": "|a|b|\n|-|-|\n",
    "references": "[a]: b\n",
    "mentions": "x@ccweb-bot ",
    "quoted mentions": "> @ccweb-bot\n",
    "open fences": "```\n",
    "blanks": " ",
    "line feeds": "\n",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_text_takes_long(unit: str) -> None:
    hostile = unit * (5_000_000 // len(unit))
    mixed = (unit * 50 + " x@ccweb-bot ") * 10_000
    started = time.process_time()
    is_mentioned("x@ccweb-bot " + hostile + " x@ccweb-bot", BOT)
    is_mentioned(mixed, BOT)
    assert time.process_time() - started < 4


@given(st.text(alphabet="@ccweb-bot 1.,!?;'()-请，。é w_:", max_size=60))
def test_a_plain_line_is_judged_as_the_parser_would(text: str) -> None:
    plain = text.replace("\r", "")
    parsed = mentions._mentioned_in(plain, *mentions._patterns("ccweb-bot"))
    assert is_mentioned(plain, "ccweb-bot") == parsed


@given(st.text(alphabet="@ccweb-bot `*_[]()<>!\n>-~|\\&#64; 请，\r\t\u00e9'\"", max_size=200))
def test_any_text_has_an_answer(text: str) -> None:
    is_mentioned(f"{text}@ccweb-bot{text}", BOT)
    without_leading_mention(text, BOT)
