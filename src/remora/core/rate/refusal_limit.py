"""May one more request be refused? The owner's limit on refusals, for providers that ban whoever is refused too often.

Each request in flight may be refused, so it counts from its departure. A refusal counts for one span from its answer:
the provider counted it then at the latest. So the provider never counts more than the limit within any span, whatever
the pace does and however it counts.
"""

from bisect import bisect_left, insort
from typing import Final

import msgspec

from remora.core.errors import ConfigurationError
from remora.core.quantities import parse_duration
from remora.core.units import DAY_NS

LIMIT_HINT: Final = 'write how many refusals within which time are no risk, as "4/min", "20/h" or "4/10m"'
# Longer than a day is no limit that a provider counts; more than this in flight nobody has.
WITHIN_MAX_NS: Final = DAY_NS
MOST_MAX: Final = 1_000_000
PERIODS: Final = {"s": "1s", "min": "1m", "m": "1m", "h": "1h", "hour": "1h", "d": "1d", "day": "1d"}


class RefusalLimit(msgspec.Struct, frozen=True, gc=False):
    """The most refusals that the owner allows within any span of this length."""

    most: int
    within_ns: int


class Refusals(msgspec.Struct, frozen=True, gc=False):
    """The refusals that still count: until when each of them does, in ascending order."""

    limit: RefusalLimit
    until_ns: tuple[int, ...] = ()

    def refused(self, *, at_ns: int, times: int = 1) -> "Refusals":
        """So many requests were refused, or may have been: nobody will ever know. They were answered at this moment."""
        until_ns = [until_ns for until_ns in self.until_ns if until_ns >= at_ns]
        for _ in range(times):
            insort(until_ns, at_ns + self.limit.within_ns)
        return msgspec.structs.replace(self, until_ns=tuple(until_ns))

    def count(self, *, now_ns: int) -> int:
        """How many refusals count now."""
        return len(self.until_ns) - bisect_left(self.until_ns, now_ns)

    def allows(self, in_flight: int, *, now_ns: int) -> bool:
        """Whether so many requests may be in flight, even if all of them are refused."""
        return self.count(now_ns=now_ns) + in_flight <= self.limit.most

    def free_at_ns(self, in_flight: int, *, now_ns: int) -> int | None:
        """When so many requests may be in flight; None: not before one of them is answered."""
        too_many = self.count(now_ns=now_ns) + in_flight - self.limit.most
        if too_many <= 0:
            return now_ns
        counting = self.until_ns[bisect_left(self.until_ns, now_ns) :]
        return counting[too_many - 1] + 1 if too_many <= len(counting) else None


def parse_refusal_limit(value: object, where: str) -> RefusalLimit:
    """A limit as an owner writes it: so many refusals within a span of time."""
    count, slash, span = value.partition("/") if isinstance(value, str) else ("", "", "")
    count, span = count.strip(), span.strip()
    if not slash or not (count.isascii() and count.isdigit()) or not span:
        raise ConfigurationError(f"{where} is {value!r}, which is not a limit on refusals", hint=LIMIT_HINT)
    within_ns = parse_duration(PERIODS.get(span, span), where)
    if not 1 <= int(count) <= MOST_MAX:
        raise ConfigurationError(f"{where} allows {count} refusals: nothing could ever be sent", hint=LIMIT_HINT)
    if not 0 < within_ns <= WITHIN_MAX_NS:
        raise ConfigurationError(f"{where} is {value!r}: its time is not between a moment and a day", hint=LIMIT_HINT)
    return RefusalLimit(int(count), within_ns)
