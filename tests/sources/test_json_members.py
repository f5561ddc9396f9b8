"""Are the entries of a page found byte for byte where a provider does not write strict JSON? One odd text spoils no page."""

import json
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.contracts import Transport
from remora.core.item import Page, Readable
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.sources.json_members import listed_values, named_values
from remora.sources.json_path import load, raw_lines
from remora.sources.listed import DetailSettings, Listed, ListedSettings
from remora.sources.paging import ListSettings
from tests.sources.replies import replied

ODD = {
    "half of a surrogate pair": rb'{"id": "1", "title": "cut \ud83d"}',
    "half of a pair in a name": rb'{"id": "1", "\ud83d": 1}',
    "a line break in a text": b'{"id": "1", "title": "a\nb"}',
    "a bracket in a text": rb'{"id": "1", "title": "]}\", \\", "cut": "\udc00"}',
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_entry_that_is_not_strictly_json_is_kept_byte_for_byte_with_its_neighbours(odd: bytes) -> None:
    body = b'{"data": [0, {"rows": [ ' + odd + b' , {"id":"2"}, 3 ]}], "more": {}}'
    load(body)
    assert raw_lines(body, "data.1.rows") == [odd, b'{"id":"2"}', b"3"]
    assert raw_lines(body, "data.1.other") == raw_lines(body, "data.7.rows") == raw_lines(body, "more") == []


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_list_that_holds_the_documents_is_read_although_one_of_them_is_odd(odd: bytes) -> None:
    settings = ListedSettings("http://sim", ListSettings(updated=""), DetailSettings(inline=True))
    source = Listed(cast("Transport", None), settings, name="notes")
    page = source.decode(Discovery(Kind.PAGE, "", Lane.WALK), replied(b'{"items":[' + odd + b',{"id":"2"}]}'))
    assert isinstance(page, Readable)
    assert isinstance(page.thing, Page)
    assert [(entry.key, entry.body) for entry in page.thing.entries] == [("1", odd), ("2", b'{"id":"2"}')]


@pytest.mark.slow
@given(st.lists(JSON), st.sampled_from([None, 1]))
def test_the_lines_of_strict_json_are_the_same_as_a_strict_reader_finds(lines: list[Any], indent: int | None) -> None:
    body = json.dumps(lines, indent=indent).encode()
    assert listed_values(body) == [bytes(line) for line in msgspec.json.decode(body, type=list[msgspec.Raw])]


@pytest.mark.slow
@given(st.dictionaries(st.text(), JSON))
def test_the_values_of_strict_json_are_the_same_as_a_strict_reader_finds(values: dict[str, Any]) -> None:
    body = json.dumps(values, ensure_ascii=False).encode()
    strict = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    assert named_values(body) == {name: bytes(value) for name, value in strict.items()}
