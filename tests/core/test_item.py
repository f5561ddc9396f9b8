"""Are the things a source gives back plain, unchanging values?"""

import msgspec
import pytest

from remora.core.item import Document, Entry, Item, Newest, Nothing, Page, Readable, Unreadable, User, WrongShape

VALUES = [
    Item(item_id=1, body=b"{}"),
    User(name="pg", body=b"{}"),
    Document(key="a", body=b"{}"),
    Newest(item_id=9),
    Entry(key="a", updated_at=None),
    Page(entries=(), next_position=None),
    Readable(Newest(9)),
    Nothing(),
    Unreadable("cut off"),
    WrongShape("a list"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_thing_cannot_be_changed_after_it_was_read(value: msgspec.Struct) -> None:
    for field in msgspec.structs.fields(value):
        with pytest.raises(AttributeError):
            setattr(value, field.name, None)
    assert hash(value) == hash(value)


def test_an_item_that_says_nothing_about_itself_claims_nothing() -> None:
    stub = Item(item_id=1, body=b'{"id":1,"type":"story"}')
    unknown = (stub.type, stub.by, stub.time, stub.parent, stub.score, stub.descendants, stub.title, stub.url)
    assert unknown == (None,) * 8
    assert not (stub.dead)
    assert not (stub.deleted)
    assert not (stub.delayed)
    assert not (stub.anomalies)


def test_the_body_is_kept_as_it_came() -> None:
    body = b'{"id":1,"odd":"\xff\x00"}'
    assert Item(item_id=1, body=body).body is body
