"""How do the pieces of a document become one document? The detail, and beside it each part with all its lines."""

import codecs
import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from remora.core.item import Document, Piece

# No document has more pieces.
PIECES_MAX: Final = 10_000
# Lines that arrive while a part is read can shift a page onto the one before it; they do not do so twice in a row.
REPEATS_MAX: Final = 2


class Circle:
    """Does a part lead back to what was read already? A run must not read it for ever, while everything else waits."""

    def __init__(self) -> None:
        self._asked_for: set[str] = set()
        self._known: set[tuple[str, str, bytes]] = set()  # lines, with their part and key
        self._repeats = 0  # pieces in a row that show no new line

    def closes(self, asked_for: str, piece: Piece) -> bool:
        """Whether nothing new can follow this piece: its next page was read before, or its pages repeat each other."""
        shown = {(piece.part, key, line) for key, line in zip(piece.line_keys, piece.lines, strict=True)}
        self._repeats = self._repeats + 1 if shown and shown <= self._known else 0
        self._known |= shown
        self._asked_for.add(asked_for)
        is_long = len(self._asked_for) >= PIECES_MAX and piece.following is not None
        return is_long or piece.following in self._asked_for or self._repeats >= REPEATS_MAX


def version_of(head: Piece) -> str:
    """What must be the same for pieces of one document to fit together: its update mark or, without one, its detail."""
    seen = head.body if head.updated_at is None else head.updated_at.encode("utf-8", "surrogatepass")
    return sha256(seen).hexdigest()[:32]


def fits(piece: Piece, before: Sequence[Piece]) -> bool:
    """Whether a page of a part joins the pages before it: it shows one of their lines again, if it should."""
    if not piece.shared:
        return True
    known = {key for other in before if other.part == piece.part for key in other.line_keys}
    return any(key in known for key in piece.line_keys)


def joined(head: Piece, pieces: Sequence[Piece]) -> Document:
    """The whole document. Lines that two pages show are kept once.

    A line is known by its key, unless two lines of one page share a key and differ: then by its content.
    """
    parts: dict[str, dict[str | bytes, bytes]] = {}
    shared_keys = {piece.part for piece in pieces if _shares_keys(piece)}
    for piece in pieces:
        lines = parts.setdefault(piece.part, {})
        names = piece.lines if piece.part in shared_keys else piece.line_keys
        lines.update(zip(names, piece.lines, strict=True))
    # A mark of the byte order may begin a body; inside of one it is not JSON.
    fields = [b'"detail":' + head.body.removeprefix(codecs.BOM_UTF8).strip()]
    fields += [json.dumps(name).encode() + b":[" + b",".join(lines.values()) + b"]" for name, lines in parts.items()]
    return Document(head.key, b"{" + b",".join(fields) + b"}", head.updated_at)


def _shares_keys(piece: Piece) -> bool:
    return len({*zip(piece.line_keys, piece.lines, strict=True)}) > len({*piece.line_keys})
