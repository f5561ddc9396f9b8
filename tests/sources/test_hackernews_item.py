"""Is every shape of a Hacker News item read, odd ones included? And is nothing but content called content?"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.item import Item, Nothing, Readable, Unreadable, WrongShape
from remora.sources.hackernews_item import decode_item

COMMENT = {
    "by": "ann",
    "id": 7,
    "kids": [9, 8],
    "parent": 3,
    "text": "Hi <p>there",
    "time": 1_700_000_000,
    "type": "comment",
}
STORY = {
    "by": "bob",
    "descendants": 0,
    "id": 7,
    "score": 12,
    "time": 1_700_000_000,
    "title": "A & B",
    "type": "story",
    "url": "https://example.org/?a=1&b=2",
}

Shape = dict[str, object]


def encoded(shape: object) -> bytes:
    return json.dumps(shape, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def item(body: bytes, item_id: int = 7) -> Item:
    decoded = decode_item(item_id, body)
    assert isinstance(decoded, Readable)
    assert isinstance(decoded.thing, Item)
    assert decoded.thing.body == body
    assert decoded.thing.item_id == item_id
    return decoded.thing


def read(shape: Shape) -> Item:
    return item(encoded(shape))


def content(shape: Shape) -> bytes:
    found = read(shape)
    told = found.content_in(found.body)
    assert told is not None
    return told


def test_a_comment_and_a_story_are_read_without_an_oddity() -> None:
    comment, story = read(COMMENT), read(STORY)
    assert (comment.type, comment.by, comment.parent, comment.time) == ("comment", "ann", 3, 1_700_000_000)
    assert (story.title, story.url, story.score, story.descendants) == ("A & B", STORY["url"], 12, 0)
    assert comment.anomalies == story.anomalies == ()


@pytest.mark.parametrize(
    "shape",
    [
        {"by": "ann", "id": 7, "score": 1, "time": 1_700_000_000, "title": "Hiring", "type": "job", "url": ""},
        {"by": "ann", "dead": True, "id": 7, "score": 1, "time": 1_700_000_000, "type": "story"},
        {"by": "ann", "dead": True, "id": 7, "parent": 3, "text": "[flagged]", "time": 1, "type": "comment"},
        {"deleted": True, "id": 7, "time": 1_700_000_000, "type": "story"},
        {"deleted": True, "id": 7, "parent": 3, "time": 1_700_000_000, "type": "comment"},
        {"dead": True, "deleted": True, "id": 7, "time": 1_700_000_000, "type": "story"},
        {"by": "ann", "id": 7, "parts": [8, 9], "score": 4, "time": 1, "title": "?", "type": "poll", "text": "x"},
        {"by": "ann", "id": 7, "poll": 6, "score": 4, "time": 1_700_000_000, "text": "yes", "type": "pollopt"},
        {"by": "ann", "id": 7, "parent": 6, "score": 4, "time": 1_700_000_000, "text": "yes", "type": "pollopt"},
    ],
)
def test_every_usual_shape_is_no_oddity(shape: Shape) -> None:
    found = read(shape)
    assert found.anomalies == ()
    assert (found.dead, found.deleted) == (shape.get("dead", False), shape.get("deleted", False))


def test_a_stub_of_id_and_type_is_kept_and_its_missing_time_is_counted() -> None:
    assert read({"id": 7, "type": "comment"}).anomalies == ("no_time",)


@pytest.mark.parametrize(
    "change, oddity",
    [
        ({"dead": [True]}, "odd_dead"),
        ({"deleted": "true"}, "odd_deleted"),
        ({"parts": 5}, "odd_parts"),
        ({"kids": {"1": 8, "0": 9}}, "odd_kids"),
        ({"kids": [9, None, 8]}, "odd_kids"),
        ({"kids": ["9"]}, "odd_kids"),
        ({"kids": [9, 9]}, "repeated_kids"),
        ({"kids": [9, 9, None]}, "repeated_kids"),
        ({"karma": 3}, "unknown_field"),
        ({"type": "essay"}, "unknown_type"),
        ({"type": None}, "no_type"),
        ({"time": None}, "no_time"),
        ({"time": -5}, "odd_time"),
        ({"time": "1700000000"}, "odd_time"),
        ({"time": 1.5}, "odd_time"),
        ({"time": 10**30}, "odd_time"),
        ({"time": True}, "odd_time"),
        ({"score": 10**30}, "odd_score"),
        ({"parent": [3]}, "odd_parent"),
        ({"text": ["a"]}, "odd_text"),
        ({"by": 5}, "odd_by"),
        ({"id": "7"}, "odd_id"),
        ({"text": "a\0b"}, "nul"),
    ],
)
def test_an_oddity_is_named_and_never_fatal(change: Shape, oddity: str) -> None:
    assert oddity in read({**COMMENT, **change}).anomalies


def test_odd_values_are_taken_for_what_they_most_likely_mean() -> None:
    odd = read({**COMMENT, "dead": [True], "deleted": [], "time": "1700000000", "parent": 3.0, "by": 5})
    assert (odd.dead, odd.deleted, odd.time, odd.parent, odd.by) == (True, False, 1_700_000_000, 3, "5")


def test_lone_surrogates_and_nul_stay_in_the_body_and_out_of_the_columns() -> None:
    found = item(b'{"id":7,"title":"a\\ud800b\\u0000","type":"story","time":1}')
    assert found.title == "a\ufffdb\ufffd"
    assert set(found.anomalies) == {"nul", "lone_surrogate"}


def test_a_byte_order_mark_and_raw_control_characters_are_read_over() -> None:
    assert "byte_order_mark" in item(b"\xef\xbb\xbf" + encoded(COMMENT)).anomalies
    assert "control_character" in item(b'{"id":7,"type":"comment","time":1,"text":"a\x01b"}').anomalies


def test_a_number_too_long_to_be_read_costs_only_itself() -> None:
    found = item(b'{"id":7,"type":"comment","time":1,"score":' + b"9" * 10_000 + b"}")
    assert (found.score, found.time) == (None, 1)


def test_the_placeholder_of_a_young_item_is_recognised() -> None:
    assert read({**COMMENT, "text": "[delayed]"}).delayed
    assert not read(COMMENT).delayed


@pytest.mark.parametrize("body", [b"null", b" null\n", b"\xef\xbb\xbfnull"])
def test_null_is_nothing(body: bytes) -> None:
    assert decode_item(7, body) == Nothing()


@pytest.mark.parametrize(
    "body, why",
    [
        (b"", "not JSON"),
        (encoded(COMMENT)[:-5], "not JSON"),
        (b"<html>", "not JSON"),
        (b'{"id":7,"score":NaN}', "not JSON"),
        (b'{"id":7,"text":"\xff"}', "not UTF-8"),
        (encoded(COMMENT).decode().encode("utf-16"), "not UTF-8"),
    ],
)
def test_what_is_not_json_is_unreadable(body: bytes, why: str) -> None:
    assert decode_item(7, body) == Unreadable(why)


@pytest.mark.parametrize(
    "body, why",
    [
        (encoded({**COMMENT, "id": 8}), "another id"),
        (encoded({**COMMENT, "id": 8, "odd": 1}), "another id"),
        (b'{"error":"Permission denied"}', "no id"),
        (b'{"id":true}', "no id"),
        (b"[7]", "not an object"),
        (b"7", "not an object"),
        (b'{"id":7,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
    ],
)
def test_what_is_not_this_item_has_the_wrong_shape(body: bytes, why: str) -> None:
    assert decode_item(7, body) == WrongShape(why)


@pytest.mark.parametrize("change", [{"score": 13}, {"kids": [1]}, {"descendants": 5}, {"kids": {"0": 1}}, {"new": 1}])
def test_votes_and_replies_are_no_new_content(change: Shape) -> None:
    assert content({**STORY, **change}) == content(STORY)


@pytest.mark.parametrize(
    "change",
    [
        *({"title": "C"}, {"url": "x"}, {"text": "x"}, {"by": "c"}, {"type": "job"}),
        *({"dead": True}, {"deleted": True}, {"parent": 4}, {"parts": [1]}, {"poll": 5}, {"time": 6}),
    ],
)
def test_whatever_a_person_would_call_content_is_new_content(change: Shape) -> None:
    assert content({**STORY, **change}) != content(STORY)


numbers = st.integers(1, 2**53)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
usual = st.fixed_dictionaries(
    {"id": st.just(7), "type": st.sampled_from(["story", "comment"]), "time": numbers},
    optional={"by": texts, "parent": numbers, "poll": numbers, "title": texts, "url": texts, "text": texts}
    | {"dead": st.booleans(), "deleted": st.booleans(), "parts": st.lists(numbers, max_size=3)}
    | {"kids": st.lists(numbers, max_size=5), "score": st.integers(-5, 5000), "descendants": st.integers(0, 99)},
)


@given(usual)
def test_the_quick_and_the_patient_reading_agree(shape: Shape) -> None:
    quick, patient = read(shape), read({**shape, "unheard_of": 1})
    assert content(shape) == content({**shape, "unheard_of": 1})
    assert (quick.type, quick.by, quick.time, quick.parent) == (patient.type, patient.by, patient.time, patient.parent)
    assert (quick.score, quick.descendants, quick.title) == (patient.score, patient.descendants, patient.title)
    assert {*quick.anomalies, "unknown_field"} == {*patient.anomalies}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
field_names = st.sampled_from(["type", "by", "time", "parent", "kids", "parts", "dead", "text", "title", "score"])


@pytest.mark.slow
@given(st.dictionaries(field_names, anything))
def test_an_item_with_its_id_is_kept_whatever_its_fields_hold(shape: Shape) -> None:
    found = item(json.dumps({**shape, "id": 7}).encode())
    "".join(text or "" for text in (found.type, found.by, found.title, found.url)).encode()
    assert "\0" not in (found.title or "")


@given(st.binary(max_size=60) | anything.map(lambda value: json.dumps(value).encode()))
def test_no_body_raises(body: bytes) -> None:
    assert isinstance(decode_item(7, body), Readable | Nothing | Unreadable | WrongShape)


@given(st.binary(max_size=60) | anything.map(lambda value: json.dumps(value).encode()))
def test_the_content_of_another_body_is_told_exactly_when_that_body_is_this_item(body: bytes) -> None:
    assert (read(STORY).content_in(body) is not None) is isinstance(decode_item(7, body), Readable)
