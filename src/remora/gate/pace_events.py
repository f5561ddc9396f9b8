"""Which events tell the operator about the pace? Few, complete ones about changes and long waits, without content."""

from typing import Final, Protocol

import structlog

from remora.contracts import Clock
from remora.core.rate.gate_types import STOPS, BackOff, Hold, LimitedBy
from remora.core.rate.law import ChangeKind, Pace, PaceChange
from remora.core.rate.pace_record import Restore
from remora.core.repeats import Repeats
from remora.core.units import SECOND_NS

log = structlog.get_logger()

EVENT_EVERY_NS: Final = SECOND_NS // 2
# A wait this long is logged when it begins: an operator who sees nothing being sent must know why and until when.
TOLD_FROM_NS: Final = 5 * SECOND_NS


class Lessons(Protocol):
    """What was learned about the source so far: the learner."""

    pace: Pace
    last_back_off: BackOff | None
    not_before_ns: int


class PaceEvents:
    """Logs changes of one source's pace; changes that come faster than a few per second share one event."""

    def __init__(self, source: str, lessons: Lessons, *, ceiling_interval_ns: int, clock: Clock) -> None:
        self._source = source
        self._lessons = lessons
        self._ceiling_interval_ns = ceiling_interval_ns
        self._clock = clock
        self._untold: PaceChange | None = None
        self._not_stored = Repeats()
        self._told_at_ns = clock.monotonic_ns() - EVENT_EVERY_NS

    def restored(self, how: Restore) -> None:
        """Where this process got its first pace from; worth a warning if a stored one was not trusted."""
        distrusted = how in {Restore.COLD_DAMAGED, Restore.COLD_FUTURE}
        rate_per_s = round(self._lessons.pace.rate_per_s, 4)
        (log.warning if distrusted else log.info)(
            "pace_restored", source=self._source, how=str(how), rate_per_s=rate_per_s
        )

    def tell(self, change: PaceChange) -> None:
        """The pace changed: log it now, or together with the next changes."""
        untold = self._untold
        from_per_s = change.from_per_s if untold is None else untold.from_per_s
        slower = change.kind is not ChangeKind.SPED_UP or (untold is not None and untold.kind is not ChangeKind.SPED_UP)
        kind = ChangeKind.BACKED_OFF if slower and change.kind is ChangeKind.SPED_UP else change.kind
        self._untold = PaceChange(kind, from_per_s, change.to_per_s)
        self.tell_if_due()

    def tell_if_due(self) -> None:
        """Log a pending change once the last event is long enough ago."""
        if self._clock.monotonic_ns() - self._told_at_ns >= EVENT_EVERY_NS:
            self.tell_now()

    def tell_now(self) -> None:
        """Log the pending change, if there is one."""
        if (change := self._untold) is None:
            return
        self._untold = None
        self._told_at_ns = self._clock.monotonic_ns()
        log.debug(str(change.kind), source=self._source, **self._fields(change))

    def not_stored(self, why: str) -> None:
        """The pace could not be stored. This is tried every second and logged once a minute."""
        if self._not_stored.is_worth_telling(now_ns=self._clock.monotonic_ns()):
            log.warning("pace_not_stored", source=self._source, why=why, times=self._not_stored.failures)

    def stored(self) -> None:
        """The pace is stored; worth a line after failures."""
        if times := self._not_stored.over():
            log.info("pace_stored_again", source=self._source, times=times)

    def _fields(self, change: PaceChange) -> dict[str, str | float]:
        fields: dict[str, str | float] = {
            "interval_s": round(self._lessons.pace.interval_ns / SECOND_NS, 6),
            "rate_per_s": round(change.to_per_s, 4),
            "from_per_s": round(change.from_per_s, 4),
            "ceiling_per_s": round(SECOND_NS / self._ceiling_interval_ns, 4),
        }
        back_off = self._lessons.last_back_off
        if change.kind is not ChangeKind.SPED_UP and back_off is not None:
            fields["reason"] = back_off.reason
            fields["backed_off_at_s"] = round(back_off.at_ns / SECOND_NS, 3)
            # The event may include a rise before or after the back-off, so the back-off has its own rates.
            fields["backed_off_from_per_s"] = round(back_off.from_per_s, 4)
            fields["backed_off_to_per_s"] = round(back_off.to_per_s, 4)
            fields["not_before_in_s"] = round(max(0, self._lessons.not_before_ns - self._told_at_ns) / SECOND_NS, 3)
        return fields


class WaitEvents:
    """Logs the long waits of one source, each once, when it begins. The usual spacing of a low ceiling is no wait."""

    def __init__(self, source: str, *, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._told_until_ns = 0

    def tell(self, hold: Hold) -> None:
        """Requests wait for this hold from now on."""
        if hold.until_ns is None or hold.limited_by is LimitedBy.CEILING:
            return
        left_ns = hold.until_ns - self._clock.monotonic_ns()
        if left_ns < TOLD_FROM_NS or hold.until_ns < self._told_until_ns + SECOND_NS:
            return
        self._told_until_ns = hold.until_ns
        until_s = (self._clock.wall_ns() + left_ns) / SECOND_NS
        # A pause that the provider asked for, or that its trouble calls for, is worth a look.
        (log.warning if hold.limited_by in STOPS else log.debug)(
            "gate_waits",
            source=self._source,
            reason=str(hold.limited_by),
            for_s=round(left_ns / SECOND_NS, 3),
            until_s=round(until_s, 3),
        )
