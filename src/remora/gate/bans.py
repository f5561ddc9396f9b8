"""What do the provider's bans teach the gate? The count of refusals, with a limit that no owner has written.

A limit that the owner wrote is kept instead, and nothing is learned. With several processes each counts its own refusals
and keeps the learned limit for itself; all of them know it.
"""

from collections.abc import Callable
from typing import Final, cast

import msgspec
import structlog

from remora.contracts import Clock, Json, SharedPace
from remora.core.rate.ban_record import NOTHING, from_stored, stricter, to_stored
from remora.core.rate.gate_types import BanFacts
from remora.core.rate.law import Answer, Answered
from remora.core.rate.limits import Limits
from remora.core.rate.pace_record import since_saved_ns
from remora.core.rate.quota import is_used_up
from remora.core.reasons import GapReason
from remora.core.units import SECOND_NS
from remora.core.verdict import Refused, Verdict
from remora.gate.refusal_count import RefusalCount

log = structlog.get_logger()

BAN: Final = "ban"  # its name beside the stored pace


class BanGuard(RefusalCount):
    """The refusals of one gate, and the limit on them: the owner's, or the one that a ban has taught.

    `on_limit` is called when the limit has changed: the law must know it.
    """

    def __init__(
        self,
        source: str,
        limits: Limits,
        *,
        clock: Clock,
        on_refused: Callable[[], None],
        on_limit: Callable[[], None],
    ) -> None:
        super().__init__(limits.refusal_limit, in_flight_max=limits.in_flight, clock=clock, on_refused=on_refused)
        self._source = source
        self._on_limit = on_limit
        self._is_written = limits.refusal_limit is not None
        self._watch = NOTHING

    def watch(self, event: Answered, verdict: Verdict) -> None:
        """Hear an answer that was not good."""
        if self._is_written:
            return
        sent_ns, answered_ns = event.departed_at_ns, event.answered_at_ns
        if isinstance(verdict, Refused) and verdict.reason is GapReason.FORBIDDEN:
            self._watch = self._watch.hear_forbidden(sent_ns=sent_ns, answered_ns=answered_ns)
        elif event.answer is Answer.REFUSED and not is_used_up(event):
            self._watch = self._watch.hear_refusal(sent_ns=sent_ns, answered_ns=answered_ns)
        self.keep_learned()

    def watch_good(self, event: Answered) -> None:
        """Hear a good answer."""
        if self._watch.outage is not None:
            self._watch = self._watch.hear_good(sent_ns=event.departed_at_ns)

    def keep_learned(self) -> None:
        """Keep what was learned, or no longer if its time is over."""
        if self._is_written:
            return
        before, now_ns = self.limit, self._clock.monotonic_ns()
        self._watch = self._watch.at(now_ns)
        learned = self._watch.learned
        limit = None if learned is None else learned.limit
        if limit == before:
            return
        self.keep(limit)
        self._on_limit()
        if learned is None:
            log.info("refusal_limit_lifted", source=self._source)
            return
        log.warning(
            "refusal_limit_learned",
            source=self._source,
            refusals=learned.refusals,
            shut_out_s=round(learned.lasted_ns / SECOND_NS),
            most_per_min=learned.limit.most,
            hint="if you know how many refusals the provider tolerates, write refusal_limit",
        )

    def ban(self, *, now_ns: int, wall_ns: int) -> BanFacts | None:
        """The ban that taught the present limit; None: there was none."""
        learned = self._watch.learned
        if learned is None:
            return None
        until_ns = wall_ns + learned.until_ns - now_ns
        return BanFacts(learned.refusals, learned.lasted_ns, learned.limit.most, until_ns)

    # ── the store ───────────────────────────────────────────────────────────────────────────────────────────────────

    def record(self) -> dict[str, Json]:
        """What the next process must know, under its names in a record."""
        if self._is_written or self._watch == NOTHING:
            return super().record()
        stored = to_stored(self._watch, now_ns=self._clock.monotonic_ns())
        return {**super().record(), BAN: cast("Json", msgspec.to_builtins(stored))}

    def take_up(self, stored: Json) -> None:
        """Go on with what the last process stored: the limit that it learned, and its count."""
        if not self._is_written and isinstance(stored, dict):
            now_ns, age_ns = self._clock.monotonic_ns(), since_saved_ns(stored, self._clock.wall_ns())
            self._watch = from_stored(stored.get(BAN, {}), age_ns=age_ns, now_ns=now_ns)
            if self._watch.learned is not None:
                self.begin(self._watch.learned.limit)
        super().take_up(stored)

    def adopt(self, shared: SharedPace) -> None:
        """Keep what another process has learned, too."""
        if self._is_written or not isinstance(shared.record, dict) or BAN not in shared.record:
            return
        other = from_stored(shared.record[BAN], age_ns=shared.age_ns, now_ns=self._clock.monotonic_ns())
        self._watch = stricter(self._watch, other)
        self.keep_learned()
