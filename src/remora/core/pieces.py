"""How do the pieces of a document become one document? The detail, and beside it each part with all its lines."""

import codecs
import json
from collections.abc import Sequence
from hashlib import sha256

from remora.core.item import Document, Piece


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
