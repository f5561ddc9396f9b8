"""Which columns does an exported item or document have? The same in CSV and Parquet."""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from remora.contracts.reader import MirroredDocument, MirroredItem, moment, parsed
from remora.core.texts import storable
from remora.core.units import MILLISECOND_NS, SECOND_NS

ITEM_COLUMNS: Final = (
    "source",
    "id",
    "type",
    "by",
    "time",
    "parent",
    "score",
    "descendants",
    "dead",
    "deleted",
    "title",
    "url",
    "text",
    "kids",
    "revision",
    "first_seen_at",
    "last_fetched_at",
    "changed_at",
    "body",
)
DOCUMENT_COLUMNS: Final = (
    "source",
    "key",
    "title",
    "updated_at",
    "fetched_at",
    "body",
    "revision",
    "changed_at",
    "vanished_at",
    "gone",
)
# Moments are plain numbers in rows: a program converts a whole column at once.
SECOND_COLUMNS: Final = frozenset({"time"})
MOMENT_COLUMNS: Final = SECOND_COLUMNS | {
    "first_seen_at",
    "last_fetched_at",
    "changed_at",
    "fetched_at",
    "vanished_at",
    "exported_at",
}
# A time beyond this is absurd: no tool needs a partition for it.
YEAR_2101_S: Final = 4_133_980_800


# What a column of numbers can hold.
INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1
_Number = Annotated[int, msgspec.Meta(ge=INTEGER_MIN, le=INTEGER_MAX)]


class Texts(msgspec.Struct, gc=False):
    """What has no column of its own in the store."""

    title: str | None = None
    url: str | None = None
    text: str | None = None
    kids: list[_Number] | None = None


_NUL: Final = b"\\u0000"  # as JSON writes it
_decoder: Final = msgspec.json.Decoder(Texts)


def item_row(item: MirroredItem) -> tuple[Any, ...]:
    """The values of `ITEM_COLUMNS`."""
    texts = texts_of(item.body)
    return (
        item.source,
        item.id,
        item.type,
        item.by,
        _sane(item.time),
        item.parent,
        item.score,
        item.descendants,
        item.dead,
        item.deleted,
        texts.title,
        texts.url,
        texts.text,
        None if texts.kids is None else tuple(texts.kids),
        item.revision,
        item.first_seen_ns // MILLISECOND_NS,
        item.last_fetched_ns // MILLISECOND_NS or None,  # never: it came from a dump
        item.changed_ns // MILLISECOND_NS,
        item.body.decode("utf-8", "replace"),
    )


def document_row(document: MirroredDocument) -> tuple[Any, ...]:
    """The values of `DOCUMENT_COLUMNS`."""
    title = document.fields.get("title")
    return (
        document.source,
        storable(document.key),
        storable(title) if isinstance(title, str) else None,
        storable(document.updated_at),
        _milliseconds(document.fetched_ns),
        (document.body or b"").decode("utf-8", "replace"),
        document.revision,
        _milliseconds(document.changed_ns),
        _milliseconds(document.vanished_ns),
        document.is_gone,
    )


def texts_of(body: bytes) -> Texts:
    """Its texts and replies. Of a field of an unusual type nothing is read; the others are still wanted."""
    if body.find(_NUL) < 0:  # `in` tries the bytes as a number first
        try:
            return _decoder.decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError):
            pass
    return _texts_one_by_one(body)


def _texts_one_by_one(body: bytes) -> Texts:
    fields = parsed(body)
    title, url, text = (
        storable(found) if isinstance(found := fields.get(name), str) else None for name in ("title", "url", "text")
    )
    kids = fields.get("kids")
    numbers = [kid for kid in kids if _is_number(kid)] if isinstance(kids, list) else []
    return Texts(title, url, text, numbers or None)


def _is_number(value: object) -> bool:
    return type(value) is int and INTEGER_MIN <= value <= INTEGER_MAX


def _milliseconds(at_ns: int | None) -> int | None:
    return None if at_ns is None else at_ns // MILLISECOND_NS


def _sane(time_s: int | None) -> int | None:
    return time_s if time_s is not None and 0 <= time_s < YEAR_2101_S else None


def as_moment(name: str, value: int) -> datetime:
    """The date that a number in a column of moments means."""
    return moment(value * (SECOND_NS if name in SECOND_COLUMNS else MILLISECOND_NS))
