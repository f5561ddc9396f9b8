"""Is a provider that bans after five refusals in a minute ever given the fifth? Cold, crowded, restarted, killed."""

import asyncio
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from remora.core.lanes import Lane
from remora.core.rate.gate_types import LimitedBy
from remora.core.rate.refusal_limit import RefusalLimit
from remora.core.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import Fault
from remora.gate.governor import Limits
from remora.sim.clock import SimClock
from tests.gate.rig import (
    GOOD,
    LATENCY_NS,
    PRESSED,
    Answer,
    Book,
    Gate,
    always,
    crashing,
    gate,
    one_by_one,
    simulated,
)

FOUR = RefusalLimit(4, MINUTE_NS)
TWO = RefusalLimit(2, MINUTE_NS)
ONE = RefusalLimit(1, MINUTE_NS)  # the law itself hardly waits after a single refusal
SLOW = 300 * MILLISECOND_NS


def limits(in_flight: int, limit: RefusalLimit = FOUR) -> Limits:
    return Limits(ceiling_interval_ns=SECOND_NS // 40, in_flight=in_flight, refusal_limit=limit)


@dataclass
class Banning:
    """Takes ten requests per second and bans whoever is refused more than four times within a minute."""

    per_s: float = 10.0
    burst: float = 10.0
    latency_ns: int = SLOW
    silent: bool = False  # it does not say that it refuses
    tokens: float = 10.0
    at_ns: int = 0
    refused_at_ns: list[int] = field(default_factory=list)

    def __call__(self, now_ns: int) -> Answer:
        self.tokens = min(self.burst, self.tokens + (now_ns - self.at_ns) * self.per_s / SECOND_NS)
        self.at_ns = now_ns
        if self.tokens >= 1:
            self.tokens -= 1
            return replace(GOOD, latency_ns=self.latency_ns)
        self.refused_at_ns.append(now_ns)
        return Answer(429, latency_ns=self.latency_ns, fault=Fault.TIMEOUT if self.silent else None)

    @property
    def worst_minute(self) -> int:
        at_ns = self.refused_at_ns
        return max((sum(last - MINUTE_NS <= one <= last for one in at_ns) for last in at_ns), default=0)


@pytest.mark.slow
@pytest.mark.parametrize("in_flight", [1, 3, 8])
@pytest.mark.parametrize("per_s", [10.0, 0.0], ids=["ten per second", "nothing"])
def test_the_provider_never_counts_more_refusals_than_allowed(in_flight: int, per_s: float) -> None:
    async def main(clock: SimClock) -> Banning:
        provider = Banning(per_s, latency_ns=30 * in_flight * MILLISECOND_NS)
        async with gate(clock, limits(in_flight), says=provider) as world:
            await world.send_until(clock.monotonic_ns() + 100 * SECOND_NS, workers=in_flight)
        return provider

    assert 0 < simulated(main).worst_minute <= FOUR.most


def test_it_goes_on_as_soon_as_the_oldest_refusal_no_longer_counts() -> None:
    async def main(clock: SimClock) -> list[int]:
        async with gate(clock, limits(8, ONE), says=one_by_one([GOOD, PRESSED])) as world:
            await world.send_many(3)
            return world.left_at_ns

    good_ns, refused_ns, next_ns = simulated(main)
    assert refused_ns - good_ns < 2 * SECOND_NS
    assert 0 < next_ns - (refused_ns + LATENCY_NS + MINUTE_NS) < SECOND_NS


def test_without_a_limit_the_same_provider_counts_more() -> None:
    async def main(clock: SimClock) -> Banning:
        provider = Banning()
        async with gate(clock, replace(limits(8), refusal_limit=None), says=provider) as world:
            await world.send_until(clock.monotonic_ns() + 50 * SECOND_NS, workers=8)
        return provider

    assert simulated(main).worst_minute > FOUR.most


def test_all_lanes_share_one_count() -> None:
    async def main(clock: SimClock) -> Banning:
        provider = Banning(0.0)
        async with gate(clock, limits(8), says=provider) as world:
            until_ns = clock.monotonic_ns() + MINUTE_NS
            await asyncio.gather(*(world.send_until(until_ns, lane) for lane in Lane))
        return provider

    assert 0 < simulated(main).worst_minute <= FOUR.most


def test_a_request_without_an_answer_counts_as_refused() -> None:
    async def main(clock: SimClock) -> Banning:
        provider = Banning(0.0, tokens=0.0, silent=True)
        async with gate(clock, limits(8), says=provider) as world:
            await world.send_until(clock.monotonic_ns() + 5 * MINUTE_NS, workers=8)
        return provider

    assert simulated(main).worst_minute == FOUR.most


def test_a_request_that_is_given_up_counts_as_refused() -> None:
    async def main(clock: SimClock) -> Gate:
        async with gate(clock, limits(8), says=always(replace(GOOD, latency_ns=MINUTE_NS))) as world:
            for _ in range(6):
                asking = asyncio.ensure_future(world.send())
                await clock.sleep_until(clock.monotonic_ns() + 5 * SECOND_NS)
                asking.cancel()
            return world

    assert len(simulated(main).departures) == FOUR.most


def test_the_wait_is_explained(events: list[MutableMapping[str, Any]]) -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, limits(1, ONE), says=one_by_one([PRESSED])) as world:
            await world.send()
            waiting = asyncio.ensure_future(world.send())
            await clock.sleep_until(clock.monotonic_ns() + 20 * SECOND_NS)
            rate = world.governor.state()
            assert (rate.limited_by, rate.next_held_by) == (LimitedBy.REFUSALS, LimitedBy.REFUSALS)
            assert 20 * SECOND_NS < rate.next_in_ns < MINUTE_NS
            await waiting

    simulated(main)
    waits = [event for event in events if event["event"] == "gate_waits"]
    assert "refusals" in {event["reason"] for event in waits}


def test_while_answers_are_awaited_no_end_of_the_wait_is_told() -> None:
    """One refusal counts for a minute, and three may still be in flight: the fourth waits for an answer."""

    async def main(clock: SimClock) -> None:
        slow = Answer(latency_ns=30 * SECOND_NS)
        async with gate(clock, limits(8), says=one_by_one([PRESSED], then=slow)) as world:
            await world.send()
            sending = [asyncio.ensure_future(world.send()) for _ in range(4)]
            await clock.sleep_until(clock.monotonic_ns() + 20 * SECOND_NS)
            rate = world.governor.state()
            assert (rate.in_flight, rate.next_held_by, rate.next_in_ns) == (3, LimitedBy.REFUSALS, 0)
            await asyncio.gather(*sending)

    simulated(main)


def test_a_wait_for_the_limit_says_nothing_about_the_pace() -> None:
    async def main(clock: SimClock) -> tuple[bool, bool]:
        async with gate(clock, limits(1, TWO), says=one_by_one([PRESSED] * 2)) as world:
            await world.send_many(2)
            async with world.governor.admit(Lane.LIVE) as after_the_wait:
                await world.exchange(after_the_wait)
            await world.send_many(40)
            async with world.governor.admit(Lane.LIVE) as later:
                await world.exchange(later)
            return after_the_wait.pace_bound, later.pace_bound

    assert simulated(main) == (False, True)


# ── restarts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def first_departure_after(
    end_first_life: Callable[[SimClock, Book], Any], *, in_flight: int = 1, limit: RefusalLimit = FOUR
) -> float:
    """How long after the start of the second life its first request is sent, in seconds."""

    async def main(clock: SimClock) -> float:
        book = Book(clock)
        await end_first_life(clock, book)
        started_ns = clock.monotonic_ns()
        async with gate(clock, limits(in_flight, limit), book=book) as second:
            await second.send()
            return (second.left_at_ns[0] - started_ns) / SECOND_NS

    return simulated(main)


def test_the_count_survives_a_restart() -> None:
    async def stopped_after_a_refusal(clock: SimClock, book: Book) -> None:
        async with gate(clock, limits(1, ONE), says=always(PRESSED), book=book) as first:
            await first.send()
            await clock.sleep_until(clock.monotonic_ns() + 20 * SECOND_NS)

    assert 39 < first_departure_after(stopped_after_a_refusal, limit=ONE) < 41


def test_a_clean_stop_without_refusals_costs_nothing() -> None:
    async def stopped(clock: SimClock, book: Book) -> None:
        async with gate(clock, limits(8), book=book) as first:
            await first.send_many(8, workers=8)

    assert first_departure_after(stopped, in_flight=8) < 5


def test_what_was_in_flight_when_a_process_was_killed_counts_as_refused() -> None:
    async def killed(clock: SimClock, book: Book) -> None:
        slow = Answer(429, latency_ns=10 * SECOND_NS)
        life = await crashing(clock, book, says=always(slow), for_ns=5 * SECOND_NS, limits=limits(1, ONE))
        assert len(life.departures) == 1

    assert 60 < first_departure_after(killed, limit=ONE) < 62


@pytest.mark.parametrize("for_s", [1, 7, 20])
def test_a_process_that_is_killed_again_and_again_is_never_refused_too_often(for_s: int) -> None:
    async def main(clock: SimClock) -> Banning:
        provider, book = Banning(0.0), Book(clock)
        for _ in range(12):
            await crashing(clock, book, says=provider, for_ns=for_s * SECOND_NS, limits=limits(1))
        return provider

    assert simulated(main).worst_minute <= FOUR.most


def test_a_limit_that_is_written_later_waits_once_because_nobody_counted_before() -> None:
    async def stopped(clock: SimClock, book: Book) -> None:
        async with gate(clock, replace(limits(1), refusal_limit=None), says=always(PRESSED), book=book) as first:
            await first.send_many(2)

    assert 60 < first_departure_after(stopped) < 62


def test_nothing_is_sent_before_the_store_knows_of_the_process() -> None:
    async def main(clock: SimClock) -> None:
        book = Book(clock, is_down=True)
        async with gate(clock, limits(1), book=book) as world:
            waiting = asyncio.ensure_future(world.send())
            await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
            assert not world.departures
            assert world.governor.state().next_held_by is LimitedBy.STORE
            book.is_down = False
            await waiting

    simulated(main)


def test_while_the_store_is_down_no_more_is_unknown_than_what_may_be_in_flight() -> None:
    async def main(clock: SimClock) -> int:
        book = Book(clock)
        async with gate(clock, limits(2), says=always(PRESSED), book=book) as world:
            await world.send()
            await clock.sleep_until(clock.monotonic_ns() + 5 * SECOND_NS)
            book.is_down = True
            until_ns = clock.monotonic_ns() + 40 * SECOND_NS
            await world.send_until(until_ns, workers=2)
            known = len(world.departures)
            book.is_down = False
            return known - 1

    assert simulated(main) <= 2
