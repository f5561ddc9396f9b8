"""Are the events of a stream the same however its bytes are cut, and is nothing unbounded?"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.sources.event_stream import RETRY_MAX_MS, Event, EventParser, TooLong


def parse(*chunks: bytes) -> list[Event | TooLong]:
    parser = EventParser(line_max_bytes=64, event_max_bytes=128)
    return [event for chunk in chunks for event in parser.feed(chunk)]


def one_by_one(stream: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in stream]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_ends_a_line(line_end: bytes) -> None:
    stream = b"event: put|data: 1||event: patch|data:2||".replace(b"|", line_end)
    assert parse(stream) == parse(*one_by_one(stream)) == [Event("put", "1"), Event("patch", "2")]


def test_a_return_and_a_line_feed_in_two_chunks_are_one_line_end() -> None:
    assert parse(b"data: 1\r", b"\ndata: 2\r", b"", b"\n\r", b"\n") == [Event("message", "1\n2")]


def test_data_of_several_lines_is_joined_and_one_space_is_dropped() -> None:
    assert parse(b"data:  a\ndata\ndata:b\n\n") == [Event("message", " a\n\nb")]


def test_comments_unknown_fields_and_events_without_data_say_nothing() -> None:
    assert parse(b": hello\n\nevent: put\n\nnonsense: 1\n\n:\n\n") == []


def test_an_event_that_the_stream_did_not_finish_is_not_one() -> None:
    assert parse(b"event: put\ndata: 1\n") == []


def test_a_byte_order_mark_counts_only_at_the_beginning() -> None:
    mark = "\ufeff".encode()
    assert parse(mark + b"data: 1\n\n" + mark + b"data: 2\n\n") == [Event("message", "1")]
    assert parse(*one_by_one(mark + b"data: 1\n\n")) == [Event("message", "1")]


def test_characters_split_between_chunks_are_whole_and_bad_bytes_are_replaced() -> None:
    assert parse(*one_by_one("data: é€😀\n\n".encode())) == [Event("message", "é€😀")]
    assert parse(b"data: a\xffb\n\n") == [Event("message", "a\ufffdb")]


def test_retry_and_id_are_remembered_when_they_make_sense() -> None:
    parser = EventParser()
    parser.feed(b"retry: 1500\nid: 7\n")
    assert (parser.retry_ms, parser.last_id) == (1500, "7")
    parser.feed(b"retry: soon\nretry: -1\nid: a\0b\n")
    assert (parser.retry_ms, parser.last_id) == (1500, "7")
    parser.feed(b"retry: " + b"9" * 5000 + b"\nid\n")
    assert (parser.retry_ms, parser.last_id) == (RETRY_MAX_MS, "")


def test_an_event_with_a_line_beyond_the_bound_is_skipped_and_the_next_one_is_read() -> None:
    stream = b"event: put\ndata: " + b"x" * 100 + b"\ndata: y\n\ndata: 1\n\n"
    assert parse(stream) == parse(*one_by_one(stream)) == [TooLong(), Event("message", "1")]


def test_an_event_of_too_many_lines_is_skipped_and_the_next_one_is_read() -> None:
    stream = b"data: 0123456789\n" * 20 + b"\n" + b"data: 1\n\n"
    assert parse(stream) == parse(*one_by_one(stream)) == [TooLong(), Event("message", "1")]


pieces = st.sampled_from(
    [
        b"data: ",
        b"event: put",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b":",
        b"id: 1",
        b"retry: 5",
        "é😀\ufeff".encode(),
        b"x" * 30,
    ]
)
streams = st.lists(pieces | st.binary(max_size=5), max_size=40).map(b"".join)


@given(streams, st.lists(st.integers(0, 400), max_size=12))
def test_any_cut_of_any_bytes_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(edges)]
    assert parse(*chunks) == parse(stream) == parse(*one_by_one(stream))


@given(st.lists(st.binary(max_size=200), max_size=10))
def test_what_is_held_stays_within_the_bounds(chunks: list[bytes]) -> None:
    parser = EventParser(line_max_bytes=64, event_max_bytes=128)
    for chunk in chunks:
        parser.feed(chunk)
        assert len(parser._line) <= 64
        assert sum(len(line) + 1 for line in parser._data) <= 128
