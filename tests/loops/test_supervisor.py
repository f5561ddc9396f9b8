"""Does one loop's trouble stay its own, and does a fatal error end everything?"""

import asyncio
from itertools import pairwise

import pytest
import structlog
from structlog.testing import capture_logs

from remora.core.errors import ConfigurationError, RemoraError, StoreUnavailable
from remora.loops.supervisor import (
    RESTART_MAX_NS,
    STOP_MAX_S,
    WELL_AFTER_NS,
    Supervisor,
    first_leaf,
    is_retryable,
    restart_delay_ns,
    until_it_works,
)
from remora.sim.clock import SimClock
from tests.loops.rig import SECOND_NS, in_virtual_time

DOWN = StoreUnavailable("the store does not answer", hint="wait")
BROKEN = ConfigurationError("that cannot work", hint="write something else")


@pytest.mark.parametrize(
    "error, expected",
    [
        (DOWN, True),
        (BROKEN, False),
        (OSError("no such file"), False),
        (AssertionError("impossible"), False),
        (ExceptionGroup("two", [DOWN, DOWN]), True),
        (ExceptionGroup("two", [DOWN, BROKEN]), False),
        (ExceptionGroup("nested", [ExceptionGroup("one", [DOWN])]), True),
    ],
)
def test_only_what_may_pass_is_retryable_and_a_group_only_if_all_of_it_is(error: Exception, expected: bool) -> None:
    assert is_retryable(error) is expected


def test_the_error_shown_for_a_group_is_the_one_that_ends_the_service() -> None:
    assert first_leaf(ExceptionGroup("two", [DOWN, ExceptionGroup("one", [BROKEN])])) is BROKEN


def test_rests_double_up_to_a_minute() -> None:
    rests = [restart_delay_ns(failures) // SECOND_NS for failures in range(1, 9)]
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]
    assert restart_delay_ns(10**6) == RESTART_MAX_NS


def test_a_retryable_failure_restarts_its_loop_and_no_other() -> None:
    starts = {"shaky": 0, "steady": 0}

    async def shaky() -> None:
        starts["shaky"] += 1
        if starts["shaky"] <= 3:
            raise ExceptionGroup("inside a task group", [DOWN])
        await asyncio.sleep(3_600)

    async def steady() -> None:
        starts["steady"] += 1
        await asyncio.sleep(3_600)

    async def main(clock: SimClock) -> None:
        supervisor = Supervisor({"shaky": shaky, "steady": steady}, clock=clock)
        running = asyncio.get_running_loop().create_task(supervisor.run())
        await asyncio.sleep(20)
        state = supervisor.state()
        assert (state["shaky"].alive, state["shaky"].restarts) == (True, 3)
        assert state["shaky"].last_error == DOWN.message
        assert (state["steady"].alive, state["steady"].restarts, state["steady"].last_error) == (True, 0, None)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    in_virtual_time(main)
    assert starts == {"shaky": 4, "steady": 1}


def test_a_loop_that_ran_well_for_a_while_is_restarted_quickly_again() -> None:
    started: list[float] = []

    async def main(clock: SimClock) -> None:
        async def fails_late() -> None:
            started.append(asyncio.get_running_loop().time())
            await clock.sleep_until(clock.monotonic_ns() + WELL_AFTER_NS)
            raise DOWN

        running = asyncio.get_running_loop().create_task(Supervisor({"late": fails_late}, clock=clock).run())
        await asyncio.sleep(4 * WELL_AFTER_NS / SECOND_NS)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    in_virtual_time(main)
    assert [later - earlier for earlier, later in pairwise(started)] == [301.0] * 3


@pytest.mark.parametrize("fatal", [BROKEN, OSError("gone"), AssertionError("impossible")])
def test_any_other_failure_ends_all_loops_with_that_error(fatal: Exception) -> None:
    ended: list[str] = []

    async def steady() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.append("steady")

    async def fails() -> None:
        await asyncio.sleep(1)
        raise fatal

    async def main(clock: SimClock) -> None:
        await Supervisor({"steady": steady, "fails": fails}, clock=clock).run()

    with pytest.raises(type(fatal)) as caught:
        in_virtual_time(main)
    assert caught.value is fatal
    assert ended == ["steady"]


def test_a_stop_waits_for_loops_to_let_go_but_not_for_ever() -> None:
    async def lets_go() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(2)

    async def hangs() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(3_600)

    async def seconds_to_stop(clock: SimClock, supervisor: Supervisor) -> float:
        running = asyncio.get_running_loop().create_task(supervisor.run())
        await asyncio.sleep(1)
        asked_ns = clock.monotonic_ns()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return (clock.monotonic_ns() - asked_ns) / SECOND_NS

    async def main(clock: SimClock) -> tuple[float, float]:
        return (
            await seconds_to_stop(clock, Supervisor({"one": lets_go}, clock=clock)),
            await seconds_to_stop(clock, Supervisor({"one": lets_go, "two": hangs}, clock=clock)),
        )

    assert in_virtual_time(main) == (2.0, STOP_MAX_S)


def test_a_store_that_fails_while_a_loop_lets_go_starts_nothing_anew() -> None:
    starts = 0

    async def main(clock: SimClock) -> float:
        async def fails_to_let_go() -> None:
            nonlocal starts
            starts += 1
            try:
                await asyncio.sleep(3_600)
            finally:
                raise DOWN

        running = asyncio.get_running_loop().create_task(Supervisor({"one": fails_to_let_go}, clock=clock).run())
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled()
        return asyncio.get_running_loop().time()

    assert in_virtual_time(main) == 1.0
    assert starts == 1


def test_what_is_in_hand_is_kept_until_the_store_answers() -> None:
    answers: list[Exception | int] = [DOWN, DOWN, 7]

    async def call() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def main(clock: SimClock) -> tuple[int, int]:
        return await until_it_works(call, clock=clock, what="test"), clock.monotonic_ns() // SECOND_NS

    assert in_virtual_time(main) == (7, 3)


def test_a_store_that_is_awaited_is_told_once_a_minute_and_when_it_answers_again() -> None:
    failures = iter([DOWN] * 9)

    async def call() -> None:
        if (error := next(failures, None)) is not None:
            raise error

    async def main(clock: SimClock) -> list[tuple[str, int]]:
        structlog.reset_defaults()  # the tests of this folder are silent otherwise
        with capture_logs() as lines:
            await until_it_works(call, clock=clock, what="the newest items")
        return [(line["event"], line["failures"]) for line in lines]

    assert in_virtual_time(main) == [
        *(("store_awaited", failures) for failures in (1, 7, 8, 9)),
        ("store_answers_again", 9),
    ]


def test_a_store_that_will_not_come_back_is_not_waited_for() -> None:
    async def call() -> int:
        raise BROKEN

    async def main(clock: SimClock) -> None:
        await until_it_works(call, clock=clock, what="test")

    with pytest.raises(RemoraError):
        in_virtual_time(main)
