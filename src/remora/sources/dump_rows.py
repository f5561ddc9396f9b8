"""What do the columns of a public Hacker News dump mean? A row becomes the body that the provider itself would send.

Known: BigQuery's table `full` (Parquet or JSON lines) and the Parquet archives on Hugging Face. They differ in details:
times are seconds or timestamps, numbers may be texts or fractions, a type may be a number, zero and an empty text may
mean nothing.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from remora.core.errors import ConfigurationError

# The order of ClickHouse's and Hugging Face's numbers for types.
TYPES: Final = {1: "story", 2: "comment", 3: "poll", 4: "pollopt", 5: "job"}
# Another name that a dump uses for a field.
ALIASES: Final = {"author": "by", "time_ts": "time"}
NEEDED: Final = frozenset({"id", "type", "time"})
COLUMNS: Final = (
    "by", "dead", "deleted", "descendants", "id", "kids", "parent", "parts", "poll", "score", "text", "time", "title",
    "type", "url",
)  # fmt: skip


class _Body(msgspec.Struct, omit_defaults=True):
    """An item with its fields in the provider's own order, which is that of the alphabet."""

    by: str | None = None
    dead: bool = False
    deleted: bool = False
    descendants: int | None = None
    id: int | None = None
    kids: list[int] | None = None
    parent: int | None = None
    parts: list[int] | None = None
    poll: int | None = None
    score: int | None = None
    text: str | None = None
    time: int | None = None
    title: str | None = None
    type: str | None = None
    url: str | None = None


_encode: Final = msgspec.json.Encoder().encode


def check_columns(names: set[str], where: str) -> None:
    """Refuse a table that is no dump of items."""
    known = {ALIASES.get(name, name) for name in names}
    if not known >= NEEDED:
        raise ConfigurationError(
            f"{where} has no column {', '.join(sorted(NEEDED - known))}",
            hint="import lines of JSON, a Parquet export of Remora, or a table with the columns of the Hacker News API",
        )


def body_of(row: Mapping[str, Any]) -> tuple[int, bytes] | None:
    """The id and body of one row; None for a row without an id."""
    item_id = whole(row.get("id"))
    if item_id is None or item_id < 1:
        return None
    kind = row.get("type")
    kind = TYPES.get(kind) if isinstance(kind, int) else text(kind)
    score, descendants = whole(row.get("score")), whole(row.get("descendants"))
    if kind in {"comment", "pollopt"}:  # zero means nothing: the provider never sends it for them
        score, descendants = score or None if kind == "comment" else score, None
    return item_id, _encode(
        _Body(
            by=text(row.get("by")),
            dead=flag(row.get("dead")),
            deleted=flag(row.get("deleted")),
            descendants=descendants,
            id=item_id,
            kids=numbers(row.get("kids")),
            parent=whole(row.get("parent")) or None,
            parts=numbers(row.get("parts")),
            poll=whole(row.get("poll")) or None,
            score=score,
            text=text(row.get("text")),
            time=seconds(row.get("time")) or seconds(row.get("timestamp")),
            title=text(row.get("title")),
            type=kind,
            url=text(row.get("url")),
        )
    )


def whole(value: object) -> int | None:
    """A whole number; texts and fractions of zero count."""
    match value:
        case bool():
            return int(value)
        case int():
            return value
        case float():
            return int(value) if value.is_integer() else None
        case str() if value.strip().removeprefix("-").isdecimal() and len(value) < 20:
            return int(value)
        case _:
            return None


def text(value: object) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None


def flag(value: object) -> bool:
    """Whether a flag is set: true, 1 or the text "true"."""
    return value.lower() in {"true", "1"} if isinstance(value, str) else bool(value)


def numbers(value: object) -> list[int] | None:
    """Ids in their order; nothing for an empty list."""
    if value is None or isinstance(value, str | bytes):
        return None
    if not isinstance(value, list | tuple):
        return None
    return [number for each in value if (number := whole(each)) is not None] or None


def seconds(value: object) -> int | None:
    """A moment in seconds since 1970: a number, a timestamp, or the text of one."""
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, str) and not value.strip().isdecimal():
        try:
            moment = datetime.fromisoformat(value.strip().replace(" UTC", "+00:00"))
        except ValueError:
            return None
    else:
        return whole(value) or None
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp())
