"""How does an owner write a rate, a span of time or a size, and how do we write it back?

Everything becomes an integer of nanoseconds (or bytes) here, so that no other module reads text.
"""

import json
import re
from fractions import Fraction
from math import ceil
from typing import Final

from remora.core.errors import ConfigurationError
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS

UNITS_NS: Final = {"ms": MILLISECOND_NS, "s": SECOND_NS, "m": MINUTE_NS, "min": MINUTE_NS, "h": HOUR_NS, "d": DAY_NS}
BYTES: Final = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# Slower than one request a day is no mirror; no event loop is faster than the maximum.
INTERVAL_MAX_NS: Final = DAY_NS
RATE_MAX_PER_S: Final = 100_000
DURATION_MAX_NS: Final = 3_650 * DAY_NS

RATE_HINT: Final = 'write the most requests you are willing to send, as "240/min", "250/s", "5/h" or an interval "4s"'
DURATION_HINT: Final = 'write a number and a unit, as "500ms", "90s", "15m", "6h" or "3d"'
SIZE_HINT: Final = 'write a number and a unit, as "512KiB", "16MiB" or "1GiB"'

# A number that is too large is read, so that it can be refused as too large.
_NUMBER: Final = r"\d{1,100}(?:\.\d{1,9})?"
_BARE: Final = re.compile(_NUMBER, re.ASCII)
_RATE: Final = re.compile(rf"({_NUMBER})\s*/\s*(s|sec|second|m|min|minute|h|hour|d|day)", re.ASCII)
_DURATION: Final = re.compile(rf"({_NUMBER})\s*(ms|s|min|m|h|d)", re.ASCII)
_SIZE: Final = re.compile(r"(\d{1,12})\s*(KiB|MiB|GiB)", re.ASCII)
_PERIOD_NS: Final = {"s": SECOND_NS, "m": MINUTE_NS, "h": HOUR_NS, "d": DAY_NS}


def parse_rate(value: object, where: str) -> int:
    """The interval between departures for this rate, in nanoseconds, rounded to the slower side."""
    text = _text(value, where, RATE_HINT)
    rate = _RATE.fullmatch(text)
    interval_ns = _interval_of(rate) if rate else _span_ns(text)
    if interval_ns is None or interval_ns <= 0:
        raise ConfigurationError(f"{where} is {_shown(value)}, which is not a rate above zero", hint=RATE_HINT)
    if interval_ns > INTERVAL_MAX_NS:
        raise ConfigurationError(f"{where} is {_shown(value)}, slower than one request a day", hint=RATE_HINT)
    if interval_ns < SECOND_NS // RATE_MAX_PER_S:
        raise ConfigurationError(
            f"{where} is {_shown(value)}, faster than {RATE_MAX_PER_S:,}/s",
            hint=f'write at most "{RATE_MAX_PER_S}/s", as "250/s" or "240/min"',
        )
    return interval_ns


def parse_duration(value: object, where: str) -> int:
    """A span of time in nanoseconds; may be zero."""
    span_ns = _span_ns(_text(value, where, DURATION_HINT))
    if span_ns is None:
        raise ConfigurationError(f"{where} is {_shown(value)}, which is not a span of time", hint=DURATION_HINT)
    if span_ns > DURATION_MAX_NS:
        raise ConfigurationError(
            f"{where} is {_shown(value)}, longer than {DURATION_MAX_NS // DAY_NS:,} days", hint=DURATION_HINT
        )
    return span_ns


def parse_size(value: object, where: str) -> int:
    """A number of bytes."""
    found = _SIZE.fullmatch(_text(value, where, SIZE_HINT))
    if found is None or int(found[1]) == 0:
        raise ConfigurationError(f"{where} is {_shown(value)}, which is not a size", hint=SIZE_HINT)
    return int(found[1]) * BYTES[found[2]]


def format_rate(per_second: float) -> str:
    """A rate in the unit a person would choose."""
    for period_s, unit in ((1, "s"), (60, "min"), (3_600, "h")):
        if per_second * period_s >= 1 or per_second == 0:
            return f"{_rounded(per_second * period_s)}/{unit}"
    return f"{_rounded(per_second * 86_400)}/d"


def format_size(count: int) -> str:
    """A number of bytes in its largest fitting unit, as 12.4 MB."""
    for size, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{_rounded(count / size)} {unit}"
    return f"{count} bytes"


def format_duration(span_ns: int) -> str:
    """A span of time in at most two units: 2h 5m, 3d, 480ms."""
    if span_ns < 0:
        return f"-{format_duration(-span_ns)}"
    if span_ns < SECOND_NS:
        return f"{span_ns // MILLISECOND_NS}ms"
    parts = []
    left_ns = span_ns
    for unit in ("d", "h", "m", "s"):
        count, left_ns = divmod(left_ns, UNITS_NS[unit])
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def format_exactly(span_ns: int) -> str:
    """A span of time as an owner may write it, to the nanosecond: 250ms, 4.5ms, 90s."""
    if span_ns % SECOND_NS == 0:
        return f"{span_ns // SECOND_NS}s"
    whole, rest = divmod(span_ns, MILLISECOND_NS)
    decimals = f".{rest:06d}".rstrip("0.")
    return f"{whole}{decimals}ms"


def _interval_of(rate: re.Match[str]) -> int | None:
    count = Fraction(rate[1])
    if count <= 0:
        return None
    return ceil(_PERIOD_NS[rate[2][0]] / count)


def _span_ns(text: str) -> int | None:
    found = _DURATION.fullmatch(text)
    return ceil(Fraction(found[1]) * UNITS_NS[found[2]]) if found else None


def _text(value: object, where: str, hint: str) -> str:
    if isinstance(value, str) and not _BARE.fullmatch(value.strip()):
        return value.strip()
    raise ConfigurationError(f"{where} is {_shown(value)}, which has no unit", hint=hint)


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.3g}"
