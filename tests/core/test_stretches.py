"""Does one ceiling hold whatever clocks, round trips, stalls, kills, clock steps and crashes do? In simulated time.

The rule of each process as it is, against the simulated gate store as it is. What is not simulated: a freeze between the
last look at the clock and the send that lasts longer than `SEND_NS`, at the very end of a stretch.
"""

import heapq
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from remora.core.rate import stretches
from remora.core.rate.clock_offset import Ahead
from remora.core.rate.pacing import SEND_NS, Pacer, burst_allowance, interval_for, new_pacer
from remora.core.rate.stretches import AHEAD_NS, SENT_EVERY_NS, Grant, Question, Stretch, Stretches, reach_for
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.sim.checks import worst_window
from remora.sim.sharing import SimGate

SOURCE = "shared"
# The real difference between two disciplined clocks. A rate is only ever as exact as the clock that counts it.
DRIFT = 20e-6
RATES = [0.5, 4, 20, 100, 250, 1_000, 5_000]


class StoreClock:
    """The database's clock: what the world says, and what somebody set it to."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.set_by_ns = 5_000 * SECOND_NS

    def monotonic_ns(self) -> int:
        return self.now_ns + self.set_by_ns

    def wall_ns(self) -> int:
        return self.monotonic_ns()

    async def sleep_until(self, monotonic_ns: int) -> None:
        raise AssertionError(f"nothing sleeps here until {monotonic_ns}")

    async def sleep_exactly_until(self, monotonic_ns: int) -> None:
        await self.sleep_until(monotonic_ns)


class World:
    """Processes that share one gate, on clocks that drift, over a network that is sometimes slow."""

    def __init__(self, seed: int, rate: float, processes: int, *, rough: float) -> None:
        self.chance = random.Random(seed)
        self.interval_ns, self.rough = interval_for(rate), rough
        self.clock = StoreClock()
        self.store = SimGate(self.clock)
        self.departures: list[int] = []
        self.questions = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        for _ in range(processes):
            self.at(self.chance.randrange(SECOND_NS), Process(self).step)

    def at(self, at_ns: int, work: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (max(at_ns, self.clock.now_ns), self._count, work))

    def delay_ns(self) -> int:
        """Mostly short, sometimes tens of milliseconds, now and then seconds."""
        kind = self.chance.random()
        if kind < 0.0005 * self.rough:
            return self.chance.randrange(2 * SECOND_NS, 5 * SECOND_NS)
        if kind < 0.05 * self.rough:
            return self.chance.randrange(60 * MILLISECOND_NS)
        return int(self.chance.expovariate(1 / (0.2 * MILLISECOND_NS))) + 20_000

    def run(self, until_ns: int) -> None:
        while self._events and self._events[0][0] < until_ns:
            self.clock.now_ns, _, work = heapq.heappop(self._events)
            work()

    def something_happens(self) -> None:
        """The database's clock is set, back or forward, or its server crashes."""
        kind = self.chance.randrange(3)
        if kind == 2:
            self.store.lose_rows()
        else:
            self.clock.set_by_ns += (-1) ** kind * self.chance.randrange(20 * MILLISECOND_NS, 2 * SECOND_NS)

    @property
    def excess(self) -> float:
        exact_ns = int(self.interval_ns * (1 - 3 * DRIFT))
        return worst_window(self.departures, exact_ns, burst_allowance(self.interval_ns)).excess


class Process:
    """One process that always has something to send."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._rate = 1 + world.chance.uniform(-DRIFT, DRIFT)
        self._ahead_ns = world.chance.randrange(10**6 * SECOND_NS)
        self._begin()

    def _begin(self) -> None:
        self.held = Stretches(self.world.interval_ns)
        interval_ns = self.world.interval_ns
        self.pacer: Pacer = new_pacer(ceiling_interval_ns=interval_ns, interval_ns=interval_ns, now_ns=self.now_ns())
        self.inside: Stretch | None = None
        self.is_asking, self.life = False, object()

    def now_ns(self) -> int:
        return int(self.world.clock.now_ns * self._rate) + self._ahead_ns

    def step(self) -> None:
        world, now_ns = self.world, self.now_ns()
        if world.chance.random() < 0.0002 * world.rough:  # kill -9: what it held is nobody's
            self._begin()
            world.at(world.clock.now_ns + world.chance.randrange(SECOND_NS), self.step)
            return
        is_short = self.held.is_short(self.pacer, ready=1 << 20, now_ns=now_ns)
        if not self.is_asking and is_short and now_ns >= self.held.ask_at_ns:
            self.is_asking = True
            asked = self.held.question(interval_ns=0, ready=1 << 20, now_ns=now_ns)
            world.at(world.clock.now_ns + world.delay_ns(), partial(self.arrive, self.life, now_ns, asked))
        if self.stretch(now_ns) is not None and self.pacer.earliest_ns() <= now_ns:
            world.at(world.clock.now_ns + world.chance.randrange(SEND_NS // 2), lambda: self.send(now_ns))
            return
        self.nap(now_ns)

    def stretch(self, now_ns: int) -> Stretch | None:
        found = self.held.find(self.pacer, now_ns=now_ns)
        if found is not None and found is not self.inside:
            self.inside, self.pacer = found, self.pacer.starting_at(found.starts_ns)
        return found

    def send(self, looked_ns: int) -> None:
        self.world.departures.append(self.world.clock.now_ns)
        assert self.inside is not None
        before, self.pacer = self.pacer, self.pacer.departed(now_ns=looked_ns).sent(now_ns=self.now_ns())
        self.held.departed(self.inside, before, now_ns=self.now_ns())
        self.step()

    def arrive(self, life: object, asked_ns: int, question: Question) -> None:
        self.world.questions += 1
        grant, _ = self.world.store.grant(SOURCE, question)
        self.world.at(self.world.clock.now_ns + self.world.delay_ns(), lambda: self.hear(life, asked_ns, grant))

    def hear(self, life: object, asked_ns: int, grant: Grant) -> None:
        if life is self.life:
            self.is_asking = False
            self.held.granted(grant, asked_at_ns=asked_ns, answered_at_ns=self.now_ns())

    def nap(self, now_ns: int) -> None:
        wakes_ns = [now_ns + 20 * MILLISECOND_NS]
        if self.held.find(self.pacer, now_ns=now_ns) is not None:
            wakes_ns.append(self.pacer.earliest_ns())
        if not self.is_asking:
            wakes_ns.append(self.held.ask_at_ns)
        wait_ns = max(0, min(wakes_ns) - now_ns)
        self.world.at(self.world.clock.now_ns + wait_ns + self.world.delay_ns(), self.step)


def simulate(rate: float, seed: int, *, rough: float = 0.3, steps: bool = False, seconds: int = 20) -> World:
    world = World(seed, rate, 1 + seed % 5, rough=rough)
    for second in range(0, seconds, 5):
        world.run((second + 5) * SECOND_NS)
        if steps:
            world.something_happens()
    return world


@pytest.mark.slow
@pytest.mark.parametrize("steps", [False, True], ids=["steady", "clock_steps_and_crashes"])
@pytest.mark.parametrize("rate", RATES)
def test_no_window_exceeds_the_ceiling_whatever_happens(rate: float, steps: bool) -> None:
    for seed in range(10):
        assert simulate(rate, seed, steps=steps, seconds=20 if rate < 1_000 else 5).excess <= 0, f"seed {seed}"


@pytest.mark.parametrize("rate", [4, 250])
def test_no_window_exceeds_the_ceiling_of_a_few_processes(rate: float) -> None:
    for seed in range(3):
        assert simulate(rate, seed, steps=True, seconds=10).excess <= 0, f"seed {seed}"


@pytest.mark.parametrize("rate", [20, 250, 5_000])
@pytest.mark.slow
def test_processes_that_are_not_disturbed_use_the_ceiling_with_a_few_questions_a_second(rate: float) -> None:
    for seed in (0, 3):
        world = simulate(rate, seed, rough=0, seconds=5)
        assert len(world.departures) >= 0.8 * rate * 5
        assert world.questions <= 40 * 5


# ── errors put in on purpose must be found ──────────────────────────────────────────────────────────────────────────


@contextmanager
def planted(owner: object, name: str, value: object) -> Iterator[None]:
    kept = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


def worst(rate: float, *, steps: bool = False) -> float:
    return max(simulate(rate, seed, steps=steps, rough=1.0).excess for seed in range(1, 5))


def test_a_stretch_that_ends_by_the_wrong_bound_of_the_clock_is_found() -> None:
    with planted(Ahead, "surely_until_ns", lambda self, theirs_ns: theirs_ns - self.least_ns + 5 * MILLISECOND_NS):
        assert worst(20) > 0


def test_a_last_moment_without_a_gap_before_the_end_is_found() -> None:
    kept = Stretch.end_at
    with planted(
        Stretch,
        "end_at",
        lambda self, ends_ns, gap_ns, late_ns: kept(self, ends_ns, gap_ns=0 * gap_ns, late_ns=late_ns),
    ):
        assert worst(20) > 0


@pytest.mark.slow
def test_a_clock_set_forward_that_nobody_notices_is_found() -> None:
    with planted(stretches, "was_set_forward", lambda known, seen: False):
        assert worst(100, steps=True) > 0


@pytest.mark.slow
def test_a_lost_row_that_begins_at_once_is_found() -> None:
    with planted(stretches, "reach_for", lambda ceiling_interval_ns: AHEAD_NS // 100 + ceiling_interval_ns // 100):
        assert worst(100, steps=True) > 0


def test_a_grant_never_reaches_further_than_a_lost_row_waits() -> None:
    for rate in RATES:
        interval_ns = interval_for(rate)
        asked = Stretches(interval_ns).question(interval_ns=0, ready=1 << 20, now_ns=0)
        assert AHEAD_NS + asked.lead_ns + max(asked.block_ns, interval_ns) + asked.spare_ns <= reach_for(interval_ns)


def test_no_more_requests_are_sent_in_a_row_than_a_busy_machine_can_send_before_the_stretch_ends() -> None:
    stretch = Stretch(0, 0, last_ns=4 * MILLISECOND_NS)
    for now_ns in range(0, 6 * MILLISECOND_NS, MILLISECOND_NS // 7):
        last_sent_ns = now_ns + (stretch.sendable(now_ns=now_ns) - 1) * SENT_EVERY_NS
        assert (
            last_sent_ns == now_ns or last_sent_ns + SEND_NS <= stretch.last_ns < last_sent_ns + SEND_NS + SENT_EVERY_NS
        )
