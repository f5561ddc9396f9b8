"""What does a gate need around it in a test? A provider that answers as it is told, in virtual time, and a record of departures."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from remora.contracts import Json, PaceBook
from remora.core.errors import StoreUnavailable
from remora.core.item import Newest, Readable
from remora.core.lanes import Lane
from remora.core.rate.law import cold_start
from remora.core.rate.pace_record import record_to_json, to_record
from remora.core.rate.pacing import burst_allowance
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Fault, NoReply, Reply, Verdict, classify, has_content
from remora.gate.governor import GovernedPermit, Governor, Limits
from remora.gate.local import LocalHome
from remora.sim.clock import SimClock, run
from remora.sim.crash import Crashed, Generation
from remora.sim.meter import CountingMeter

T = TypeVar("T")
SOURCE = "chats"
LATENCY_NS = 20 * MILLISECOND_NS
QUARTERS = Limits(ceiling_interval_ns=SECOND_NS // 4)


@dataclass
class Book:
    """A pace book that remembers every save, and can be made to fail."""

    clock: SimClock
    record: Json = None
    saved_at_ns: list[int] = field(default_factory=list)
    is_down: bool = False

    async def load_pace(self, source: str) -> Json:
        return self.record

    async def save_pace(self, source: str, record: Mapping[str, Json]) -> None:
        if self.is_down:
            raise StoreUnavailable("the store does not answer", hint="wait")
        self.record = dict(record)
        self.saved_at_ns.append(self.clock.monotonic_ns())


def warm(clock: SimClock, limits: Limits) -> Book:
    """The book of a run that ended at the ceiling a moment ago."""
    cold = cold_start(ceiling_interval_ns=limits.ceiling_interval_ns, now_ns=clock.monotonic_ns())
    rate_per_s = SECOND_NS / limits.ceiling_interval_ns
    pace = replace(cold, rate_per_s=rate_per_s, octave_per_s=rate_per_s)
    record = to_record(pace, now_ns=clock.monotonic_ns(), now_wall_ns=clock.wall_ns())
    return Book(clock, {"pace": cast("Json", record_to_json(record))})


@dataclass(frozen=True)
class Answer:
    """What the provider says to one request."""

    status: int = 200
    retry_after: str | None = None
    latency_ns: int = LATENCY_NS
    fault: Fault | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    late_ns: int = 0  # how late our own event loop read it


GOOD = Answer()
PRESSED = Answer(429)
BROKEN = Answer(500)
REFUSED = Answer(403)
Says = Callable[[int], Answer]


def always(answer: Answer) -> Says:
    return lambda _now_ns: answer


def one_by_one(answers: Iterable[Answer], *, then: Answer = GOOD) -> Says:
    left = iter(answers)
    return lambda _now_ns: next(left, then)


@dataclass
class Gate:
    """One life of a governor, and what left through it."""

    clock: SimClock
    governor: Governor
    says: Says
    departures: list[tuple[int, Lane]] = field(default_factory=list)
    in_flight: int = 0
    in_flight_most: int = 0

    @property
    def left_at_ns(self) -> list[int]:
        return [at_ns for at_ns, _ in self.departures]

    async def send(self, lane: Lane = Lane.LIVE, *, connect_ns: int = 0, already_counted: bool = False) -> Verdict:
        """One request from its turn to its lesson."""
        async with self.governor.admit(lane) as permit:
            if connect_ns:
                await self.clock.sleep_until(self.clock.monotonic_ns() + connect_ns)
            return await self.exchange(permit, already_counted=already_counted)

    async def exchange(self, permit: GovernedPermit, *, already_counted: bool = False) -> Verdict:
        departed_at_ns = await permit.depart()
        self.departures.append((departed_at_ns, permit.lane))
        answer = self.says(departed_at_ns)
        self.in_flight += 1
        self.in_flight_most = max(self.in_flight_most, self.in_flight)
        try:
            await self.clock.sleep_until(departed_at_ns + answer.latency_ns)
        finally:
            self.in_flight -= 1
        reply = self._reply(answer, departed_at_ns)
        decoded = Readable(Newest(1)) if has_content(reply) else None
        verdict = classify(reply, decoded, behind_newest=None, now_wall_ns=self.clock.wall_ns())
        self.governor.learn(permit, reply, verdict, already_counted=already_counted)
        return verdict

    def _reply(self, answer: Answer, departed_at_ns: int) -> Reply | NoReply:
        now_ns = self.clock.monotonic_ns()
        if answer.fault is not None:
            return NoReply(answer.fault, departed_at_ns, now_ns)
        headers = {**answer.headers}
        if answer.retry_after is not None:
            headers["retry-after"] = answer.retry_after
        return Reply(answer.status, b"", departed_at_ns, now_ns, headers, answer.late_ns)

    async def send_many(self, count: int, lane: Lane = Lane.LIVE, *, workers: int = 1) -> None:
        left = iter(range(count))

        async def work() -> None:
            for _ in left:
                await self.send(lane)

        await asyncio.gather(*(work() for _ in range(workers)))

    async def send_until(self, until_ns: int, lane: Lane = Lane.LIVE, *, workers: int = 1) -> None:
        """Saturate a lane until a moment."""

        async def work() -> None:
            while self.clock.monotonic_ns() < until_ns:
                await self.send(lane)

        working = [asyncio.get_running_loop().create_task(work()) for _ in range(workers)]
        await self.clock.sleep_until(until_ns)
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


@asynccontextmanager
async def gate(
    clock: SimClock,
    limits: Limits,
    *,
    says: Says | None = None,
    book: PaceBook | None = None,
    chance: Callable[[], float] | None = None,
) -> AsyncIterator[Gate]:
    """A governor from open to close."""
    governor = Governor(
        SOURCE,
        limits,
        clock=clock,
        home=LocalHome(SOURCE, book or Book(clock)),
        meter=CountingMeter(),
        chance=chance or clock.random.random,
    )
    await governor.open()
    try:
        yield Gate(clock, governor, says or always(GOOD))
    finally:
        await governor.close()


async def crashing(clock: SimClock, book: Book, *, says: Says, for_ns: int, limits: Limits = QUARTERS) -> Gate:
    """One life of a process that is killed without closing anything."""
    life = Generation()
    governor = Governor(
        SOURCE,
        limits,
        clock=clock,
        home=LocalHome(SOURCE, life.guard(book)),
        meter=CountingMeter(),
        chance=clock.random.random,
    )
    process = Gate(clock, governor, says)

    async def main() -> None:
        await governor.open()
        while True:
            await process.send()

    running = asyncio.ensure_future(life.live(main()))
    await clock.sleep_until(clock.monotonic_ns() + for_ns)
    life.crash()
    with suppress(Crashed):
        await running
    return process


def simulated(main: Callable[[SimClock], Awaitable[T]], *, seed: int = 0) -> T:
    return run(main, seed=seed)


def worst_excess_ns(left_at_ns: list[int], interval_ns: int) -> int:
    """How far the fullest window exceeds `burst + T / F`; 0 when the ceiling was kept. Linear in the departures."""
    worst, debt = 0, 0
    previous: int | None = None
    for at_ns in left_at_ns:
        debt = max(0, debt - (at_ns - previous if previous is not None else 0)) + interval_ns
        worst = max(worst, debt - burst_allowance(interval_ns) * interval_ns)
        previous = at_ns
    return worst
