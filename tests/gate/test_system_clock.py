"""Does the real clock keep its promises on real event loops? Never early, close to the moment, cheap, and never back."""

import asyncio
import selectors
import time
from collections.abc import Callable

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.operate.jobs.clock import SystemClock, ahead_ns

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


class Counting(selectors.SelectSelector):
    """Counts how often the event loop looks at it, which is once in each of its turns."""

    looks = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.looks += 1
        return super().select(timeout)


@pytest.mark.parametrize("is_exact", [False, True], ids=["about", "exactly"])
@pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "uvloop"])
@settings(max_examples=30)
@given(waits_us=st.lists(st.integers(0, 4_000), min_size=1, max_size=3))
def test_it_never_wakes_early(
    new_loop: Callable[[], asyncio.AbstractEventLoop], is_exact: bool, waits_us: list[int]
) -> None:
    async def main() -> list[int]:
        clock, late_ns = SystemClock(), []
        for wait_us in waits_us:
            until_ns = clock.monotonic_ns() + wait_us * 1_000
            await (clock.sleep_exactly_until if is_exact else clock.sleep_until)(until_ns)
            late_ns.append(clock.monotonic_ns() - until_ns)
        return late_ns

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert min(runner.run(main())) >= 0


@pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "uvloop"])
def test_it_wakes_close_to_the_moment_where_that_matters(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> list[int]:
        clock, late_ns = SystemClock(), []
        for wait_us in range(0, 6_000, 150):
            until_ns = clock.monotonic_ns() + wait_us * 1_000
            await clock.sleep_exactly_until(until_ns)
            late_ns.append(clock.monotonic_ns() - until_ns)
        return sorted(late_ns)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        late_ns = runner.run(main())
    # The quickest quarter: the machine may be busy with other things.
    assert late_ns[len(late_ns) // 4] < MILLISECOND_NS // 4


def test_a_usual_wait_does_not_keep_the_event_loop_busy() -> None:
    selector = Counting()

    async def main() -> int:
        clock, before = SystemClock(), selector.looks
        for _ in range(10):
            await clock.sleep_until(clock.monotonic_ns() + 7 * MILLISECOND_NS // 4)
        return selector.looks - before

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        assert runner.run(main()) <= 40  # a turn for the timer, one for the task, and again if it was a little early


def test_a_long_wait_costs_next_to_nothing() -> None:
    async def main() -> float:
        clock = SystemClock()
        before_s = time.process_time()
        await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 2)
        return time.process_time() - before_s

    assert asyncio.run(main()) < 0.05


def test_a_moment_that_has_passed_is_not_waited_for() -> None:
    async def main() -> int:
        clock = SystemClock()
        before_ns = clock.monotonic_ns()
        await clock.sleep_until(before_ns - SECOND_NS)
        return clock.monotonic_ns() - before_ns

    assert asyncio.run(main()) < SECOND_NS // 10


def test_the_wall_clock_runs_on_when_the_system_clock_is_set_back() -> None:
    step_ns = [0]
    clock = SystemClock(system_wall_ns=lambda: time.time_ns() + step_ns[0])
    first_ns = clock.wall_ns()
    assert abs(first_ns - time.time_ns()) < SECOND_NS
    step_ns[0] = -3_600 * SECOND_NS
    seen = [clock.wall_ns() for _ in range(1_000)]
    assert seen == sorted(seen)
    assert first_ns < seen[0] < seen[-1] < first_ns + 60 * SECOND_NS
    step_ns[0] = 3_600 * SECOND_NS
    assert clock.wall_ns() >= first_ns + 3_600 * SECOND_NS


def test_a_clock_that_ran_on_says_how_far_it_is_ahead() -> None:
    system_ns = 2_000 * SECOND_NS
    clock = SystemClock(system_wall_ns=lambda: system_ns)
    assert ahead_ns(clock, system_wall_ns=lambda: clock.wall_ns() + 5) == 0
    now_ns = clock.wall_ns()
    assert ahead_ns(clock, system_wall_ns=lambda: now_ns - 3_600 * SECOND_NS) >= 3_600 * SECOND_NS
