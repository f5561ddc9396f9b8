"""How much may one page hold? A bounded number of entries and values, counted before anything is built."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from remora.core.item import Readable, WrongShape
from remora.sources.json_path import holds_more_than, load
from remora.sources.listed import PAGE_ENTRIES_MAX
from tests.sources.replies import replied
from tests.sources.test_listed import document, page_at, source

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a,[{"\\', max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(',{"', max_size=3), inner, max_size=5),
    max_leaves=30,
)


def listing(count: int, **more: object) -> bytes:
    return json.dumps({"items": [{"id": number, **more} for number in range(count)]}).encode()


def count_of(value: object) -> int:
    match value:
        case dict():
            return 1 + sum(map(count_of, value.values()))
        case list():
            return 1 + sum(map(count_of, value))
        case _:
            return 1


@given(TREES)
def test_no_body_with_more_values_than_the_bound_is_let_through(tree: object) -> None:
    body, count = json.dumps(tree).encode(), count_of(tree)
    assert holds_more_than(body, count - 1) or count == 1
    assert not holds_more_than(body, count + sum(body.count(mark) for mark in (b"[", b"{")))


def test_marks_inside_texts_are_no_values() -> None:
    assert not holds_more_than(json.dumps({"text": ',[{\\"' * 10_000}).encode(), 10)


def test_a_text_that_never_ends_is_counted_without_going_astray() -> None:
    body = b'{"text": "' + b"," * 100_000
    assert holds_more_than(body, 10)
    with pytest.raises(ValueError, match="Unterminated"):
        load(body)


def test_a_page_of_as_many_entries_as_allowed_is_read() -> None:
    decoded = source().decode(page_at(""), replied(listing(PAGE_ENTRIES_MAX)))
    assert isinstance(decoded, Readable)


def test_a_page_of_one_entry_more_is_refused_and_says_why() -> None:
    with capture_logs() as logs:
        decoded = source().decode(page_at(""), replied(listing(PAGE_ENTRIES_MAX + 1)))
    assert isinstance(decoded, WrongShape)
    assert "10,001 entries on one page" in decoded.why
    assert [(event["event"], event["hint"]) for event in logs] == [("page_too_large", "write a smaller list.page_size")]


@pytest.mark.slow
def test_a_page_of_700_000_entries_is_refused_before_it_is_built() -> None:
    body = listing(700_000)
    reader, reply = source(), replied(body)
    tracemalloc.start()
    decoded = reader.decode(page_at(""), reply)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(decoded, WrongShape)
    assert "values on one page" in decoded.why
    assert peak < 1 << 20  # the body has 12 MB, its values would have 200


@pytest.mark.slow
def test_a_document_may_hold_more_than_a_page() -> None:
    body = json.dumps({"points": [0] * 600_000}).encode()
    assert isinstance(source().decode(document("one"), replied(body)), Readable)
