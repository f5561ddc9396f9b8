"""How do simulated processes share one gate, and who of them is the one? What PostgreSQL does, in memory and virtual time.

Every question takes a round trip, and the store may be out of reach for a while. What a killed process had planned is
spent, as it is in the database: a plan is made before anything leaves.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from remora.contracts import Clock, Json, SharedPace
from remora.core.errors import StoreUnavailable
from remora.core.rate.pacing import burst_allowance
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.stores.slots import (
    AHEAD_AT_MOST_NS,
    LATE_AT_MOST_NS,
    OPEN_AT_MOST_NS,
    PROBE_AT_MOST_NS,
    WINDOW_NS,
    Reservation,
    Slots,
    Turn,
)

ROUND_TRIP_NS: Final = MILLISECOND_NS
LEASE_NS: Final = 9 * SECOND_NS
ASK_EVERY_NS: Final = SECOND_NS


@dataclass(slots=True)
class _Row:
    """What all processes share about one source."""

    next_ns: int
    pace: SharedPace = field(default_factory=SharedPace)
    not_before_ns: int = 0
    shut_until_ns: int = 0  # 0: it is open
    cool_down_ns: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class SimPlans:
    """`stores.slots.Plans` in memory."""

    def __init__(self, clock: Clock, *, round_trip_ns: int = ROUND_TRIP_NS) -> None:
        self._clock = clock
        self._round_trip_ns = round_trip_ns
        self._rows: dict[str, _Row] = {}
        self.is_down = False
        self.reservations = 0

    async def reserve(self, source: str, *, ceiling_interval_ns: int, want: int, interval_ns: int = 0) -> Reservation:
        """A window with up to `want` departures."""
        assert want > 0, f"a reservation of {want} departures"
        row = await self._row(source, ceiling_interval_ns)
        return await self._plan(row, max(ceiling_interval_ns, interval_ns), want=want, late_ns=None)

    @asynccontextmanager
    async def hold(self, source: str, *, ceiling_interval_ns: int, interval_ns: int = 0) -> AsyncIterator[Turn]:
        """Wait for the only turn and hold it while the body sends."""
        row = await self._row(source, ceiling_interval_ns)
        async with row.turn:
            plan = await self._plan(row, max(ceiling_interval_ns, interval_ns), want=1, late_ns=LATE_AT_MOST_NS)
            turn = Turn(plan)
            if plan.count:
                await self._clock.sleep_until(plan.starts_at_ns)
            try:
                yield turn
            finally:
                if plan.count and row.next_ns == plan.next_ns:
                    left_ns = turn.departed_at_ns
                    row.next_ns = plan.starts_at_ns if left_ns is None else left_ns + plan.interval_ns
                    if plan.is_probe and left_ns is None:
                        row.shut_until_ns = self._clock.monotonic_ns()

    async def share(
        self,
        source: str,
        *,
        record: Mapping[str, Json],
        interval_ns: int,
        not_before_in_ns: int = 0,
        seen_version: int | None = None,
    ) -> tuple[bool, SharedPace]:
        """Tell all processes what this one learned; an outdated version only ever makes it slower."""
        row = await self._row(source, interval_ns)
        kept, now_ns = row.pace, self._clock.monotonic_ns()
        was_taken = seen_version is None or seen_version == kept.version
        row.pace = replace(
            kept,
            record=dict(record) if was_taken else kept.record,
            interval_ns=interval_ns if was_taken else max(kept.interval_ns, interval_ns),
            version=kept.version + was_taken,
        )
        if not_before_in_ns:
            row.not_before_ns = max(row.not_before_ns, now_ns + not_before_in_ns)
        if was_taken:
            row.next_ns = min(row.next_ns, now_ns + AHEAD_AT_MOST_NS + OPEN_AT_MOST_NS + interval_ns)
        return was_taken, self._known(row, now_ns)

    async def look(self, source: str) -> SharedPace:
        """What all processes know."""
        await self._ask()
        row, now_ns = self._rows.get(source), self._clock.monotonic_ns()
        return SharedPace() if row is None else replace(self._known(row, now_ns), idle_ns=max(0, now_ns - row.next_ns))

    async def shut(self, source: str, *, for_ns: int, cool_down_ns: int, was_prober: bool) -> None:
        """Nobody leaves for so long, and then one probe."""
        row, until_ns = await self._row(source, SECOND_NS), self._clock.monotonic_ns() + for_ns
        row.shut_until_ns = until_ns if was_prober else max(row.shut_until_ns, until_ns)
        row.cool_down_ns = max(row.cool_down_ns, cool_down_ns)

    async def open_again(self, source: str) -> None:
        """All leave as they did before it was shut."""
        row = await self._row(source, SECOND_NS)
        row.shut_until_ns = row.cool_down_ns = 0

    async def _plan(self, row: _Row, interval_ns: int, *, want: int, late_ns: int | None) -> Reservation:
        await self._ask()
        now_ns = self._clock.monotonic_ns()
        interval_ns = max(interval_ns, row.pace.interval_ns)
        start_ns = max(now_ns, row.next_ns)
        pace = self._known(row, now_ns)
        # Only a turn may be the probe of an open circuit: what nobody uses of it is given back.
        is_shut = row.shut_until_ns > 0 and (row.shut_until_ns > now_ns or late_ns is None)
        if row.not_before_ns > now_ns or start_ns > now_ns + AHEAD_AT_MOST_NS or is_shut:
            again_ns = max(row.not_before_ns, start_ns - AHEAD_AT_MOST_NS // 2, row.shut_until_ns)
            return Reservation(0, again_ns, again_ns, interval_ns, pace, row.next_ns)
        count = min(want, max(1, WINDOW_NS // interval_ns))
        open_ns = min(count * interval_ns, OPEN_AT_MOST_NS) if late_ns is None else late_ns
        row.next_ns = start_ns + (count * interval_ns if late_ns is None else late_ns + interval_ns)
        self.reservations += 1
        is_probe = row.shut_until_ns > 0
        if is_probe:
            row.shut_until_ns, pace = start_ns + PROBE_AT_MOST_NS, replace(pace, shut_in_ns=None)
        binds = start_ns > now_ns
        return Reservation(count, start_ns, start_ns + open_ns, interval_ns, pace, row.next_ns, binds, is_probe)

    async def _row(self, source: str, ceiling_interval_ns: int) -> _Row:
        await self._ask()
        if source not in self._rows:
            first_in_ns = ceiling_interval_ns * burst_allowance(ceiling_interval_ns)
            self._rows[source] = _Row(self._clock.monotonic_ns() + first_in_ns)
        return self._rows[source]

    async def _ask(self) -> None:
        await self._clock.sleep_until(self._clock.monotonic_ns() + self._round_trip_ns)
        if self.is_down:
            raise StoreUnavailable("the simulated store does not answer", hint="wait")

    def _known(self, row: _Row, now_ns: int) -> SharedPace:
        return replace(
            row.pace,
            not_before_in_ns=max(0, row.not_before_ns - now_ns),
            shut_in_ns=max(1, row.shut_until_ns - now_ns) if row.shut_until_ns else 0,
            cool_down_ns=row.cool_down_ns,
        )


@dataclass(slots=True)
class _Lease:
    holder: object = None
    until_ns: int = 0


class SimAlone:
    """`fleet.Alone` in memory: a holder that dies keeps the name until its lease has ended."""

    def __init__(self, lease: _Lease, clock: Clock) -> None:
        self._lease = lease
        self._clock = clock

    def holds(self) -> bool:
        """Whether this process is the one right now."""
        return self._lease.holder is self and self._clock.monotonic_ns() < self._lease.until_ns

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait to be the one and do the work."""
        while self._lease.holder is not None and self._clock.monotonic_ns() < self._lease.until_ns:
            await self._clock.sleep_until(self._clock.monotonic_ns() + ASK_EVERY_NS)
        self._lease.holder = self
        beating = asyncio.get_running_loop().create_task(self._beat())
        try:
            await work()
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            self._lease.until_ns = self._clock.monotonic_ns() + LEASE_NS
            await self._clock.sleep_until(self._clock.monotonic_ns() + ASK_EVERY_NS)


class SimNames:
    """Who holds which name, for all simulated processes."""

    def __init__(self) -> None:
        self._leases: dict[str, _Lease] = {}

    def lease(self, name: str) -> _Lease:
        """The lease that all processes contend for."""
        return self._leases.setdefault(name, _Lease())


class SimFleet:
    """`fleet.Fleet` of simulated processes: each gets its own, on the plans and names that all share."""

    def __init__(self, plans: SimPlans, names: SimNames, clock: Clock) -> None:
        self._plans = plans
        self._names = names
        self._clock = clock

    def common_gate(self, source: str, *, ceiling_interval_ns: int) -> Slots:
        """The gate of all simulated processes."""
        return Slots(self._plans, source, ceiling_interval_ns=ceiling_interval_ns, clock=self._clock)

    def alone(self, name: str) -> SimAlone:
        """The right to do what has this name."""
        return SimAlone(self._names.lease(name), self._clock)

    async def close(self) -> None:
        """Nothing to let go of."""
