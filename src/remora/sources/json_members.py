"""Where does each value of a JSON object or list begin and end? For bodies that are read, but are not strictly JSON.

Providers send half of a surrogate pair where they cut a text, and line breaks inside strings. A strict reader refuses the
whole body for one of them, and with it every other entry of a page.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

# Strings are skipped as a whole: a bracket inside one means nothing.
STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN: Final = re.compile(STRING + rb"|[\[\]{},:]", re.DOTALL)
_SPACE: Final = b" \t\r\n"


def named_values(raw: bytes) -> dict[str, bytes]:
    """The values of an object byte for byte, by name; empty if it is no object. The body must have been read before."""
    if not raw.lstrip(_SPACE).startswith(b"{"):
        return {}
    return {json.loads(name.decode(), strict=False): value for name, value in _members(raw) if name}


def listed_values(raw: bytes) -> list[bytes]:
    """The values of a list byte for byte; empty if it is no list. The body must have been read before."""
    return [value for _, value in _members(raw)] if raw.lstrip(_SPACE).startswith(b"[") else []


def _members(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The names, empty in a list, and the values of the outermost object or list."""
    depth, start, name = 0, 0, b""
    for token in _TOKEN.finditer(raw):
        kind = token[0][:1]
        depth += (kind in b"[{") - (kind in b"]}")
        if depth == 1 and kind in b"[{" and not start:
            start = token.end()
        elif depth == 1 and kind == b":":
            name, start = raw[start : token.start()], token.end()
        elif depth == 0 or (depth == 1 and kind == b","):
            if value := raw[start : token.start()].strip(_SPACE):
                yield name, value
            name, start = b"", token.end()
            if depth == 0:
                return
