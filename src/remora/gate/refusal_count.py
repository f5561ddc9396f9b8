"""May a request be sent although it may be refused? The limit on refusals, kept over all lanes and restarts.

The owner wrote it, or a ban has taught it. Without a limit only what is in flight is counted.

A process that is killed leaves requests in flight whose answers nobody heard. So a refusal keeps its place in flight until
it is stored, and the store says from the start how many requests may be in flight: the next process counts so many more.
"""

from collections.abc import Callable
from typing import Final, cast

import msgspec

from remora.contracts import Clock, Json
from remora.core.rate.gate_types import Hold, LimitedBy
from remora.core.rate.refusal_limit import RefusalLimit, Refusals
from remora.core.verdict import NoReply, Pressure, Reply, Verdict

RECORD: Final = "refusals"  # its name beside the stored pace


class StoredRefusals(msgspec.Struct, frozen=True):
    """What the next process must know."""

    within_ns: int
    left_ns: tuple[int, ...]  # how long each refusal still counted
    unheard: int  # requests that may have been refused since then


class RefusalCount:
    """What the provider has refused, or may have, through one gate. `on_refused` is called when the store must know."""

    def __init__(
        self, limit: RefusalLimit | None, *, in_flight_max: int, clock: Clock, on_refused: Callable[[], None]
    ) -> None:
        self._refusals = None if limit is None else Refusals(limit)
        self._in_flight_max = in_flight_max
        self._clock = clock
        self._on_refused = on_refused
        self._unheard = 0  # admitted requests without an answer
        self._heard = 0  # refusals in this process
        self._recorded: int | None = None  # how many of them are in the last record; None: it does not count them
        self._stored: int | None = None  # how many of them the store knows; None: nothing was stored yet
        self._is_closed = False
        self._is_kept = True  # False: more was in flight when the limit was learned, and still is

    @property
    def limit(self) -> RefusalLimit | None:
        """The limit that is kept now."""
        return None if self._refusals is None else self._refusals.limit

    def begin(self, limit: RefusalLimit) -> None:
        """Keep this limit from the start, before anything is sent."""
        assert not self._unheard, "a limit that begins with requests in flight"
        self._refusals = Refusals(limit)

    def keep(self, limit: RefusalLimit | None) -> None:
        """Keep this limit from now on. Nothing more is admitted before the store knows of it."""
        if limit is None:
            self._refusals = None
        elif self._refusals is None:
            # The refusal that has just taught it counts.
            self._refusals = Refusals(limit).refused(at_ns=self._clock.monotonic_ns())
            self._stored = None
        else:
            self._refusals = Refusals(limit, self._refusals.until_ns)
        self._is_kept = False
        self._on_refused()

    def hold(self, *, now_ns: int) -> Hold | None:
        """Why the next request may not be admitted; None: it may."""
        refusals = self._refusals
        if refusals is None:
            return None  # fast path
        if self._stored is None:
            return Hold(LimitedBy.STORE, None)
        free_at_ns = refusals.free_at_ns(self._unheard + 1, now_ns=now_ns)
        if free_at_ns is None or free_at_ns > now_ns:
            # While something is in flight, its answer may come first: nobody can say until when.
            return Hold(LimitedBy.REFUSALS, None if self._unheard else free_at_ns)
        counting = refusals.count(now_ns=now_ns)
        if self._unheard + min(self._heard - self._stored, counting) >= self._in_flight_max:
            return Hold(LimitedBy.STORE, refusals.until_ns[-counting] + 1 if counting else None)
        return None

    def is_full(self, *, now_ns: int) -> bool:
        """Whether no further request may be admitted before one is answered."""
        return self._refusals is not None and not self._refusals.allows(self._unheard + 1, now_ns=now_ns)

    def left(self, *, now_ns: int) -> int | None:
        """How many more requests may be refused; None: there is no limit."""
        refusals = self._refusals
        return None if refusals is None else max(0, refusals.limit.most - refusals.count(now_ns=now_ns))

    def admitted(self, count: int) -> None:
        """So many requests may be sent: they may be refused."""
        self._unheard += count

    def check(self, *, now_ns: int) -> None:
        """Before every departure: even if everything in flight is refused, the limit holds."""
        if self._refusals is None:
            return
        is_within = self._refusals.allows(self._unheard, now_ns=now_ns)
        assert is_within or not self._is_kept, "more possible refusals than the limit allows"
        self._is_kept = is_within

    def heard(self, reply: Reply | NoReply, verdict: Verdict) -> None:
        """A request was answered. Without a reply nobody knows whether the provider refused it."""
        self.heard_well(1)
        if isinstance(verdict, Pressure) or (isinstance(reply, NoReply) and reply.departed_at_ns is not None):
            self._count()

    def given_up(self, *, was_sent: bool) -> None:
        """Nobody waits for the answer any more. If the request was sent, it may have been refused."""
        self.heard_well(1)
        if was_sent:
            self._count()

    def heard_well(self, count: int) -> None:
        """So many requests were answered, and none of them was refused."""
        assert self._unheard >= count, "more answers than requests"
        self._unheard -= count

    def _count(self) -> None:
        if self._refusals is None:
            return
        self._heard += 1
        self._refusals = self._refusals.refused(at_ns=self._clock.monotonic_ns())
        self._on_refused()

    # ── the store ───────────────────────────────────────────────────────────────────────────────────────────────────

    def record(self) -> dict[str, Json]:
        """What the next process must know, under its name in a record. Nothing without a limit."""
        if self._refusals is None:
            self._recorded = None
            return {}
        self._recorded, now_ns = self._heard, self._clock.monotonic_ns()
        left_ns = tuple(until_ns - now_ns for until_ns in self._refusals.until_ns if until_ns >= now_ns)
        unheard = self._unheard if self._is_closed else self._in_flight_max
        kept = StoredRefusals(self._refusals.limit.within_ns, left_ns, unheard)
        return {RECORD: cast("Json", msgspec.to_builtins(kept))}

    def stored(self) -> None:
        """The store has the last record."""
        self._stored = self._recorded

    def closed(self) -> None:
        """Nothing more is sent: what is not answered now is all that nobody will ever know."""
        self._is_closed = True

    def take_up(self, stored: Json) -> None:
        """Count what the last process stored, as if no time had passed since; None: there was no other process.

        Nothing is sent before the store knows that this process may have requests in flight.

        If it cannot be read, or covers a shorter time, everything that the limit allows may have been refused.
        """
        if self._refusals is None:
            return
        self._on_refused()
        if stored is None:
            return
        now_ns, limit = self._clock.monotonic_ns(), self._refusals.limit
        try:
            kept = msgspec.convert(stored.get(RECORD) if isinstance(stored, dict) else None, StoredRefusals)
        except msgspec.ValidationError:
            kept = None
        if kept is None or kept.within_ns < limit.within_ns:
            self._refusals = self._refusals.refused(at_ns=now_ns, times=limit.most)
            return
        for left_ns in sorted(kept.left_ns):
            passed_ns = max(0, kept.within_ns - left_ns)
            until_ns = now_ns - passed_ns + limit.within_ns
            if until_ns >= now_ns:
                self._refusals = self._refusals.refused(at_ns=until_ns - limit.within_ns)
        self._refusals = self._refusals.refused(at_ns=now_ns, times=min(limit.most, max(0, kept.unheard)))
