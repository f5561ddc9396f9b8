"""Does the gate say what really held requests back? One world for each cause; in every other world another cause is named."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from remora.core.rate.gate_types import LimitedBy, RateFacts
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.gate.governor import Limits
from remora.sim.clock import SimClock
from tests.gate.rig import BROKEN, Answer, Book, Gate, Says, always, gate, one_by_one, simulated, warm

HUNDRED = Limits(ceiling_interval_ns=SECOND_NS // 100, in_flight=50)
LOOKED_AT_NS = 20 * SECOND_NS
Happens = Callable[[Gate], Awaitable[None]]


def sending(workers: int) -> Happens:
    async def happens(world: Gate) -> None:
        await world.send_until(world.clock.monotonic_ns() + LOOKED_AT_NS, workers=workers)

    return happens


async def idle(world: Gate) -> None:
    await world.clock.sleep_until(world.clock.monotonic_ns() + LOOKED_AT_NS)


async def storing(world: Gate) -> None:
    """Seven answers a second; each then waits for a slow store, while nothing else is asked for."""
    until_ns = world.clock.monotonic_ns() + LOOKED_AT_NS
    while world.clock.monotonic_ns() < until_ns:
        await world.send()
        world.governor.storing(+1)
        await world.clock.sleep_until(world.clock.monotonic_ns() + 120 * MILLISECOND_NS)
        world.governor.storing(-1)


def told_to_wait(_now_ns: int) -> Answer:
    return Answer(429, retry_after="3600")


def after(happens: Happens, says: Says, *, limits: Limits = HUNDRED, cold: bool = False) -> RateFacts:
    async def main(clock: SimClock) -> RateFacts:
        book = Book(clock) if cold else warm(clock, limits)
        async with gate(clock, limits, says=says, book=book) as world:
            await happens(world)
            return world.governor.state()

    return simulated(main)


@pytest.mark.slow
@pytest.mark.parametrize(
    "happens, says, limits, cold, limited_by",
    [
        (sending(50), always(Answer()), HUNDRED, False, LimitedBy.CEILING),
        # Seven of a hundred per second: one request at a time, and answers take 140 ms.
        (sending(1), always(Answer(latency_ns=140 * MILLISECOND_NS)), HUNDRED, False, LimitedBy.ANSWERS),
        (sending(50), always(Answer()), Limits(SECOND_NS // 1_000_000, in_flight=50), True, LimitedBy.PACE),
        (sending(5), told_to_wait, HUNDRED, False, LimitedBy.RETRY_AFTER),
        (sending(5), always(BROKEN), HUNDRED, False, LimitedBy.CIRCUIT),
        (sending(9), always(Answer(latency_ns=SECOND_NS)), Limits(10**7, in_flight=3), False, LimitedBy.IN_FLIGHT),
        (storing, always(Answer(latency_ns=MILLISECOND_NS)), HUNDRED, False, LimitedBy.STORE),
        (idle, always(Answer()), HUNDRED, False, LimitedBy.NO_WORK),
    ],
    ids=lambda value: str(value) if isinstance(value, LimitedBy) else "",
)
def test_what_took_most_of_the_last_seconds_is_what_limits(
    happens: Happens, says: Says, limits: Limits, cold: bool, limited_by: LimitedBy
) -> None:
    rate = after(happens, says, limits=limits, cold=cold)
    assert rate.limited_by is limited_by, rate.held
    assert sum(rate.held.values()) == pytest.approx(1)


def test_one_look_at_a_lucky_moment_does_not_decide() -> None:
    """A single request waits for its turn when somebody looks; before that nothing was asked for."""

    async def main(clock: SimClock) -> RateFacts:
        async with gate(clock, HUNDRED, book=warm(clock, HUNDRED)) as world:
            await idle(world)
            asking = [asyncio.ensure_future(world.send()) for _ in range(3)]
            await clock.sleep_until(clock.monotonic_ns() + MILLISECOND_NS)
            rate = world.governor.state()
            await asyncio.gather(*asking)
            return rate

    rate = simulated(main)
    assert rate.limited_by is LimitedBy.NO_WORK


def test_a_wait_that_is_still_going_on_counts() -> None:
    async def main(clock: SimClock) -> RateFacts:
        async with gate(clock, HUNDRED, says=one_by_one([told_to_wait(0)]), book=warm(clock, HUNDRED)) as world:
            await world.send()
            waiting = asyncio.ensure_future(world.send())
            await clock.sleep_until(clock.monotonic_ns() + 1_800 * SECOND_NS)
            rate = world.governor.state()
            waiting.cancel()
            return rate

    rate = simulated(main)
    assert rate.limited_by is LimitedBy.RETRY_AFTER
    assert rate.next_held_by is LimitedBy.RETRY_AFTER
    assert 1_790 * SECOND_NS <= rate.next_in_ns <= 1_800 * SECOND_NS
