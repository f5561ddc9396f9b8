"""How is text stored that PostgreSQL would refuse? What all databases have in common is in `stores.rows`.

PostgreSQL's text can hold neither NUL nor lone surrogates. Bodies are bytes and stay as they are. Keys and marks must
come back exactly, so they are escaped. What is only derived from a body is cleaned by `stores.decisions`.
"""

import re
from dataclasses import replace
from typing import Final

from remora.contracts import StoredDocument
from remora.core.ledger.gap import Gap
from remora.stores import rows
from remora.stores.postgres.connections import Row

# Line breaks are escaped because some statements take many keys as the lines of one text.
_NEEDS_ESCAPE: Final = re.compile("[\0\n\\\\\ud800-\udfff]")
_ESCAPED: Final = re.compile(r"\\(0|n|\\|u[0-9a-f]{4})")


def dump_key(key: str) -> str:
    """A key as text that PostgreSQL accepts; almost always unchanged."""
    return _NEEDS_ESCAPE.sub(_escape, key)


def load_key(text: str) -> str:
    """The key before `dump_key`."""
    return _ESCAPED.sub(_unescape, text) if "\\" in text else text


def dump_mark(mark: str | None) -> str | None:
    """A source's own mark or position; None stays None."""
    return None if mark is None else dump_key(mark)


def load_mark(text: str | None) -> str | None:
    """The mark before `dump_mark`."""
    return None if text is None else load_key(text)


def _escape(found: re.Match[str]) -> str:
    match found[0]:
        case "\0":
            return "\\0"
        case "\n":
            return "\\n"
        case "\\":
            return "\\\\"
        case half:
            return f"\\u{ord(half):04x}"


def _unescape(found: re.Match[str]) -> str:
    match found[1]:
        case "0":
            return "\0"
        case "n":
            return "\n"
        case "\\":
            return "\\"
        case code:
            return chr(int(code[1:], 16))


def gap_from_row(row: Row) -> Gap:
    """The columns of `rows.gap_from_row`, with the key unescaped."""
    kind, key, *rest = row
    return rows.gap_from_row((kind, load_key(key), *rest))


def gap_to_row(gap: Gap) -> Row:
    """The same columns, in the same order."""
    return rows.gap_to_row(replace(gap, key=dump_key(gap.key)))


def document_from_row(row: rows.Row) -> StoredDocument:
    """The columns of `rows.document_from_row`, with key and mark unescaped."""
    return rows.document_from_row(row, load_key)
