"""What does each event of the change stream mean? The whole grammar, and everything that is not in it."""

import json
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.contracts import (
    Announced,
    Announcement,
    AuthRevoked,
    Cancelled,
    Ignored,
    KeepAlive,
    NewestAnnounced,
    StreamPart,
    Unread,
)
from remora.sources.event_stream import LINE_MAX_BYTES, Event, announcements
from remora.sources.firebase import interpret


def change(path: object, data: object, name: str = "put") -> Announcement:
    return interpret(Event(name, json.dumps({"path": path, "data": data})))


@pytest.mark.parametrize("name", ["put", "patch"])
@pytest.mark.parametrize(
    "path, data, signal",
    [
        ("/", {"items": [3, 1, 3], "profiles": ["ann", "bob"]}, Announced((3, 1), ("ann", "bob"))),
        ("/", {"items": [3]}, Announced((3,))),
        ("/items", [3, 1], Announced((3, 1))),
        ("/items/4", 8, Announced((8,))),
        ("/items/", [8], Announced((8,))),
        ("/profiles", ["ann"], Announced((), ("ann",))),
        ("/profiles/0", "ann", Announced((), ("ann",))),
        ("/items", {"0": 5, "12": 6}, Announced((5, 6))),
        ("/", {"items": {"0": 5}, "profiles": {"3": "ann"}}, Announced((5,), ("ann",))),
        ("/", {"items/3": 9, "/profiles/0": "ann"}, Announced((9,), ("ann",))),
        ("/items", [None, 5, None], Announced((5,))),
        ("/items/4", None, Ignored("removed")),
        ("/", None, Ignored("removed")),
        ("/", {"items": [None]}, Ignored("empty")),
        ("/", {}, Ignored("empty")),
        ("/", 42, NewestAnnounced(42)),
        ("", 42, NewestAnnounced(42)),
        ("/", True, Ignored("not_an_id")),
        ("/", -1, Ignored("not_an_id")),
        ("/", [1], Ignored("not_an_id")),
        ("/elsewhere", [1], Announced(dropped=1)),
        ("/items/1/2", 5, Announced(dropped=1)),
        ("/", {"items": [1], "surprise": [2]}, Announced((1,), dropped=1)),
        (7, [1], Unread("no_path")),
    ],
)
def test_a_change_announces_what_stands_at_its_path(
    path: object, data: object, signal: Announcement, name: str
) -> None:
    assert change(path, data, name) == signal


def test_junk_among_the_ids_is_dropped_and_counted() -> None:
    junk = [0, -5, "7", True, 1.5, 2**53 + 1, 10**400, [1], {"a": 1}]
    assert change("/items", [1, *junk, 2**53]) == Announced((1, 2**53), dropped=len(junk))


def test_junk_among_the_names_is_dropped_and_counted() -> None:
    junk = ["", "x" * 101, "a\0b", "\ud800", 5, ["ann"]]
    assert change("/profiles", ["ann", *junk]) == Announced((), ("ann",), dropped=len(junk))


def test_a_flood_of_ids_loses_none_of_them() -> None:
    flood = list(range(40_000_000, 40_050_000))
    assert change("/items", flood) == Announced(tuple(flood))


@pytest.mark.parametrize(
    "event, signal",
    [
        (Event("keep-alive", "null"), KeepAlive()),
        (Event("cancel", "null"), Cancelled()),
        (Event("auth_revoked", "credential is no longer valid"), AuthRevoked()),
        (Event("message", "{}"), Ignored("unknown_event")),
        (Event("rules_debug", "{}"), Ignored("unknown_event")),
        (Event("put", "null"), Unread("no_path")),
        (Event("put", '{"path":"/items"}'), Unread("no_path")),
        (Event("put", '{"path":"/'), Unread("not_json")),
        (Event("put", ""), Unread("not_json")),
        (Event("put", "[" * 100_000), Unread("not_json")),
    ],
)
def test_every_other_event_has_its_meaning(event: Event, signal: Announcement) -> None:
    assert interpret(event) == signal


async def in_chunks(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_every_read_is_a_part_and_proves_that_the_stream_is_alive() -> None:
    stream = in_chunks(b"event: put\ndata: {", b'"path":"/","data":7}\n\n', b": comment\n")
    parts = [part async for part in announcements(stream, interpret)]
    assert parts == [StreamPart(), StreamPart((NewestAnnounced(7),)), StreamPart()]


async def test_an_event_that_is_too_long_to_read_is_announced_as_unread() -> None:
    stream = in_chunks(b"data: " + b"x" * (LINE_MAX_BYTES + 1) + b"\n\n")
    assert [part async for part in announcements(stream, interpret)] == [StreamPart((Unread(),))]


async def test_a_wait_that_the_provider_asks_for_goes_with_the_part() -> None:
    parts = [part async for part in announcements(in_chunks(b"retry: 1500\n\n"), interpret)]
    assert parts == [StreamPart(reconnect_after_ns=1_500_000_000)]


async def test_closing_what_is_announced_closes_the_stream() -> None:
    closed: list[bool] = []

    async def stream() -> AsyncIterator[bytes]:
        try:
            yield b": one\n"
            yield b": two\n"
        finally:
            closed.append(True)

    parts = announcements(stream(), interpret)
    await anext(parts)
    await parts.aclose()
    assert closed == [True]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["items", "profiles", "items/3", "", "/", "0", "path", "data"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@given(st.sampled_from(["put", "patch", "cancel", "x"]), st.text(max_size=40) | json_values.map(json.dumps))
def test_no_event_raises(name: str, data: str) -> None:
    announced = interpret(Event(name, data))
    assert isinstance(announced, Announcement)


@given(st.sampled_from(["/", "/items", "/items/3", "/profiles", "/x"]), json_values)
def test_whatever_is_announced_can_be_asked_for(path: str, data: object) -> None:
    signal = change(path, data)
    if isinstance(signal, Announced):
        assert all(type(item_id) is int and 0 < item_id <= 2**53 for item_id in signal.item_ids)
        assert all(name and name.isprintable() for name in signal.profiles)
        assert len(set(signal.item_ids)) == len(signal.item_ids)
