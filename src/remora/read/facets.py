"""How else could a search be narrowed? Counts by type, author, domain and year among its first hits."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from remora.contracts.search import EntryColumns

VALUES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Facets:
    """Values with their counts, the most frequent first; years newest first."""

    types: tuple[tuple[str, int], ...] = ()
    authors: tuple[tuple[str, int], ...] = ()
    domains: tuple[tuple[str, int], ...] = ()
    years: tuple[tuple[str, int], ...] = ()


def count_facets(found: Sequence[EntryColumns]) -> Facets:
    """Count the columns of hits."""
    years = Counter(year for columns in found if (year := _year(columns.time_s)) is not None)
    return Facets(
        types=_top(columns.type for columns in found),
        authors=_top(columns.by for columns in found),
        domains=_top(columns.domain for columns in found),
        years=tuple(sorted(years.items(), reverse=True)[:VALUES_MAX]),
    )


def _top(values: Iterable[str | None]) -> tuple[tuple[str, int], ...]:
    counted = Counter(value for value in values if value is not None)
    return tuple(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:VALUES_MAX])


def _year(time_s: int | None) -> str | None:
    try:
        return None if time_s is None else f"{datetime.fromtimestamp(time_s, UTC).year:04d}"
    except (ValueError, OverflowError, OSError):
        return None
