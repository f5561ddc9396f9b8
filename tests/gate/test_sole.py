"""Do several processes on one store keep one limit on refusals? One of them sends, and the others stand by."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from remora.contracts import LeaderLease
from remora.core.errors import StoreError, StoreUnavailable
from remora.core.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.gate.governor import Governor
from remora.gate.shared import SharedHome
from remora.gate.sole import SoleHome, SoleRight
from remora.sim.clock import SimClock
from remora.sim.crash import Crashed, Generation
from remora.sim.meter import CountingMeter
from remora.sim.sharing import SimGate, SimNames, SimSharing
from tests.gate.rig import SOURCE, Answer, Gate, simulated
from tests.gate.test_refusal_limit import FOUR, Banning, limits

TAKEN_OVER_NS = 15 * SECOND_NS
End = Callable[[SimClock, "Process"], None]


@dataclass
class Store:
    """What several processes share."""

    clock: SimClock
    gate: SimGate = field(init=False)
    names: SimNames = field(default_factory=SimNames)

    def __post_init__(self) -> None:
        self.gate = SimGate(self.clock)


@dataclass
class Process:
    """A process that sends as much as it may, with four requests in flight."""

    store: Store
    says: Banning
    has_right: bool = True
    life: Generation = field(default_factory=Generation)
    sent_at_ns: list[int] = field(default_factory=list)
    task: "asyncio.Task[None]" = field(init=False)

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self._live())

    async def _live(self) -> None:
        with suppress(Crashed):
            await self.life.live(self._run())

    async def _run(self) -> None:
        clock = self.store.clock.restarted()
        right = SoleRight(SimSharing(self.store.gate, self.store.names, clock).leader_lease("send"))
        if self.has_right:
            await right.run(lambda: self._send(clock, right))
        else:
            await self._send(clock, None)

    async def _send(self, clock: SimClock, right: SoleRight | None) -> None:
        interval_ns = limits(4).ceiling_interval_ns
        home = SharedHome(SOURCE, self.life.guard(self.store.gate), ceiling_interval_ns=interval_ns, clock=clock)
        governor = Governor(
            SOURCE,
            limits(4),
            clock=clock,
            home=home if right is None else SoleHome(home, right),
            meter=CountingMeter(),
            chance=self.store.clock.random.random,
        )
        await governor.open()
        try:
            gate = Gate(clock, governor, self._answer)
            await asyncio.gather(*(self._for_ever(gate) for _ in range(8)))
        finally:
            await governor.close()

    def _answer(self, now_ns: int) -> Answer:
        del now_ns  # of the process; the provider has its own clock
        self.sent_at_ns.append(self.store.clock.true_ns())
        return self.says(self.store.clock.true_ns())

    async def _for_ever(self, gate: Gate) -> None:
        while True:
            await gate.send()


def killed(_: SimClock, process: Process) -> None:
    process.life.crash()


def stopped(_: SimClock, process: Process) -> None:
    process.task.cancel()


def frozen(clock: SimClock, process: Process) -> None:
    clock.suspend(process.life, 40 * SECOND_NS)


async def two_processes(
    clock: SimClock, provider: Banning, end: End, *, has_right: bool = True
) -> tuple[Process, Process]:
    """Both run for four minutes. Something happens to the first one after half a minute."""
    store = Store(clock)
    one, other = Process(store, provider, has_right), Process(store, provider, has_right)
    one.start()
    await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
    other.start()
    await clock.sleep_until(clock.monotonic_ns() + 30 * SECOND_NS)
    end(clock, one)
    await clock.sleep_until(clock.monotonic_ns() + 4 * MINUTE_NS)
    for process in (one, other):
        process.task.cancel()
    await asyncio.gather(one.task, other.task, return_exceptions=True)
    return one, other


@pytest.mark.slow
@pytest.mark.parametrize("end", [killed, stopped, frozen])
@pytest.mark.parametrize("per_s", [10.0, 0.0], ids=["ten per second", "nothing"])
def test_two_processes_together_are_never_refused_more_often_than_allowed(end: End, per_s: float) -> None:
    async def main(clock: SimClock) -> None:
        provider = Banning(per_s, latency_ns=100 * MILLISECOND_NS)
        one, other = await two_processes(clock, provider, end)
        assert 0 < provider.worst_minute <= FOUR.most
        assert one.sent_at_ns
        assert other.sent_at_ns, "nobody took over"
        # After the first one the other counts what may have been in flight, so it waits for up to one span.
        waited_ns = other.sent_at_ns[0] - max(at_ns for at_ns in one.sent_at_ns if at_ns < other.sent_at_ns[0])
        assert waited_ns <= TAKEN_OVER_NS + FOUR.within_ns + 20 * SECOND_NS

    simulated(main)


@pytest.mark.slow
def test_two_processes_that_count_for_themselves_are_refused_more_often() -> None:
    async def main(clock: SimClock) -> None:
        provider = Banning(latency_ns=100 * MILLISECOND_NS)
        await two_processes(clock, provider, killed, has_right=False)
        assert provider.worst_minute > FOUR.most

    simulated(main)


# ── the right ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Lease:
    """`contracts.LeaderLease` that a test gives and takes."""

    def __init__(self) -> None:
        self.given = asyncio.Event()
        self.taken = asyncio.Event()
        self.is_held = False
        self.unanswered: StoreError | None = None

    def holds(self) -> bool:
        return self.is_held

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self.given.wait()
            self.is_held = True
            working = asyncio.ensure_future(work())
            try:
                await self.taken.wait()
            finally:
                self.is_held = False
                working.cancel()
                await asyncio.wait([working])

    def give(self) -> None:
        self.taken.clear()
        self.given.set()

    def take(self) -> None:
        self.given.clear()
        self.taken.set()


class Works:
    """Counts who works, and who has ended."""

    def __init__(self, *, ends_slowly: bool = False) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self._ends_slowly = ends_slowly

    async def of(self, name: str) -> None:
        self.begun.append(name)
        try:
            await asyncio.Event().wait()
        finally:
            if self._ends_slowly and name == "slow":
                await asyncio.sleep(60)
            self.ended.append(name)


def in_tasks(right: LeaderLease, works: Works, *names: str) -> "list[asyncio.Task[None]]":
    loop = asyncio.get_running_loop()
    return [loop.create_task(right.run(lambda name=name: works.of(name))) for name in names]  # type: ignore[misc]


async def end(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_all_sources_of_an_account_work_while_their_process_has_the_right() -> None:
    async def main(_: SimClock) -> None:
        lease, works = Lease(), Works()
        right = SoleRight(lease)
        tasks = in_tasks(right, works, "issues", "pulls")
        await asyncio.sleep(1)
        assert not works.begun
        assert not right.holds()
        lease.give()
        await asyncio.sleep(1)
        assert works.begun == ["issues", "pulls"]
        assert right.holds()
        lease.take()
        await asyncio.sleep(1)
        assert sorted(works.ended) == ["issues", "pulls"]
        assert not right.holds()
        lease.give()
        await asyncio.sleep(1)
        assert works.begun == ["issues", "pulls"] * 2
        await end(tasks)
        assert not lease.is_held, "the last one gives it back"

    simulated(main)


def test_nothing_begins_again_before_all_has_ended() -> None:
    async def main(_: SimClock) -> None:
        lease, works = Lease(), Works(ends_slowly=True)
        tasks = in_tasks(SoleRight(lease), works, "quick", "slow")
        lease.give()
        await asyncio.sleep(1)
        lease.take()
        lease.give()  # at once, to the same process
        await asyncio.sleep(30)
        assert works.begun == ["quick", "slow"]
        await asyncio.sleep(60)
        assert works.begun == ["quick", "slow", "quick", "slow"]
        await end(tasks)

    simulated(main)


def test_a_run_that_is_cancelled_while_its_work_ends_leaves_nothing_behind() -> None:
    async def main(_: SimClock) -> None:
        lease, works = Lease(), Works(ends_slowly=True)
        tasks = in_tasks(SoleRight(lease), works, "slow")
        lease.give()
        await asyncio.sleep(1)
        lease.take()
        await asyncio.sleep(1)
        await end(tasks)
        assert works.ended == ["slow"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    simulated(main)


def test_work_that_is_done_ends_the_run_and_work_that_fails_fails_it() -> None:
    async def main(_: SimClock) -> None:
        lease = Lease()
        lease.give()
        right = SoleRight(lease)

        async def done() -> None:
            assert right.holds()

        async def broken() -> None:
            raise ValueError("our own mistake")

        await right.run(done)
        with pytest.raises(ValueError, match="our own mistake"):
            await right.run(broken)
        assert not lease.is_held

    simulated(main)


def test_a_lease_that_fails_fails_whoever_waits_for_it() -> None:
    class Broken(Lease):
        async def run(self, work: Callable[[], Awaitable[None]]) -> None:
            del work
            raise StoreUnavailable("the database is gone", hint="wait")

    async def main(_: SimClock) -> None:
        works = Works()
        with pytest.raises(StoreUnavailable):
            await SoleRight(Broken()).run(lambda: works.of("issues"))
        assert not works.begun

    simulated(main)


def test_a_process_that_lost_the_right_unnoticed_neither_sends_nor_stores() -> None:
    async def main(clock: SimClock) -> None:
        store, lease = Store(clock), Lease()
        inner = SharedHome(SOURCE, store.gate, ceiling_interval_ns=limits(4).ceiling_interval_ns, clock=clock)
        home = SoleHome(inner, lease)
        governor = Governor(
            SOURCE, limits(4), clock=clock, home=home, meter=CountingMeter(), chance=clock.random.random
        )
        lease.is_held = True
        await governor.open()
        gate = Gate(clock, governor, Banning(10.0))
        await gate.send()
        lease.is_held = False
        sending = asyncio.get_running_loop().create_task(gate.send())
        await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
        assert len(gate.departures) == 1
        with pytest.raises(StoreUnavailable):
            await home.share({}, interval_ns=1, not_before_in_ns=0, seen_version=0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await governor.close()

    simulated(main)


def test_a_right_that_a_late_heartbeat_renews_is_used_again() -> None:
    async def main(clock: SimClock) -> None:
        store, lease = Store(clock), Lease()
        inner = SharedHome(SOURCE, store.gate, ceiling_interval_ns=limits(4).ceiling_interval_ns, clock=clock)
        home = SoleHome(inner, lease)
        governor = Governor(
            SOURCE, limits(4), clock=clock, home=home, meter=CountingMeter(), chance=clock.random.random
        )
        lease.is_held = True
        await governor.open()
        gate = Gate(clock, governor, Banning(10.0))
        await gate.send()
        lease.is_held = False
        sending = asyncio.get_running_loop().create_task(gate.send())
        await clock.sleep_until(clock.monotonic_ns() + 5 * SECOND_NS)
        assert not sending.done()
        lease.is_held = True
        await clock.sleep_until(clock.monotonic_ns() + 5 * SECOND_NS)
        assert sending.done()
        await governor.close()

    simulated(main)
