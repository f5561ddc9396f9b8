"""Does every request wait once, for the latest of three moments, and does nothing leave before the ceiling allows?"""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remora.core.errors import ConfigurationError
from remora.core.lanes import ORDER, Lane
from remora.core.rate.limits import JITTER_NS
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.gate.governor import Limits
from remora.sim.clock import SimClock
from tests.gate.rig import (
    BROKEN,
    GOOD,
    PRESSED,
    REFUSED,
    Answer,
    Book,
    Gate,
    Says,
    always,
    gate,
    simulated,
    warm,
    worst_excess_ns,
)

FOUR_PER_S = Limits(ceiling_interval_ns=SECOND_NS // 4)
ceilings = st.one_of(
    st.sampled_from([333_334, 1_000_000, 4_000_000, 10_000_000, 250_000_000, SECOND_NS, 15 * SECOND_NS]),
    st.integers(200_000, 20 * SECOND_NS),
)


@st.composite
def any_limits(draw: st.DrawFn) -> Limits:
    interval_ns = draw(ceilings)
    return Limits(
        ceiling_interval_ns=interval_ns,
        in_flight=draw(st.sampled_from([1, 2, 8, 64])),
        jitter_min_ns=draw(st.one_of(st.just(0), st.integers(0, interval_ns))),
        jitter_max_ns=draw(st.one_of(st.just(0), st.integers(0, HOUR_NS))),
        stale_after_ns=draw(st.integers(0, 100 * HOUR_NS)),
    )


def weather(clock: SimClock) -> Says:
    """Mostly good answers with spells of everything else."""
    answers = [GOOD] * 12 + [PRESSED, BROKEN, REFUSED, Answer(429, retry_after="1"), Answer(503, retry_after="0")]
    answers += [Answer(latency_ns=0), Answer(latency_ns=3 * SECOND_NS)]
    return lambda _now_ns: clock.random.choice(answers)


async def restless(turbulent: Gate, lane: Lane, until_ns: int) -> None:
    """Workers that come and go: slow connects, idle spells, cancellations and steps of the clock at any moment."""
    clock, chance = turbulent.clock, turbulent.clock.random
    while clock.monotonic_ns() < until_ns:
        connect_ns = chance.choice([0, 0, 0, chance.randrange(1, 2 * SECOND_NS)])
        request = asyncio.get_running_loop().create_task(turbulent.send(lane, connect_ns=connect_ns))
        try:
            if chance.random() < 0.3:
                await clock.sleep_until(clock.monotonic_ns() + chance.choice([0, 1, chance.randrange(2 * SECOND_NS)]))
                request.cancel()
            await asyncio.wait([request])
        finally:
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
        if chance.random() < 0.1:
            await clock.sleep_until(clock.monotonic_ns() + chance.randrange(3 * SECOND_NS))
        if chance.random() < 0.1:
            clock.step_wall(chance.choice([-DAY_NS, -SECOND_NS, SECOND_NS, DAY_NS]))


@settings(max_examples=40)
@given(any_limits(), st.integers(0, 10_000))
@pytest.mark.slow
def test_no_combination_of_settings_lets_a_request_leave_earlier_than_the_ceiling(limits: Limits, seed: int) -> None:
    async def main(clock: SimClock) -> None:
        left: list[int] = []
        book = warm(clock, limits) if seed % 2 else Book(clock)
        for _ in range(3):  # a restart adds nothing
            async with gate(clock.restarted(), limits, says=weather(clock), book=book) as turbulent:
                until_ns = clock.monotonic_ns() + 20 * limits.ceiling_interval_ns + 5 * SECOND_NS
                lanes = [clock.random.choice(ORDER) for _ in range(12)]
                working = [asyncio.ensure_future(restless(turbulent, lane, until_ns)) for lane in lanes]
                await clock.sleep_until(until_ns)
                for task in working:
                    task.cancel()
                await asyncio.gather(*working, return_exceptions=True)
                assert turbulent.in_flight_most <= limits.in_flight
                assert turbulent.governor.state().in_flight == 0
                assert turbulent.governor.state().waiting == 0
                assert turbulent.governor.state().departures == len(turbulent.departures)
            left += turbulent.left_at_ns
        assert left == sorted(left)
        assert worst_excess_ns(left, limits.ceiling_interval_ns) == 0
        if limits.ceiling_interval_ns >= 10 * MILLISECOND_NS:
            assert all(later - earlier >= limits.ceiling_interval_ns for earlier, later in pairwise(left))

    simulated(main, seed=seed)


def test_the_ceiling_is_the_only_number_that_is_needed() -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, Limits(SECOND_NS // 4)) as plain:
            await plain.send()
            assert plain.governor.state().ceiling_interval_ns == SECOND_NS // 4

    simulated(main)


def test_a_request_waits_once_for_the_latest_of_jitter_pace_and_not_before() -> None:
    async def wait_ns(clock: SimClock, *, idle_ns: int, answers: list[Answer], jitter: float) -> int:
        async with gate(clock, FOUR_PER_S, says=lambda _: answers.pop(0), chance=lambda: jitter) as waiting:
            await waiting.send()
            await clock.sleep_until(clock.monotonic_ns() + idle_ns)
            asked_ns = clock.monotonic_ns()
            await waiting.send()
            return waiting.left_at_ns[-1] - asked_ns

    async def main(clock: SimClock) -> None:
        # The pace is one second at the start; the answer takes 20 ms of it.
        pace_ns = SECOND_NS - 20 * MILLISECOND_NS
        assert await wait_ns(clock, idle_ns=0, answers=[GOOD, GOOD], jitter=0.0) == pytest.approx(pace_ns, rel=0.07)
        # With both, the longer one alone: the jitter adds nothing.
        assert await wait_ns(clock, idle_ns=0, answers=[GOOD, GOOD], jitter=1.0) == pytest.approx(pace_ns, rel=0.07)
        # After idle time only the jitter is left.
        assert await wait_ns(clock, idle_ns=MINUTE_NS, answers=[GOOD, GOOD], jitter=0.5) == JITTER_NS // 2
        assert await wait_ns(clock, idle_ns=MINUTE_NS, answers=[GOOD, GOOD], jitter=0.0) == 0
        # The provider's own wait is longer than both, and nothing is added to it.
        told = Answer(503, retry_after="30")
        assert await wait_ns(clock, idle_ns=0, answers=[told, GOOD], jitter=1.0) == 30 * SECOND_NS

    simulated(main)


@pytest.mark.slow
def test_learned_interval_below_the_jitter_band_binds_the_rate() -> None:
    """Learned interval below the jitter band binds the rate."""

    async def main(clock: SimClock) -> None:
        limits = Limits(ceiling_interval_ns=5 * MILLISECOND_NS, in_flight=8)
        assert limits.jitter_max_ns > limits.ceiling_interval_ns  # the band as configured is wider than the interval
        async with gate(clock, limits) as busy:
            await busy.send_until(MINUTE_NS, workers=16)
            learned_ns = busy.governor.state().interval_ns
            assert learned_ns == limits.ceiling_interval_ns
            last_second = [at_ns for at_ns in busy.left_at_ns if at_ns >= MINUTE_NS - SECOND_NS]
            assert len(last_second) >= 0.98 * SECOND_NS / learned_ns

    simulated(main)


def test_a_jitter_floor_that_exceeds_the_learned_interval_is_a_defect() -> None:
    """A jitter floor that exceeds the learned interval is a defect."""
    with pytest.raises(ConfigurationError, match="longer than the ceiling's interval") as refused:
        Limits(ceiling_interval_ns=100 * MILLISECOND_NS, jitter_min_ns=101 * MILLISECOND_NS)
    assert "jitter_min" in refused.value.hint
    assert Limits(ceiling_interval_ns=1).jitter_min_ns == 0


def test_additive_increase_floors_at_the_rate_ceiling() -> None:
    """Additive increase floors at the rate ceiling."""

    async def main(clock: SimClock) -> None:
        async with gate(clock, FOUR_PER_S) as eager:
            intervals_ns = []
            for _ in range(400):
                await eager.send()
                intervals_ns.append(eager.governor.state().interval_ns)
            assert intervals_ns == sorted(intervals_ns, reverse=True)
            assert min(intervals_ns) == FOUR_PER_S.ceiling_interval_ns
            assert worst_excess_ns(eager.left_at_ns, FOUR_PER_S.ceiling_interval_ns) == 0

    simulated(main)


def test_concurrency_is_a_frozen_ceiling_not_a_controller() -> None:
    """Concurrency is a frozen ceiling, not a controller."""

    async def main(clock: SimClock) -> None:
        slow = Answer(latency_ns=3 * SECOND_NS)
        async with gate(clock, Limits(SECOND_NS // 4, in_flight=1), says=lambda _: slow) as serial:
            await serial.send_until(10 * MINUTE_NS, workers=20)
            assert serial.in_flight_most == 1
        async with gate(clock, Limits(SECOND_NS // 4, in_flight=3), says=lambda _: slow) as three:
            await three.send_until(20 * MINUTE_NS, workers=20)
            assert three.in_flight_most == 3

    simulated(main)


@pytest.mark.parametrize(
    "interval_ns, in_flight", [(0, 1), (-5, 1), (SECOND_NS, 0), (SECOND_NS, -1)], ids=["zero", "negative", "0", "-1"]
)
def test_limits_that_cannot_work_are_refused_with_what_to_write(interval_ns: int, in_flight: int) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Limits(ceiling_interval_ns=interval_ns, in_flight=in_flight)
    assert refused.value.hint.startswith("write")


def test_every_permit_is_one_departure() -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, FOUR_PER_S) as strict:
            async with strict.governor.admit(Lane.LIVE) as permit:
                await strict.exchange(permit)
                with pytest.raises(AssertionError, match="for one request"):
                    await permit.depart()
            async with strict.governor.admit(Lane.LIVE) as unused:
                pass
            with pytest.raises(AssertionError, match="given back"):
                await unused.depart()
            assert strict.governor.state().departures == 1

    simulated(main)


def test_slow_connects_shift_departures_but_never_press_them_together() -> None:
    async def main(clock: SimClock) -> None:
        limits = Limits(ceiling_interval_ns=SECOND_NS // 4, in_flight=32)
        async with gate(clock, limits) as warm:
            await warm.send_until(MINUTE_NS, workers=8)
            before = len(warm.departures)
            await asyncio.gather(
                *(warm.send(connect_ns=clock.random.choice([0, 5 * SECOND_NS])) for _ in range(100)),
            )
            assert len(warm.departures) == before + 100
            assert worst_excess_ns(warm.left_at_ns, limits.ceiling_interval_ns) == 0
            # The rate suffers only from the slow connects at the end.
            assert warm.left_at_ns[-1] - warm.left_at_ns[before] <= 100 * limits.ceiling_interval_ns + 6 * SECOND_NS

    simulated(main)


def test_waiters_that_are_cancelled_leave_the_line_at_once() -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, Limits(HOUR_NS)) as closed:
            waiting = [asyncio.ensure_future(closed.send()) for _ in range(50)]
            await clock.sleep_until(SECOND_NS)
            assert closed.governor.state().waiting == 50
            for task in waiting[1:]:
                task.cancel()
            await asyncio.gather(*waiting[1:], return_exceptions=True)
            assert closed.governor.state().waiting == 1
            await waiting[0]
            assert len(closed.departures) == 1

    simulated(main)


def test_a_mistake_of_our_own_reaches_whoever_waits() -> None:
    async def main(clock: SimClock) -> None:
        def broken() -> float:
            raise ZeroDivisionError

        async with gate(clock, FOUR_PER_S, chance=broken) as wrong:
            with pytest.raises(ZeroDivisionError):
                await wrong.send()

    simulated(main)


def test_closing_the_gate_cancels_whoever_still_waits() -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, Limits(HOUR_NS)) as closing:
            waiting = asyncio.ensure_future(closing.send())
            await clock.sleep_until(SECOND_NS)
        assert (await asyncio.gather(waiting, return_exceptions=True))[0].__class__ is asyncio.CancelledError

    simulated(main)


def test_a_pace_that_recovers_wakes_whoever_sleeps_for_the_slow_one() -> None:
    async def main(clock: SimClock) -> None:
        limits = Limits(SECOND_NS // 50, in_flight=8)
        book = warm(clock, limits)
        async with gate(clock, limits, says=always(PRESSED), book=book) as pressed:
            await pressed.send_until(2 * HOUR_NS, workers=20)
            assert pressed.governor.state().interval_ns >= 10 * MINUTE_NS
        # The next process knows the pace, but of no circuit: the pace alone holds its requests back.
        async with gate(clock, limits, book=book) as recovering:
            working = asyncio.ensure_future(recovering.send_until(clock.monotonic_ns() + HOUR_NS, workers=20))
            while not recovering.departures:
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            # The first good answer frees the others: nobody sleeps on until the slot of the slow pace.
            await clock.sleep_until(recovering.left_at_ns[0] + 30 * SECOND_NS)
            assert len(recovering.departures) >= 20
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    simulated(main)


@pytest.mark.parametrize("rate_per_s", [0.5, 4, 50, 100, 150, 250, 1_000, 3_000])
@pytest.mark.slow
def test_a_saturated_gate_reaches_its_pace(rate_per_s: float) -> None:
    async def main(clock: SimClock) -> None:
        interval_ns = int(SECOND_NS / rate_per_s)
        limits = Limits(interval_ns, in_flight=256)
        async with gate(clock, limits, book=warm(clock, limits)) as busy:
            await busy.send_until(max(5 * SECOND_NS, 100 * interval_ns), workers=300)
            assert busy.governor.state().interval_ns == interval_ns
            achieved = (len(busy.departures) - 1) * interval_ns / (busy.left_at_ns[-1] - busy.left_at_ns[0])
            assert achieved >= 0.98
            assert worst_excess_ns(busy.left_at_ns, interval_ns) == 0

    simulated(main)


@pytest.mark.slow
def test_at_thousands_of_requests_a_second_one_timer_serves_many_turns_and_the_pace_is_kept() -> None:
    async def main(clock: SimClock) -> None:
        limits = Limits(ceiling_interval_ns=SECOND_NS // 2_600, in_flight=256)
        async with gate(clock, limits, book=warm(clock, limits)) as quick:
            began_ns = clock.monotonic_ns()
            await quick.send_many(2_600, Lane.BACKFILL, workers=256)
            assert max(quick.left_at_ns) - began_ns <= 1.02 * SECOND_NS
            assert len(set(quick.left_at_ns)) <= 450
            assert worst_excess_ns(quick.left_at_ns, limits.ceiling_interval_ns) <= 0

    simulated(main)
