"""Which of two update marks is newer? A mark is whatever text the source uses: a number, a date, or neither.

Marks are compared as numbers if both are numbers, as times if both are dates, otherwise as text.
"""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

_NUMBER: Final = re.compile(r"[+-]?\d{1,400}(?:\.\d{0,400})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
# Some providers use nanoseconds; a datetime has microseconds and would treat two such marks as equal.
_FRACTION: Final = re.compile(r"(?P<before>.*:\d\d)[.,](?P<digits>\d{1,40})(?P<after>.*)", re.ASCII)
# A date as in mails, or as C and Ruby write it. As text it would be sorted by the name of its day.
_WITH_NAMES: Final = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? |\d{1,2} [A-Z][a-z]{2} \d{4} ).{8,80}", re.ASCII
)
# What the library that reads them leaves out: the half of the day, and an offset behind the name of a zone.
_HALF_DAY: Final = re.compile(r"(?P<before>.*:\d\d) ?(?P<half>[AP])M\b(?P<after>.*)", re.ASCII | re.IGNORECASE)
_ZONE_BEFORE_OFFSET: Final = re.compile(r"(?:GMT|UTC)(?=[+-]\d)")
# A date, and the hour behind it, of which a number may have one digit: as text, October is before September.
_DATE_AND_HOUR: Final = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:([T ])(\d{1,2})(?=:))?(?!\d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_MAX: Final = 10**11  # of the year 5138; a larger number counts milliseconds, microseconds or nanoseconds
_WAYS: Final = {1: "seconds", 10**3: "milliseconds", 10**6: "microseconds", 10**9: "nanoseconds"}  # per second
_TIMES_FROM_S: Final = 946_684_800  # a number of seconds from 2000 to 2100 may be a time; others are counted up
_TIMES_UNTIL_S: Final = 4_102_444_800
_DATE_LEAST_LENGTH: Final = len("2026-1-1")
_DATE_MOST_LENGTH: Final = 120  # an expression for dates would take minutes for a long text that nearly is one


def is_newer(mark: str | None, than: str | None) -> bool:
    """Whether `mark` is newer. No mark is older than any mark."""
    if mark is None:
        return False
    return than is None or compare(mark, than) > 0


def may_be_newer(mark: str | None, than: str | None) -> bool:
    """Whether `mark` is newer, or nobody knows: texts that differ, as two ETags, and times that are written in two ways."""
    if mark is None or than is None:
        return is_newer(mark, than)
    if mark == than:
        return False
    sign = _compare_values(mark, than)
    return sign is None or sign > 0 or is_written_otherwise(mark, than)


def compare(left: str, right: str) -> int:
    """Negative when `left` is older, 0 when both are the same moment, positive when it is newer."""
    if left == right:
        return 0
    sign = _compare_values(left, right)
    return (left > right) - (left < right) if sign is None else sign


def _compare_values(left: str, right: str) -> int | None:
    """The same for two numbers or two dates; None for marks that are compared as text."""
    for read in (_number, _moment):
        first, second = read(left), read(right)
        if first is not None and second is not None:
            return (first > second) - (first < second)
    return None


def is_written_otherwise(mark: str | None, than: str | None) -> bool:
    """Whether both are times, but written in two ways (a date, seconds, milliseconds, …), so that neither is known to be newer."""
    if mark is None or than is None or mark == than:
        return False
    way, other = _way(mark), _way(than)
    return way is not None and other is not None and way != other


def newest(*marks: str | None) -> str | None:
    """The newest of some marks; the first one among equals."""
    best: str | None = None
    for mark in marks:
        if is_newer(mark, best):
            best = mark
    return best


def rank(mark: str | None) -> float | None:
    """A number for stores that sorts most marks of one source as `is_newer` does; None for marks compared as text."""
    if mark is None:
        return None
    value = _number(mark)
    if value is None:
        value = _moment(mark)
    return None if value is None else _finite(value)


def is_from(mark: str | None, second: int) -> bool:
    """Whether a mark is a time at or after this second. A mark that is no time is not."""
    value = rank(mark)
    return value is not None and value / units_per_second(value) >= second


def units_per_second(number: float | Decimal) -> int:
    """How many of its units a number of a time counts per second, by its size. Each unit reaches from 1973 to 5138."""
    return next((units for units in _WAYS if number <= _SECONDS_MAX * units), max(_WAYS))


def with_zeros(date: str) -> str:
    """A date as ISO 8601 writes it: `2026-5-3 9:05` becomes `2026-05-03 09:05`. Any other text stays as it is."""
    found = _DATE_AND_HOUR.match(date)
    if found is None:
        return date
    year, month, day, between, hour = found.groups("")
    return f"{year}-{month:0>2}-{day:0>2}{between}{hour and hour.zfill(2)}{date[found.end() :]}"


def _way(mark: str) -> str | None:
    """How a time is written; None for a number that is hardly a time, and for any other text."""
    number = _number(mark)
    if number is None:
        return None if _moment(mark) is None else "date"
    units = units_per_second(number)
    return _WAYS[units] if _TIMES_FROM_S <= number / units <= _TIMES_UNTIL_S else None


def _finite(value: Decimal) -> float:
    largest = 1e300
    return max(-largest, min(largest, float(value)))


def _number(mark: str) -> Decimal | None:
    return Decimal(mark) if _NUMBER.fullmatch(mark) else None


def _moment(mark: str) -> Decimal | None:
    """Seconds since 1970, exactly."""
    if not _DATE_LEAST_LENGTH <= len(mark) <= _DATE_MOST_LENGTH:
        return None
    found = _FRACTION.fullmatch(mark)
    whole, digits = (found["before"] + found["after"], found["digits"]) if found else (mark, "0")
    moment = _read(whole)
    if moment is None:
        return None
    # A date without a zone is read as UTC: it only matters that one source is always read the same way.
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Decimal((aware - _EPOCH) // timedelta(seconds=1)) + Decimal(f"0.{digits}")


def _read(date: str) -> datetime | None:
    try:
        return _read_with_names(date) if _WITH_NAMES.fullmatch(date) else datetime.fromisoformat(with_zeros(date))
    except (ValueError, TypeError, LookupError, OverflowError):
        return None


def _read_with_names(date: str) -> datetime:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - few sources write dates with names

    date = _ZONE_BEFORE_OFFSET.sub("", date)
    if (found := _HALF_DAY.fullmatch(date)) is None:
        return parsedate_to_datetime(date)
    moment = parsedate_to_datetime(found["before"] + found["after"])
    return moment.replace(hour=moment.hour % 12 + (12 if found["half"] in "Pp" else 0))
