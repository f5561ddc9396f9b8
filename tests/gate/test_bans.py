"""Does the gate keep the limit that a ban has taught: at once, after a restart, after a kill, and until its end?"""

import asyncio
from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from remora.contracts import SharedPace
from remora.core.rate.refusal_limit import RefusalLimit
from remora.core.units import HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.gate.governor import Limits
from remora.sim.clock import SimClock
from tests.gate.rig import GOOD, PRESSED, REFUSED, Answer, Book, crashing, gate, simulated

WRITTEN = RefusalLimit(3, MINUTE_NS)


def limits(in_flight: int, per_s: float = 5.0) -> Limits:
    return Limits(ceiling_interval_ns=int(SECOND_NS / per_s / 4), in_flight=in_flight)


@dataclass
class Banning:
    """Takes five requests per second, and bans for an hour whoever is refused five times within a minute."""

    ban: Answer = PRESSED
    per_s: float = 5.0
    burst: float = 10.0
    latency_ns: int = SECOND_NS // 10
    tokens: float = 10.0
    at_ns: int = 0
    recent: list[int] = field(default_factory=list)
    bans_at_ns: list[int] = field(default_factory=list)
    good: int = 0

    def __call__(self, now_ns: int) -> Answer:
        self.tokens = min(self.burst, self.tokens + (now_ns - self.at_ns) * self.per_s / SECOND_NS)
        self.at_ns = now_ns
        if self.bans_at_ns and now_ns < self.bans_at_ns[-1] + HOUR_NS:
            return replace(self.ban, latency_ns=self.latency_ns)
        if self.tokens >= 1:
            self.tokens -= 1
            self.good += 1
            return replace(GOOD, latency_ns=self.latency_ns)
        self.recent = [*(at_ns for at_ns in self.recent if at_ns > now_ns - MINUTE_NS), now_ns]
        if len(self.recent) >= 5:
            self.bans_at_ns.append(now_ns)
            self.recent = []
        return replace(PRESSED, latency_ns=self.latency_ns)


@pytest.mark.slow
@pytest.mark.parametrize(
    "provider",
    [Banning(per_s=5, burst=30, latency_ns=300 * MILLISECOND_NS), Banning(REFUSED, latency_ns=SECOND_NS)],
    ids=["told by 429", "told by 403"],
)
def test_a_ban_comes_once(provider: Banning) -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, limits(8, provider.per_s), says=provider) as world:
            await world.send_until(clock.monotonic_ns() + 90 * MINUTE_NS, workers=8)

    simulated(main)
    assert len(provider.bans_at_ns) == 1
    assert provider.good > 0.6 * provider.per_s * 20 * 60


@pytest.mark.slow
def test_a_second_process_keeps_what_the_first_has_learned() -> None:
    async def main(clock: SimClock) -> Banning:
        provider, book = Banning(), Book(clock)
        async with gate(clock, limits(8), says=provider, book=book) as first:
            await first.send_until(clock.monotonic_ns() + 30 * MINUTE_NS, workers=8)
        # Long enough that the pace is no longer trusted, so discovery begins again.
        await clock.sleep_until(clock.monotonic_ns() + 7 * HOUR_NS)
        async with gate(clock, limits(8), says=provider, book=book) as second:
            await second.send_until(clock.monotonic_ns() + 30 * MINUTE_NS, workers=8)
        return provider

    assert len(simulated(main).bans_at_ns) == 1


@pytest.mark.slow
@pytest.mark.parametrize("for_s", [100, 700])
def test_a_kill_forgets_neither_a_ban_nor_an_outage_that_may_become_one(for_s: int) -> None:
    async def main(clock: SimClock) -> tuple[Banning, RefusalLimit | None]:
        provider, book = Banning(), Book(clock)
        until_ns = clock.monotonic_ns() + 90 * MINUTE_NS
        while clock.monotonic_ns() < until_ns:
            await crashing(clock, book, says=provider, for_ns=for_s * SECOND_NS, limits=limits(1))
        async with gate(clock, limits(1), says=provider, book=book) as last:
            rate = last.governor.state()
            return provider, None if rate.ban is None else RefusalLimit(rate.ban.most_per_min, MINUTE_NS)

    provider, limit = simulated(main)
    assert len(provider.bans_at_ns) == 1
    assert limit == RefusalLimit(4, MINUTE_NS)


def test_it_is_told_what_was_seen_and_what_may_be_written(events: list[MutableMapping[str, Any]]) -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, limits(1), says=Banning()) as world:
            assert world.governor.state().ban is None
            await world.send_until(clock.monotonic_ns() + 30 * MINUTE_NS)
            rate = world.governor.state()
            assert rate.ban is not None
            assert rate.refusals_left is not None
            assert (rate.ban.most_per_min, rate.ban.refusals >= 5) == (4, True)
            assert rate.ban.until_ns > clock.wall_ns()

    simulated(main)
    (told,) = [event for event in events if event["event"] == "refusal_limit_learned"]
    assert told["log_level"] == "warning"
    assert told["most_per_min"] == 4
    assert "refusal_limit" in told["hint"]


@pytest.mark.slow
def test_the_limit_is_lifted_when_its_time_is_over(events: list[MutableMapping[str, Any]]) -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, limits(1), says=Banning()) as world:
            await world.send_until(clock.monotonic_ns() + 2 * HOUR_NS)
            assert world.governor.state().refusals_left is not None
            await clock.sleep_until(clock.monotonic_ns() + 60 * HOUR_NS)
            await world.send_many(3)
            await clock.sleep_until(clock.monotonic_ns() + 10 * SECOND_NS)
            assert world.governor.state().refusals_left is None

    simulated(main)
    assert "refusal_limit_lifted" in {event["event"] for event in events}


def test_what_the_owner_wrote_is_kept_instead_of_what_was_learned() -> None:
    async def main(clock: SimClock) -> int | None:
        book = Book(clock)
        async with gate(clock, limits(1), says=Banning(), book=book) as first:
            await first.send_until(clock.monotonic_ns() + 30 * MINUTE_NS)
        await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
        async with gate(clock, replace(limits(1), refusal_limit=WRITTEN), book=book) as second:
            assert second.governor.state().ban is None
            return second.governor.state().refusals_left

    assert simulated(main) == WRITTEN.most


def test_requests_that_were_in_flight_when_the_limit_was_learned_may_still_be_sent() -> None:
    """Eight are admitted and connect slowly while everything is refused; the limit is lower."""

    async def main(clock: SimClock) -> int:
        async with gate(clock, limits(8, 2.0), says=Banning(per_s=2.0, latency_ns=SECOND_NS)) as world:
            until_ns = clock.monotonic_ns() + 40 * MINUTE_NS

            async def work() -> None:
                while clock.monotonic_ns() < until_ns:
                    await world.send(connect_ns=SECOND_NS)

            working = [asyncio.ensure_future(work()) for _ in range(8)]
            await clock.sleep_until(until_ns)
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            ban = world.governor.state().ban
            return 0 if ban is None else ban.most_per_min

    assert 0 < simulated(main) < 5


def test_another_process_learns_of_the_limit() -> None:
    async def main(clock: SimClock) -> None:
        book = Book(clock)
        async with gate(clock, limits(1), says=Banning(), book=book) as first:
            await first.send_until(clock.monotonic_ns() + 30 * MINUTE_NS)
        async with gate(clock, limits(1)) as second:
            assert second.governor.state().refusals_left is None
            second.governor.adopt(SharedPace(version=7, record=book.record, interval_ns=SECOND_NS))
            ban = second.governor.state().ban
            assert ban is not None
            assert ban.most_per_min == 4

    simulated(main)
