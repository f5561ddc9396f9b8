"""How do Singer targets read the mirror? A schema, one record per line, and at the end the state to begin with next time.

Singer is the exchange format of Meltano and many warehouse loaders: a target reads these lines on stdin.
"""

from typing import Any, BinaryIO, Final

import msgspec

from remora.read.export import Wanted, row_pages
from remora.read.export_rows import DOCUMENT_COLUMNS, ITEM_COLUMNS, MOMENT_COLUMNS, as_moment
from remora.read.mirror import MirrorReader
from remora.read.resumable import Target

_NUMBERS: Final = frozenset({"id", "parent", "score", "descendants", "revision"})
_FLAGS: Final = frozenset({"dead", "deleted", "gone"})
_encode: Final = msgspec.json.Encoder().encode


async def export_singer(mirror: MirrorReader, wanted: Wanted, target: Target) -> int:
    """Write the messages; returns how many records. The state holds the change feed's position at the beginning."""
    columns = DOCUMENT_COLUMNS if wanted.is_listed else ITEM_COLUMNS
    keys = ["source", "key"] if wanted.is_listed else ["source", "id"]
    position = await mirror.newest_position()
    stream, file = wanted.source, target.file
    _write(file, {"type": "SCHEMA", "stream": stream, "schema": singer_schema(columns), "key_properties": keys})
    async for rows in row_pages(mirror, wanted):
        for row in rows:
            record = {name: _value(name, value) for name, value in zip(columns, row, strict=True) if value is not None}
            _write(file, {"type": "RECORD", "stream": stream, "record": record})
        target.wrote(len(rows), None)  # its state belongs to its beginning, so it always begins anew
    _write(file, {"type": "STATE", "value": {"bookmarks": {stream: {"position": position}}}})
    file.flush()
    return target.rows


def singer_schema(columns: tuple[str, ...]) -> dict[str, Any]:
    """The columns as a JSON schema."""
    return {"type": "object", "properties": {name: _type(name) for name in columns}}


def _type(name: str) -> dict[str, Any]:
    if name in MOMENT_COLUMNS:
        return {"type": ["null", "string"], "format": "date-time"}
    if name in _NUMBERS:
        return {"type": ["null", "integer"]}
    if name in _FLAGS:
        return {"type": "boolean"}
    if name == "kids":
        return {"type": ["null", "array"], "items": {"type": "integer"}}
    return {"type": ["null", "string"]}


def _value(name: str, value: Any) -> Any:
    return as_moment(name, value).isoformat() if name in MOMENT_COLUMNS else value


def _write(file: BinaryIO, message: dict[str, Any]) -> None:
    file.write(_encode(message))
    file.write(b"\n")
