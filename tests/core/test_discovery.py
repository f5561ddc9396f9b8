"""Is a discovery named the same way everywhere, and does its public name tell nothing about it?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, FromGap, Kind, fingerprint

keys = st.text(st.characters(exclude_categories=()), max_size=40)


@given(st.integers(0, 10**12), st.sampled_from(Lane))
def test_a_numbered_item_carries_its_id_and_lane(item_id: int, lane: Lane) -> None:
    discovery = Discovery.item(item_id, via=lane, origin=FromGap("me"))
    assert (discovery.kind, discovery.item_id, discovery.via) == (Kind.ITEM, item_id, lane)
    assert discovery.origin == FromGap("me")


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.ITEM])
def test_only_a_numbered_item_has_an_id(kind: Kind) -> None:
    with pytest.raises(AssertionError, match="has no item id"):
        _ = Discovery(kind, "7", Lane.LIVE).item_id


def test_the_newest_id_is_asked_for_in_the_live_lane() -> None:
    assert Discovery.newest().via is Lane.LIVE
    assert Discovery.newest().kind is Kind.NEWEST


@given(keys, keys)
def test_a_fingerprint_is_stable_short_and_tells_keys_apart(key: str, other: str) -> None:
    name = fingerprint("chats", key)
    assert name == fingerprint("chats", key)
    assert len(name) == 16
    assert set(name) <= set("0123456789abcdef")
    assert (name == fingerprint("chats", other)) == (key == other)


@given(keys)
def test_the_same_key_of_two_sources_has_two_names(key: str) -> None:
    assert fingerprint("chats", key) != fingerprint("mails", key)


def test_the_border_between_source_and_key_is_part_of_the_name() -> None:
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
