"""How is a body laid out for people without changing it? With line breaks and indents; every token stays as it was sent.

A parser would round long fractions, drop a repeated name and lose half of a surrogate pair.
"""

import codecs
import json
import re
from typing import Any, Final

import msgspec

# A deeper level is not indented further: the spaces of a deep body would be many times its size.
INDENT_MAX: Final = 20
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s"{}\[\],:]+')
_OPENING: Final = frozenset({b"{", b"["})
_CLOSING: Final = frozenset({b"}", b"]"})


def indented(body: bytes) -> bytes | None:
    """A body with indents, as `json.dumps(..., indent=2)` has them; None if it is no JSON, or too deep to be judged."""
    try:
        parsed_as_sent(body)
    except (ValueError, RecursionError):
        return None
    return _laid_out(body)


def parsed_as_sent(body: bytes) -> Any:
    """The value of a JSON body, with every number as the text that was sent: a float would round it."""
    return json.loads(body.decode("utf-8-sig"), parse_int=str, parse_float=str)


def as_part(body: bytes) -> bytes | None:
    """A body as it can stand inside another JSON document, without a byte order mark; None if it is no JSON."""
    try:
        json.loads(body.decode("utf-8-sig"), parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return body.removeprefix(codecs.BOM_UTF8)


def as_value(body: bytes) -> msgspec.Raw:
    """A body as a value of an answer: as it came, or as a text if it is no JSON."""
    part = as_part(body)
    return msgspec.Raw(msgspec.json.encode(body.decode("utf-8", "replace")) if part is None else part)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _laid_out(body: bytes) -> bytes:
    shown = bytearray()
    depth, before = 0, b""
    for token in _TOKEN.findall(body):
        closes, opened = token in _CLOSING, before in _OPENING
        depth -= closes
        if closes and opened:
            pass  # an empty object or list stays in one line
        elif closes or opened or before == b",":
            shown += b"\n" + b"  " * min(depth, INDENT_MAX)
        elif before == b":":
            shown += b" "
        shown += token
        depth += token in _OPENING
        before = token
    return bytes(shown)
