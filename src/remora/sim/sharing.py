"""How do simulated processes share one gate and elect a leader? As with PostgreSQL, but in memory and in virtual time.

Every question takes a round trip, and the store may be unreachable for a while. What was granted to a killed process is
spent, as in the database. The shared clock can be set, and the row can be lost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from remora.contracts import Clock, Json, SharedPace
from remora.core.errors import StoreUnavailable
from remora.core.rate.pacing import burst_allowance
from remora.core.rate.stretches import AHEAD_NS, Grant, Question
from remora.core.units import MILLISECOND_NS, SECOND_NS

ROUND_TRIP_NS: Final = MILLISECOND_NS
# A process that has not reported its probe's answer by then is dead or unreachable.
PROBE_AT_MOST_NS: Final = 90 * SECOND_NS
LEASE_NS: Final = 9 * SECOND_NS
ASK_EVERY_NS: Final = 2 * SECOND_NS  # as with PostgreSQL


@dataclass(slots=True)
class _Row:
    """How much of one source's time has been granted."""

    next_ns: int
    pace_next_ns: int
    shut_until_ns: int = 0  # 0: it is open
    cool_down_ns: int = 0


@dataclass(slots=True)
class _Known:
    """What all processes know about one source; it outlives the row."""

    pace: SharedPace = field(default_factory=SharedPace)
    not_before_ns: int = 0


class SimGate:
    """`contracts.GateStore` in memory; `is_down` makes it unreachable."""

    def __init__(self, clock: Clock, *, round_trip_ns: int = ROUND_TRIP_NS) -> None:
        self._clock = clock
        self._round_trip_ns = round_trip_ns
        self._rows: dict[str, _Row] = {}
        self._known: dict[str, _Known] = {}
        self._listening: list[tuple[str, str, Callable[[], None]]] = []
        self.set_by_ns = 0  # how far the shared clock was set ahead
        self.is_down = False
        self.questions = 0

    def lose_rows(self) -> None:
        """The server crashed: unlogged rows are lost."""
        self._rows.clear()

    async def borrow(self, source: str, question: Question, *, seen_version: int) -> tuple[Grant, SharedPace]:
        """Grant the next stretch after all stretches granted so far."""
        await self._travel()
        self.questions += 1
        grant, pace = self.grant(source, question)
        await self._travel()
        return grant, pace if pace.version > seen_version else replace(pace, record=None)

    async def return_probe(self, source: str) -> None:
        """Give back a granted probe that was not sent: any process may have it."""
        await self._travel()
        if (row := self._rows.get(source)) is not None and row.shut_until_ns:
            row.shut_until_ns = min(row.shut_until_ns, self._now_ns())

    async def share(
        self,
        source: str,
        *,
        record: Mapping[str, Json],
        interval_ns: int,
        not_before_in_ns: int = 0,
        seen_version: int | None = None,
    ) -> tuple[bool, SharedPace]:
        """Keep what one process learned; a process with an outdated version can only slow the pace down."""
        await self._travel()
        known, now_ns = self._known.setdefault(source, _Known()), self._now_ns()
        kept = known.pace
        was_taken = seen_version is None or seen_version == kept.version
        known.pace = replace(
            kept,
            record=dict(record) if was_taken else kept.record,
            interval_ns=interval_ns if was_taken else max(kept.interval_ns, interval_ns),
            version=kept.version + was_taken,
        )
        if not_before_in_ns:
            known.not_before_ns = max(known.not_before_ns, now_ns + not_before_in_ns)
        return was_taken, self._pace(known, now_ns)

    async def announce(self, source: str, *, sender: str) -> None:
        """Tell all processes to give up their grants and ask again."""
        await self._travel()
        for about, name, heard in list(self._listening):
            if about == source and name != sender:
                heard()

    async def listen(self, source: str, *, sender: str, heard: Callable[[], None]) -> None:
        """Call `heard` whenever another process announces something."""
        entry = (source, sender, heard)
        self._listening.append(entry)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._listening.remove(entry)

    async def look(self, source: str) -> SharedPace:
        """What all processes know."""
        await self._travel()
        row, now_ns = self._rows.get(source), self._now_ns()
        return replace(
            self._pace(self._known.get(source, _Known()), now_ns),
            ahead_ns=now_ns - self._clock.monotonic_ns(),
            idle_ns=None if row is None else max(0, now_ns - row.next_ns),
        )

    async def shut(self, source: str, *, for_ns: int, cool_down_ns: int, was_prober: bool) -> None:
        """Grant nothing for this time, and then one probe."""
        await self._travel()
        if (row := self._rows.get(source)) is not None:
            until_ns = self._now_ns() + for_ns
            row.shut_until_ns = until_ns if was_prober else max(row.shut_until_ns, until_ns)
            row.cool_down_ns = max(row.cool_down_ns, cool_down_ns)

    async def open_again(self, source: str) -> None:
        """Grant as usual again."""
        await self._travel()
        if (row := self._rows.get(source)) is not None:
            row.shut_until_ns = row.cool_down_ns = 0

    def grant(self, source: str, question: Question) -> tuple[Grant, SharedPace]:
        """The steps of `borrow` in `gate.sql`, without a pause between them."""
        now_ns, ceiling_ns = self._now_ns(), question.ceiling_interval_ns
        row, known = self._row(source, question, now_ns), self._known.setdefault(source, _Known())
        interval_ns = max(question.interval_ns, known.pace.interval_ns)
        reach_ns = now_ns + question.reach_ns
        row.next_ns = reach_ns if question.was_set_forward else min(row.next_ns, reach_ns)
        row.pace_next_ns = min(row.pace_next_ns, max(row.next_ns, now_ns) + interval_ns)
        behind_ns = max(row.next_ns, row.pace_next_ns)
        pace = replace(
            self._pace(known, now_ns),
            shut_in_ns=max(1, row.shut_until_ns - now_ns) if row.shut_until_ns else 0,
            cool_down_ns=row.cool_down_ns,
        )
        if max(known.not_before_ns, row.shut_until_ns) > now_ns or behind_ns > now_ns + AHEAD_NS:
            again_ns = max(known.not_before_ns, row.shut_until_ns, behind_ns - AHEAD_NS)
            return Grant(0, now_ns, again_ns, again_ns, interval_ns), pace
        is_probe = row.shut_until_ns > 0
        continues = question.mine_ns == row.next_ns == behind_ns and row.next_ns > now_ns and not is_probe
        count = 1 if is_probe else min(question.want, max(1, question.block_ns // interval_ns))
        starts_ns = row.next_ns if continues else max(behind_ns, now_ns + question.lead_ns)
        length_ns = count * interval_ns
        if length_ns > question.block_ns:
            length_ns = ceiling_ns + min((interval_ns - ceiling_ns) // 16, question.block_ns // 2)
        ends_ns = starts_ns + length_ns + (0 if continues else question.spare_ns)
        row.next_ns, row.pace_next_ns = ends_ns, starts_ns + count * interval_ns
        if is_probe:
            row.shut_until_ns, pace = starts_ns + PROBE_AT_MOST_NS, replace(pace, shut_in_ns=None)
        binds = continues or behind_ns > now_ns + question.lead_ns
        return Grant(count, now_ns, starts_ns, ends_ns, interval_ns, binds, is_probe), pace

    def _row(self, source: str, question: Question, now_ns: int) -> _Row:
        if source not in self._rows:
            burst_ns = question.ceiling_interval_ns * burst_allowance(question.ceiling_interval_ns)
            first_ns = now_ns + (question.reach_ns if source in self._known else burst_ns)
            self._rows[source] = _Row(first_ns, first_ns)
        return self._rows[source]

    def _now_ns(self) -> int:
        return self._clock.monotonic_ns() + self.set_by_ns

    async def _travel(self) -> None:
        await self._clock.sleep_until(self._clock.monotonic_ns() + self._round_trip_ns // 2)
        if self.is_down:
            raise StoreUnavailable("the simulated store does not answer", hint="wait")

    def _pace(self, known: _Known, now_ns: int) -> SharedPace:
        return replace(known.pace, not_before_in_ns=max(0, known.not_before_ns - now_ns))


@dataclass(slots=True)
class _Lease:
    holder: object = None
    until_ns: int = 0


class SimLease:
    """`contracts.LeaderLease` in memory: a dead holder keeps the name until its lease has ended."""

    def __init__(self, lease: _Lease, clock: Clock) -> None:
        self._lease = lease
        self._clock = clock

    @property
    def unanswered(self) -> None:
        """Memory always answers."""

    def holds(self) -> bool:
        """Whether this process is the leader right now."""
        return self._lease.holder is self and self._clock.monotonic_ns() < self._lease.until_ns

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease and do the work."""
        while True:
            await self._until_free()
            self._lease.holder, self._lease.until_ns = self, self._clock.monotonic_ns() + LEASE_NS
            working = asyncio.ensure_future(work())
            try:
                await self._beat_while(working)
                if working.done():
                    return working.result()
            finally:
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)

    async def _until_free(self) -> None:
        """Ask every two seconds. In simulated time questions that cannot be answered yet are left out."""
        while self._lease.holder is not None and (left_ns := self._lease.until_ns - self._clock.monotonic_ns()) > 0:
            questions = -(-left_ns // ASK_EVERY_NS)
            await self._clock.sleep_until(self._clock.monotonic_ns() + questions * ASK_EVERY_NS)

    async def _beat_while(self, working: "asyncio.Future[None]") -> None:
        """Until the work is done, or the lease has ended: a suspended process finds that out when it goes on."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        timer: asyncio.TimerHandle | None = None

        def end(_: object = None) -> None:
            if not ended.done():
                ended.set_result(None)

        def beat() -> None:  # a timer and not a task: worlds live for days, and this is most of what happens in them
            nonlocal timer
            if self.holds():
                self._lease.until_ns = self._clock.monotonic_ns() + LEASE_NS
                timer = loop.call_later(ASK_EVERY_NS / SECOND_NS, beat)
            else:
                end()

        working.add_done_callback(end)
        beat()
        try:
            await ended
        finally:
            if timer is not None:
                timer.cancel()


class SimNames:
    """Who holds which name, for all simulated processes."""

    def __init__(self) -> None:
        self._leases: dict[str, _Lease] = {}

    def lease(self, name: str) -> _Lease:
        """The lease that all processes contend for."""
        return self._leases.setdefault(name, _Lease())


class SimSharing:
    """`contracts.Sharing` for simulated processes: one object per process, all with the same gate and names."""

    def __init__(self, gate_store: SimGate, names: SimNames, clock: Clock) -> None:
        self.gate_store = gate_store
        self._names = names
        self._clock = clock

    def leader_lease(self, name: str) -> SimLease:
        """The right to do the work with this name."""
        return SimLease(self._names.lease(name), self._clock)

    async def close(self) -> None:
        """Nothing to close."""
