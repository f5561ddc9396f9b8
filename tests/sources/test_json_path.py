"""Is a place in a body found by a dotted path and by an expression alike, and refused where it cannot be read?"""

import pytest

from remora.core.errors import ConfigurationError
from remora.core.item import Item, Readable
from remora.operate.config.reader import read_source
from remora.sources.declaration import Declaration, ItemSettings, NewestSettings
from remora.sources.json_path import NOT_THERE, check_place, find, load, without_guard
from remora.sources.numbered import DeclaredReading
from remora.sources.rules import body_of

BODY = load(
    b'{"data":{"rows":[{"id":7,"tags":["a","b"]},{"id":8,"gone":true}],"next":null},"@odata.nextLink":"/n","a-b":1.5}'
)


@pytest.mark.parametrize(
    "path, found",
    [
        ("data.rows.0.id", 7),
        ("data.rows[0].id", 7),
        ("data.rows[-1].id", 8),
        ('"@odata.nextLink"', "/n"),
        ('"a-b"', find(BODY, "a-b")),
        ("data.rows[].id", [7, 8]),
        ("data.rows[?gone].id | [0]", 8),
        ("length(data.rows)", 2),
        ("data.next || data.rows[0].tags[1]", "b"),
        ("data.next", None),
        ("data[0]", NOT_THERE),
        ('data."next"', None),
        ('data."after"', NOT_THERE),
        ("data.rows[9].id", NOT_THERE),
        ("abs(data.rows)", NOT_THERE),
        (".", BODY),
    ],
)
def test_a_place_is_found_by_a_path_or_by_an_expression(path: str, found: object) -> None:
    check_place(path, "list.key")
    assert find(BODY, path) == found


@pytest.mark.parametrize("path", ["rows[", "length(", "a..b", "[?x==]", "'", "nothing(rows)"])
def test_a_place_that_cannot_be_read_is_refused_with_what_to_write(path: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_place(path, "list.key")
    assert refused.value.message.startswith("list.key is ")
    assert "data.rows.0.id" in refused.value.hint
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["entries", "key", "updated", "next_cursor", "total", "more"])
def test_every_place_of_a_list_is_checked_when_the_configuration_is_read(name: str) -> None:
    table = {"kind": "listed", "url": "http://127.0.0.1:9", "list": {name: "rows["}}
    with pytest.raises(ConfigurationError, match=r"list\." + name):
        read_source("chats", table)


@pytest.mark.parametrize(
    "guard",
    [b")]}'\n", b")]}',\n", b")]}", b"for(;;);", b"for (;;); ", b"while(1);", b"\xef\xbb\xbf)]}'\n", b"throw 1;"],
)
def test_a_prefix_against_hijacking_is_no_part_of_the_json(guard: bytes) -> None:
    assert without_guard(guard + b'{"id": 1}') == b'{"id": 1}'
    assert load(guard + b"[1]") == [1]
    assert body_of(guard + b'{"error": "busy"}') == {"error": "busy"}
    item = DeclaredReading(Declaration(item=ItemSettings("/{id}"), newest=NewestSettings("/n"))).item(7, guard + b"{}")
    assert isinstance(item, Readable)
    assert isinstance(item.thing, Item)
    assert item.thing.body == b"{}"


@pytest.mark.parametrize("body", [b'{"id": 1}', b")]}'\n<html>", b"while(1);", b'"for(;;);[1]"', b"[1]"])
def test_a_body_without_such_a_prefix_stays_as_it_is(body: bytes) -> None:
    assert without_guard(body) is body
