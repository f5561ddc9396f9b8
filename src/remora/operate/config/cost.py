"""What does a mirror cost? Requests, hours and room on disk, told before anything is sent."""

from dataclasses import dataclass
from typing import Final

from remora.core.quantities import format_duration, format_rate, format_size, parse_rate
from remora.core.units import SECOND_NS


@dataclass(frozen=True, slots=True)
class KnownSize:
    """How large a source is, as measured; it grows."""

    items: int
    bytes_per_item: int


# Of a SQLite file, as measured in 2026, and a tenth more. Revisions, a search index and PostgreSQL take more.
HACKERNEWS: Final = KnownSize(items=48_000_000, bytes_per_item=625)
DAY_S: Final = 86_400


def cost_in_words(ceiling: str, size: KnownSize | None) -> str:
    """One sentence: what reading everything costs at this ceiling."""
    interval_ns = parse_rate(ceiling, "the ceiling")
    per_s = SECOND_NS / interval_ns
    if size is None:
        return f"at most {format_rate(per_s)}, which is {int(per_s * DAY_S):,} requests a day; the list says how many there are"
    takes = format_duration(size.items * interval_ns)
    room = format_size(size.items * size.bytes_per_item)
    return f"about {size.items:,} requests once, at least {takes} at {format_rate(per_s)}, and about {room} of disk"
