"""Does simulated time jump, and does it do so in the same way every time?"""

import asyncio
import random
import time

import pytest

from remora.core.units import DAY_NS, HOUR_NS, SECOND_NS
from remora.sim.clock import Deadlock, Livelock, RanTooLong, SimClock, run
from remora.sim.crash import Generation
from remora.sim.loop import JumpingLoop


def test_a_simulated_year_passes_in_a_moment() -> None:
    async def main(clock: SimClock) -> int:
        for _ in range(365):
            await asyncio.sleep(86_400)
        return clock.monotonic_ns()

    assert run(main) == 365 * DAY_NS


def test_polling_work_sees_every_step_of_an_hour() -> None:
    async def main(clock: SimClock) -> int:
        polls = 0
        while clock.monotonic_ns() < HOUR_NS:
            await asyncio.sleep(0.25)
            polls += 1
        return polls

    assert run(main) == 4 * 3_600


def test_a_sleep_ends_at_its_exact_nanosecond_even_after_years() -> None:
    async def main(clock: SimClock) -> None:
        await clock.sleep_until(900 * DAY_NS + 1)
        assert clock.monotonic_ns() == 900 * DAY_NS + 1
        await clock.sleep_until(900 * DAY_NS + 2)
        assert clock.monotonic_ns() == 900 * DAY_NS + 2

    run(main)


def test_sleeping_until_the_past_returns_at_once_but_lets_others_run() -> None:
    async def main(clock: SimClock) -> list[str]:
        order: list[str] = []
        other = asyncio.create_task(_append(order, "other"))
        await clock.sleep_until(-5)
        order.append("sleeper")
        await other
        assert clock.monotonic_ns() == 0
        return order

    assert run(main) == ["other", "sleeper"]


async def _append(order: list[str], word: str) -> None:
    order.append(word)


def test_timers_of_the_same_moment_run_in_the_order_they_were_set() -> None:
    async def main(clock: SimClock) -> list[int]:
        order: list[int] = []

        async def note(number: int) -> None:
            await clock.sleep_until(SECOND_NS)
            order.append(number)

        await asyncio.gather(*(note(number) for number in range(50)))
        return order

    assert run(main) == list(range(50))


def test_a_timeout_fires_in_virtual_time() -> None:
    async def main(clock: SimClock) -> int:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.get_running_loop().create_future()
        return clock.monotonic_ns()

    assert run(main) == 30 * SECOND_NS


def test_tasks_that_wait_for_each_other_are_reported_instead_of_hanging() -> None:
    async def main(_clock: SimClock) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"nothing is scheduled: .*Event\.wait"):
        run(main)


def test_a_program_that_polls_for_ever_is_stopped() -> None:
    async def main(_clock: SimClock) -> None:
        while True:  # noqa: ASYNC110  the mistake to be noticed
            await asyncio.sleep(60)

    with pytest.raises(RanTooLong, match="1 simulated days"):
        run(main, limit_ns=DAY_NS)


def test_tasks_that_spin_at_one_moment_are_stopped() -> None:
    async def spin(_clock: SimClock) -> None:
        while True:  # noqa: ASYNC110  the mistake itself
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match=r"time stands still"):
        run(spin)


def test_threads_are_errors_in_simulated_time() -> None:
    async def main(_clock: SimClock) -> None:
        await asyncio.to_thread(time.monotonic)

    with pytest.raises(RuntimeError, match="thread"):
        run(main)


def test_sockets_are_errors_in_simulated_time() -> None:
    async def main(_clock: SimClock) -> None:
        await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)

    with pytest.raises(RuntimeError, match="sockets"):
        run(main)


def test_the_wall_clock_never_goes_back_within_a_process_but_a_restart_sees_the_step() -> None:
    async def main(clock: SimClock) -> None:
        before = clock.wall_ns()
        clock.step_wall(-HOUR_NS)
        assert clock.wall_ns() == before
        await asyncio.sleep(60)
        assert clock.wall_ns() == before
        assert clock.restarted().wall_ns() == before - HOUR_NS + 60 * SECOND_NS
        assert clock.restarted().monotonic_ns() == clock.monotonic_ns()
        assert clock.true_ns() == before + 60 * SECOND_NS

    run(main)


def test_a_step_forward_is_seen_at_once_and_leaves_the_monotonic_clock_alone() -> None:
    async def main(clock: SimClock) -> None:
        before = clock.wall_ns()
        clock.step_wall(DAY_NS)
        assert clock.wall_ns() == before + DAY_NS
        assert clock.monotonic_ns() == 0

    run(main)


def _trace(seed: int) -> list[tuple[int, int]]:
    """A busy program: what happens when, with racing tasks kept in a set."""

    async def main(clock: SimClock) -> list[tuple[int, int]]:
        events: list[tuple[int, int]] = []

        async def worker(number: int) -> None:
            for _ in range(20):
                await asyncio.sleep(random.choice([0, 0.5, 1]))
                events.append((clock.monotonic_ns(), number))

        tasks = {asyncio.create_task(worker(number)) for number in range(20)}
        while tasks:
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            events.extend((clock.monotonic_ns(), hash(task)) for task in done)
        return events

    return run(main, seed=seed)


def test_the_same_seed_gives_the_same_run_and_another_seed_another_one() -> None:
    assert _trace(1) == _trace(1)
    assert _trace(1) != _trace(2)


def test_a_run_leaves_the_global_dice_as_they_were() -> None:
    async def main(_clock: SimClock) -> float:
        return random.random()

    random.seed(5)
    expected = random.random()
    random.seed(5)
    run(main, seed=9)
    assert random.random() == expected


def test_a_loop_can_be_used_without_run() -> None:
    loop = JumpingLoop()
    loop.run_until_complete(asyncio.sleep(5))
    assert loop.now_ns == 5 * SECOND_NS
    loop.close()


def test_a_suspended_process_stands_still_while_the_others_go_on() -> None:
    async def main(clock: SimClock) -> dict[str, list[int]]:
        ticks: dict[str, list[int]] = {"one": [], "two": []}

        async def tick(name: str) -> None:
            for _ in range(6):
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
                ticks[name].append(clock.monotonic_ns() // SECOND_NS)

        lives = {name: Generation() for name in ticks}
        living = [asyncio.ensure_future(life.live(tick(name))) for name, life in lives.items()]
        await clock.sleep_until(2 * SECOND_NS + 1)
        clock.suspend(lives["one"], 10 * SECOND_NS)
        assert [clock.is_suspended(life) for life in lives.values()] == [True, False]
        await asyncio.gather(*living)
        return ticks

    assert run(main) == {"one": [1, 2, 12, 13, 14, 15], "two": [1, 2, 3, 4, 5, 6]}


def test_a_short_suspension_within_a_long_one_does_not_end_it() -> None:
    async def main(clock: SimClock) -> tuple[bool, int]:
        woken: list[int] = []

        async def wake() -> None:
            await clock.sleep_until(2 * SECOND_NS)
            woken.append(clock.monotonic_ns() // SECOND_NS)

        life = Generation()
        living = asyncio.ensure_future(life.live(wake()))
        await clock.sleep_until(SECOND_NS)
        clock.suspend(life, 60 * SECOND_NS)
        await clock.sleep_until(5 * SECOND_NS)
        clock.suspend(life, 3 * SECOND_NS)
        await clock.sleep_until(20 * SECOND_NS)
        is_suspended = clock.is_suspended(life)
        await living
        return is_suspended, woken[0]

    assert run(main) == (True, 61)
