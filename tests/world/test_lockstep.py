"""Do two event loops with real sockets and threads live in one simulated time, however slow either of them is?"""

import asyncio
import selectors
import socket
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pytest

from remora.core.units import DAY_NS, SECOND_NS
from remora.sim.clock import Deadlock
from tests.world.lockstep import _MESSAGE, Conductor, Follower, LockstepClock, LockstepLoop

T = TypeVar("T")
Main = Callable[[LockstepClock], Awaitable[T]]


async def awaited(main: Main[T], clock: LockstepClock) -> T:
    return await main(clock)


def alone(main: Main[T], conductor: Conductor | None = None) -> T:
    conductor = conductor or Conductor()
    with asyncio.Runner(loop_factory=lambda: LockstepLoop(conductor)) as runner:
        return runner.run(awaited(main, LockstepClock(conductor)))


def following(channel: socket.socket, main: Main[T]) -> T:
    with channel:
        follower = Follower(channel)
        with asyncio.Runner(loop_factory=lambda: LockstepLoop(follower)) as runner:
            return runner.run(awaited(main, LockstepClock(follower)))


def together(leading: Main[T], follows: Main[T]) -> tuple[T, T]:
    """One conducts here, the other follows in a thread: the same two loops as in two processes."""
    conductor = Conductor()
    ours, theirs = socket.socketpair()

    async def conduct(clock: LockstepClock) -> T:
        gone = asyncio.Event()
        conductor.lead(ours, gone.set)
        result = await leading(clock)
        await gone.wait()
        return result

    with ThreadPoolExecutor(1) as threads:
        other: Future[T] = threads.submit(following, theirs, follows)
        return alone(conduct, conductor), other.result()


def ticking(every_s: int, times: int) -> Main[list[int]]:
    async def main(clock: LockstepClock) -> list[int]:
        seen_s = []
        for _ in range(times):
            await asyncio.sleep(every_s)
            seen_s.append(clock.monotonic_ns() // SECOND_NS)
        return seen_s

    return main


def test_alone_a_year_passes_in_a_moment() -> None:
    assert alone(ticking(86_400, 365))[-1] == 365 * 86_400


def test_two_that_sleep_see_the_same_moments() -> None:
    leading_s, following_s = together(ticking(10, 30), ticking(15, 20))
    assert leading_s == [*range(10, 301, 10)]
    assert following_s == [*range(15, 301, 15)]


def test_the_one_who_is_slow_is_waited_for() -> None:
    async def slow(clock: LockstepClock) -> list[int]:
        seen_s = []
        for _ in range(5):
            await asyncio.sleep(10)
            time.sleep(0.02)  # noqa: ASYNC251  a busy machine
            seen_s.append(clock.monotonic_ns() // SECOND_NS)
        return seen_s

    leading_s, following_s = together(ticking(1, 50), slow)
    assert leading_s == [*range(1, 51)]
    assert following_s == [10, 20, 30, 40, 50]


def test_time_stands_still_while_a_thread_works() -> None:
    async def with_a_thread(clock: LockstepClock) -> list[int]:
        await asyncio.sleep(7)
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.05)
        return [clock.monotonic_ns() // SECOND_NS]

    leading_s, following_s = together(ticking(1, 20), with_a_thread)
    assert leading_s[-1] == 20
    assert following_s == [7]


def test_time_stands_still_while_the_last_threads_end() -> None:
    async def with_a_last_thread(clock: LockstepClock) -> list[int]:
        last = ThreadPoolExecutor(1)
        last.submit(time.sleep, 0.2)
        asyncio.get_running_loop().set_default_executor(last)
        return [clock.monotonic_ns() // SECOND_NS]

    leading_s, following_s = together(ticking(1, 3), with_a_last_thread)
    assert leading_s[-1] == 3
    assert following_s == [0]


def test_an_answer_over_a_real_socket_takes_the_time_its_sender_takes_and_no_more() -> None:
    ports: Future[int] = Future()

    async def serving(clock: LockstepClock) -> list[int]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                await asyncio.sleep(int(line))
                writer.write(b"here\n")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            ports.set_result(server.sockets[0].getsockname()[1])
            await asyncio.sleep(100)
        return []

    async def asking(clock: LockstepClock) -> list[int]:
        reader, writer = await asyncio.open_connection("127.0.0.1", ports.result())
        waited_s = []
        for wait_s in (0, 3, 0, 20, 0):
            asked_ns = clock.monotonic_ns()
            writer.write(b"%d\n" % wait_s)
            assert await reader.readline() == b"here\n"
            waited_s.append((clock.monotonic_ns() - asked_ns) // SECOND_NS)
        writer.close()
        await writer.wait_closed()
        return waited_s

    assert together(serving, asking)[1] == [0, 3, 0, 20, 0]


def test_after_the_follower_is_gone_time_goes_on() -> None:
    leading_s, following_s = together(ticking(10, 30), ticking(1, 3))
    assert following_s == [1, 2, 3]
    assert leading_s[-1] == 300


def test_a_follower_ends_with_its_conductor() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with pytest.raises(SystemExit, match="the conductor is gone"):
        following(theirs, ticking(1, 1))


class InterruptedAsItHears(Follower):
    """As on a busy machine: a signal comes at the very moment in which a look finds the question."""

    def __init__(self, channel: socket.socket, signalled: socket.socket) -> None:
        self._signalled = signalled
        super().__init__(channel)

    def _hear(self) -> None:
        super()._hear()
        self._signalled.send(b"signal")


def test_a_process_that_got_a_signal_before_the_question_does_not_rest() -> None:
    ours, theirs = socket.socketpair()
    wakes_up, signalled = socket.socketpair()
    with ours, theirs, wakes_up, signalled:
        ours.send(_MESSAGE.pack(0, False))  # begin
        with InterruptedAsItHears(theirs, signalled) as follower:
            assert wakes_up.recv(8) == b"signal"
            follower.register(wakes_up, selectors.EVENT_READ)
            ours.send(_MESSAGE.pack(0, True))
            assert [key.fileobj for key, _ in follower.select(1)] == [wakes_up]
            ours.setblocking(False)
            with pytest.raises(BlockingIOError):
                ours.recv(_MESSAGE.size)


def test_in_quiet_times_a_jump_reaches_as_far_as_allowed_and_no_timer_is_lost() -> None:
    assert alone(ticking(1, 5), Conductor(lambda: 20 * SECOND_NS)) == [20, 40, 60, 80, 100]


def test_when_everybody_rests_for_ever_that_is_said() -> None:
    async def for_ever(_clock: LockstepClock) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        alone(for_ever)


def test_the_wall_clock_runs_with_the_other_one_and_no_sleep_ends_early() -> None:
    async def main(clock: LockstepClock) -> None:
        began_ns = clock.wall_ns()
        for until_ns in (1, 2, DAY_NS // 3 + 1, 9 * DAY_NS + 7):
            await clock.sleep_until(until_ns)
            assert until_ns <= clock.monotonic_ns() <= until_ns + SECOND_NS // 1_000
        assert clock.wall_ns() - began_ns == clock.monotonic_ns()
        await clock.sleep_until(0)

    alone(main)
