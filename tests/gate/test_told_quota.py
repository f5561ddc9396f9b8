"""Is a quota obeyed that the provider tells, before it has to refuse anything?"""

from dataclasses import dataclass, field, replace

import pytest

from remora.core.rate.gate_types import LimitedBy, QuotaFacts
from remora.core.units import HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import Pressure
from remora.gate.governor import Limits
from remora.sim.clock import SimClock
from tests.gate.rig import Answer, Book, crashing, gate, one_by_one, simulated, warm

FIFTY_PER_S = Limits(ceiling_interval_ns=20 * MILLISECOND_NS)


@dataclass
class HourlyQuota:
    """A provider that lets so many pass in a fixed window and refuses the rest as GitHub does: 403, remaining 0."""

    clock: SimClock
    limit: int
    window_ns: int = HOUR_NS
    refused: int = 0
    passed: dict[int, int] = field(default_factory=dict)

    def __call__(self, now_ns: int) -> Answer:
        window, into_ns = divmod(now_ns, self.window_ns)
        used = self.passed[window] = self.passed.get(window, 0) + 1
        if used > self.limit:
            self.refused += 1
            self.passed[window] = self.limit
        reset_s = (self.clock.wall_ns() + self.window_ns - into_ns) / SECOND_NS
        headers = {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(max(0, self.limit - used)),
            "x-ratelimit-reset": str(reset_s),
        }
        return Answer(200 if used <= self.limit else 403, headers=headers)


@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.slow
def test_nothing_is_sent_into_a_window_that_was_announced_as_empty(workers: int) -> None:
    async def main(clock: SimClock) -> None:
        provider = HourlyQuota(clock, 500, window_ns=10 * MINUTE_NS)
        limits = replace(FIFTY_PER_S, in_flight=workers)
        async with gate(clock, limits, says=provider, book=warm(clock, limits)) as told:
            await told.send_until(clock.monotonic_ns() + 35 * MINUTE_NS, workers=workers)
        assert provider.refused == 0
        assert len(told.departures) > 1_200

    simulated(main)


def test_what_is_left_is_spread_over_what_is_left_of_the_window() -> None:
    async def main(clock: SimClock) -> None:
        first = Answer(headers={"x-ratelimit-limit": "900", "x-ratelimit-remaining": "60", "x-ratelimit-reset": "60"})
        async with gate(clock, FIFTY_PER_S, says=one_by_one([first]), book=warm(clock, FIFTY_PER_S)) as told:
            await told.send_many(30)
            gaps_ns = [after - before for before, after in zip(told.left_at_ns, told.left_at_ns[1:], strict=False)]
            assert min(gaps_ns) >= SECOND_NS * 0.99
            state = told.governor.state()
            assert state.limited_by is LimitedBy.QUOTA
            assert state.quota is not None
            assert (state.quota.remaining, state.quota.limit) == (60, 900)

    simulated(main)


def test_an_empty_quota_is_told_as_the_quota_and_not_as_a_back_off() -> None:
    async def main(clock: SimClock) -> None:
        empty = Answer(headers={"ratelimit": '"default";r=0;t=120'})
        async with gate(clock, FIFTY_PER_S, says=one_by_one([empty]), book=warm(clock, FIFTY_PER_S)) as told:
            await told.send()
            state = told.governor.state()
            assert state.next_held_by is LimitedBy.QUOTA
            assert state.next_in_ns > 119 * SECOND_NS
            assert state.last_back_off is None
            heard_ns = clock.monotonic_ns()
            await told.send()
            assert told.left_at_ns[1] >= heard_ns + 120 * SECOND_NS
            assert told.governor.state().quota is None

    simulated(main)


def test_a_refused_item_tells_the_quota_as_well_as_a_good_one() -> None:
    async def main(clock: SimClock) -> None:
        refused = Answer(403, headers={"x-ratelimit-remaining": "1", "x-ratelimit-reset": "50"})
        async with gate(clock, FIFTY_PER_S, says=one_by_one([refused]), book=warm(clock, FIFTY_PER_S)) as told:
            await told.send_many(2)
            assert told.left_at_ns[1] - told.left_at_ns[0] >= 50 * SECOND_NS

    simulated(main)


def test_a_403_of_a_used_up_quota_is_pressure_until_the_reset() -> None:
    async def main(clock: SimClock) -> None:
        empty = Answer(403, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": "600"})
        async with gate(clock, FIFTY_PER_S, says=one_by_one([empty]), book=warm(clock, FIFTY_PER_S)) as told:
            verdict = await told.send()
            assert isinstance(verdict, Pressure)
            assert verdict.retry_after_ns == 600 * SECOND_NS
            assert told.governor.state().not_before_in_ns == 600 * SECOND_NS
            before_per_s = told.governor.state().per_s
            assert before_per_s == 50  # the refusal of an empty quota says nothing about the rate

    simulated(main)


def test_a_quota_survives_a_crash_and_is_shown_again() -> None:
    async def main(clock: SimClock) -> None:
        book = Book(clock)
        told = Answer(headers={"x-ratelimit-limit": "9", "x-ratelimit-remaining": "6", "x-ratelimit-reset": "600"})
        await crashing(clock, book, says=one_by_one([told]), for_ns=3 * SECOND_NS)
        until_ns = clock.wall_ns() + 600 * SECOND_NS
        async with gate(clock.restarted(), FIFTY_PER_S, book=book) as second:
            quota = second.governor.state().quota
            assert isinstance(quota, QuotaFacts)
            assert (quota.remaining, quota.limit) == (6, 9)
            assert abs(quota.until_ns - until_ns) < 10 * SECOND_NS
            await second.send_many(2)
            assert second.left_at_ns[1] - second.left_at_ns[0] >= 99 * SECOND_NS

    simulated(main)


@pytest.mark.slow
def test_a_quota_that_shrinks_evenly_is_not_stored_with_every_answer() -> None:
    async def main(clock: SimClock) -> None:
        provider = HourlyQuota(clock, 5_000)
        book = warm(clock, FIFTY_PER_S)
        async with gate(clock, FIFTY_PER_S, says=provider, book=book) as told:
            await told.send_until(clock.monotonic_ns() + 20 * MINUTE_NS)
            assert len(told.departures) > 1_000
            assert len(book.saved_at_ns) < 400

    simulated(main)
