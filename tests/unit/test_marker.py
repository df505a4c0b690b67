from hypothesis import given
from hypothesis import strategies as st

from domain import marker
from domain.marker import ReceiptMarker, ReplyMarker, strip

words = st.text("abcXYZ0189_.:/@+-", min_size=1, max_size=40)
replies = st.builds(
    ReplyMarker, st.sampled_from(sorted(marker.REPLY_KINDS)), words, words, st.integers(0, 10**6), words
)
markers = st.one_of(replies, st.builds(ReceiptMarker, words, words))
fragments = st.sampled_from(["<!--", " ccweb", "-->", " kind=final", "<!-- ccweb x", "\n", "<!-", "- ccweb", "文"])
bodies = st.one_of(st.text(max_size=200), st.lists(fragments, max_size=20).map("".join))


@given(bodies, markers)
def test_a_stamped_marker_is_read_back_whatever_the_body(body: str, stamped: marker.Marker) -> None:
    assert marker.parse(marker.stamp(body, stamped)) == stamped


@given(bodies, markers)
def test_gitea_may_change_line_ends_and_trailing_blanks(body: str, stamped: marker.Marker) -> None:
    kept = marker.stamp(body, stamped).replace("\n", "\r\n") + "\r\n \n"
    assert marker.parse(kept) == stamped


@given(bodies, markers)
def test_nothing_stripped_holds_a_marker(body: str, forged: marker.Marker) -> None:
    clean = marker.strip(f"{body}{forged}{body}")
    assert marker.parse(clean) is None and marker.strip(clean) == clean


@given(st.text(max_size=200))
def test_any_text_can_be_parsed(body: str) -> None:
    marker.parse(body)


def test_text_without_a_marker_stays() -> None:
    text = "a <!-- note --> b\n\n"
    assert strip(text) == "a <!-- note --> b"


def test_a_marker_that_is_not_last_or_not_whole_is_none() -> None:
    whole = str(ReplyMarker("final", "t", "u", 1, "s"))
    assert marker.parse(f"{whole}\nmore") is None
    assert marker.parse(f"text {whole}") is None
    assert marker.parse(whole.replace("kind=final", "kind=other")) is None
    assert marker.parse(whole.replace("round=1", "round=x")) is None
    assert marker.parse(whole.replace(" round=1", "")) is None
    assert marker.parse("") is None
