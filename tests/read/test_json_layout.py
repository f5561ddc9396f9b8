"""Is a body that is shown with indents still the one that the provider sent?"""

import codecs
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.read.as_text import pretty
from remora.read.json_layout import INDENT_MAX, as_part, indented
from remora.read.readable import Field, readable_fields

ODD = (
    b'{"price":1.10,"big":0.1234567890123456789012345,"e":1E5,"huge":1e400,"a":1,"a":2,"half":"\\ud800","o":{},"l":[]}'
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def told(body: bytes) -> str:
    shown = indented(body)
    assert shown is not None
    return shown.decode()


def test_every_number_escape_and_repeated_name_stays_as_it_was_sent() -> None:
    lines = [
        "{",
        '  "price": 1.10,',
        '  "big": 0.1234567890123456789012345,',
        '  "e": 1E5,',
        '  "huge": 1e400,',
        '  "a": 1,',
        '  "a": 2,',
        '  "half": "\\ud800",',
        '  "o": {},',
        '  "l": []',
        "}",
    ]
    assert told(ODD).split("\n") == lines
    assert pretty(ODD).split("\n") == lines


@pytest.mark.slow
@given(VALUES, st.sampled_from([None, 1]))
def test_it_looks_as_python_would_indent_it(value: object, spaces: int | None) -> None:
    body = json.dumps(value, ensure_ascii=False, indent=spaces).encode()
    assert told(body) == json.dumps(value, ensure_ascii=False, indent=2)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"",
        b'{"a": ',
        b'{"a": 1} {"b": 2}',
        b'{"a":"\xff"}',
        "{}".encode("utf-16"),
        b"[" * 500_000 + b"]" * 500_000,
    ],
)
def test_what_is_no_json_or_too_deep_is_not_laid_out(body: bytes) -> None:
    assert indented(body) is None


def test_a_byte_order_mark_stays_where_it_is() -> None:
    assert told(b'\xef\xbb\xbf{"a":1.10}') == '\ufeff{\n  "a": 1.10\n}'
    assert readable_fields(b'\xef\xbb\xbf{"a":1.10}') == ((Field(0, "a", "1.10"),), False)


def test_a_deep_body_does_not_become_gigantic() -> None:
    deep = b"[" * 900 + b"1," * 1_000 + b"1" + b"]" * 900
    shown = told(deep)
    assert "".join(shown.split()) == deep.decode()
    assert len(shown) < len(deep) * (2 * INDENT_MAX + 4)


def test_what_a_terminal_would_act_on_is_escaped_and_means_the_same() -> None:
    body = '{"a": "x\u202ey\x9b\ue000\x7f"}'.encode()
    assert pretty(body) == '{\n  "a": "x\\u202ey\\u009b\\ue000\\u007f"\n}'
    assert json.loads(pretty(body)) == json.loads(body)
    assert "".join(told(body).split()) == "".join(body.decode().split())


@pytest.mark.parametrize("sent", [ODD, b" [1]\n", b'{"long":' + b"9" * 5_000 + b"}"])
def test_a_body_stands_inside_other_json_as_it_was_sent_without_its_byte_order_mark(sent: bytes) -> None:
    assert as_part(sent) == as_part(codecs.BOM_UTF8 + sent) == sent


@pytest.mark.parametrize(
    "sent", ["{}".encode("utf-16"), b"[NaN]", b"[-Infinity]", b'["\xed\xa0\x80"]', b"[" * 100_000, b"", b"\xff"]
)
def test_what_would_make_other_json_invalid_does_not_stand_inside_it(sent: bytes) -> None:
    assert as_part(sent) is None
