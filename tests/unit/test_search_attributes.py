"""The one list that the server does not forgive."""

from hypothesis import given
from hypothesis import strategies as st

from domain import ids, search_attributes

DELIVERY = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=200)


@given(st.lists(DELIVERY, min_size=1, max_size=60, unique=True))
def test_the_list_of_deliveries_never_reaches_the_servers_limit(deliveries: list[str]) -> None:
    keys = [ids.delivery_key(one) for one in deliveries]
    value = search_attributes.deliveries(keys, [ids.task_id(key) for key in keys[1:]])
    assert value[0] == keys[0]
    assert len(str(value).encode()) < 2_048


def test_usual_deliveries_are_kept_with_their_aliases() -> None:
    keys = [ids.delivery_key(f"{n:08d}-d1f3-4a21-9c5e-3b6d0a7e8f90") for n in range(30)]
    aliases = [ids.task_id(key) for key in keys[1:]]
    value = search_attributes.deliveries(keys, aliases)
    assert value[:20] == keys[:20]
    assert value[20:36] == aliases[:16]
