"""Does a deadline end what takes too long, and nothing else?"""

import asyncio

import pytest

from remora.core.units import SECOND_NS
from remora.sim.clock import Deadlock, SimClock, run
from remora.sources.transport.deadline import LOOK_EVERY_S, Deadlines

HOUR_S = 3_600


def now_s(clock: SimClock) -> float:
    return clock.monotonic_ns() / SECOND_NS


def test_what_takes_too_long_ends_with_a_timeout_at_most_one_look_later() -> None:
    async def main(clock: SimClock) -> float:
        with pytest.raises(TimeoutError), Deadlines().within(10):
            await asyncio.sleep(HOUR_S)
        return now_s(clock)

    assert 10 <= run(main) <= 10 + LOOK_EVERY_S


def test_what_ends_in_time_is_left_alone_and_nothing_stays_behind() -> None:
    async def main(clock: SimClock) -> None:
        with Deadlines().within(10):
            await asyncio.sleep(9)
        await asyncio.sleep(HOUR_S)
        # With a timer left, time could go on: the loop would not notice that nobody can wake this.
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run(main)


def test_time_in_which_the_process_was_stopped_does_not_count() -> None:
    async def main(clock: SimClock) -> float:
        asyncio.get_running_loop().call_later(3, clock.stall, 60 * SECOND_NS)
        with Deadlines().within(10):
            await asyncio.sleep(65)
        asyncio.get_running_loop().call_later(3, clock.stall, 60 * SECOND_NS)
        with pytest.raises(TimeoutError), Deadlines().within(10):
            await asyncio.sleep(HOUR_S)
        return now_s(clock)

    assert 135 <= run(main) <= 135 + 4 * LOOK_EVERY_S


@pytest.mark.slow
def test_a_paused_deadline_never_comes_and_one_that_is_set_again_counts_from_there() -> None:
    async def block() -> None:
        with Deadlines().within(10) as deadline:
            deadline.pause()
            await asyncio.sleep(HOUR_S)
            deadline.set(60)
            await asyncio.sleep(HOUR_S)

    async def main(clock: SimClock) -> float:
        with pytest.raises(TimeoutError):
            await block()
        return now_s(clock) - HOUR_S

    assert 60 <= run(main) <= 60 + LOOK_EVERY_S


def test_each_block_has_its_own_deadline() -> None:
    deadlines = Deadlines()

    async def wait(clock: SimClock, seconds: float) -> float:
        with pytest.raises(TimeoutError), deadlines.within(seconds):
            await asyncio.sleep(HOUR_S)
        return now_s(clock)

    async def main(clock: SimClock) -> list[float]:
        return await asyncio.gather(*(wait(clock, seconds) for seconds in (30, 1, 7)))

    assert [round(ended_s) for ended_s in run(main)] == [30, 1, 7]


def test_a_cancellation_from_outside_stays_a_cancellation() -> None:
    async def block() -> None:
        with Deadlines().within(10):
            await asyncio.sleep(HOUR_S)

    async def main(clock: SimClock) -> None:
        task = asyncio.create_task(block())
        asyncio.get_running_loop().call_later(5, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)


def test_so_does_one_in_the_moment_of_the_deadline() -> None:
    async def main(clock: SimClock) -> None:
        deadline = Deadlines().within(10)

        async def block() -> None:
            with deadline:
                await asyncio.sleep(HOUR_S)

        task = asyncio.create_task(block())
        await asyncio.sleep(1)
        deadline.end()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)


def test_after_a_timeout_the_task_is_not_taken_for_cancelled() -> None:
    async def main(clock: SimClock) -> int:
        with pytest.raises(TimeoutError), Deadlines().within(1):
            await asyncio.sleep(HOUR_S)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert run(main) == 0


def test_an_error_inside_is_raised_as_it_is() -> None:
    async def main(clock: SimClock) -> None:
        with pytest.raises(LookupError), Deadlines().within(1):
            raise LookupError

    run(main)
