"""What time is it in the simulated world, and how does a program run in it?

`run` executes a coroutine function in virtual time: production code with `asyncio.sleep` and `clock.sleep_until` runs
unchanged, and a day takes as long as the work done in it. The order of a set of strings depends on Python's hash seed,
so code that must be repeatable does not iterate over such sets.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from remora.core.units import SECOND_NS
from remora.sim.loop import VIRTUAL_LIMIT_NS, Deadlock, JumpingLoop, Livelock, RanTooLong

__all__ = ["START_WALL_NS", "Deadlock", "Livelock", "RanTooLong", "SimClock", "run"]

T = TypeVar("T")

# The time at which simulated wall clocks begin: a Tuesday in 2026.
START_WALL_NS: Final = 1_767_700_800 * SECOND_NS


class _Machine:
    """The machine's clock. An administrator or a bad time server may step it."""

    def __init__(self, loop: JumpingLoop, start_wall_ns: int) -> None:
        self.loop = loop
        self.start_wall_ns = start_wall_ns
        self.steps_ns = 0

    def wall_ns(self) -> int:
        return self.start_wall_ns + self.loop.now_ns + self.steps_ns


class SimClock:
    """The clock as one process sees it; see `contracts.Clock`.

    `wall_ns` never goes back within a process: after a step back it does not move until the machine's clock has caught
    up. A process that starts after the step (`restarted`) sees the machine's clock as it is, earlier than what the
    previous process saw. The monotonic clock goes on across restarts, as it does on a machine that stays up.
    """

    def __init__(self, loop: JumpingLoop, *, start_wall_ns: int = START_WALL_NS, seed: int = 0) -> None:
        self._machine = _Machine(loop, start_wall_ns)
        self._latest_wall_ns = 0
        self.random = random.Random(seed)  # the only source of randomness in a simulated run

    def monotonic_ns(self) -> int:
        return self._machine.loop.now_ns

    def wall_ns(self) -> int:
        self._latest_wall_ns = max(self._latest_wall_ns, self._machine.wall_ns())
        return self._latest_wall_ns

    def true_ns(self) -> int:
        """The wall clock without any steps: the provider's own time."""
        return self._machine.start_wall_ns + self._machine.loop.now_ns

    def step_wall(self, by_ns: int) -> None:
        """Step the machine's wall clock forward, or back if negative."""
        self._machine.steps_ns += by_ns

    def stall(self, for_ns: int) -> None:
        """Suspend the machine for this time."""
        self._machine.loop.stall(for_ns)

    def suspend(self, owner: object, for_ns: int) -> None:
        """Suspend one process for this time, as SIGSTOP does."""
        self._machine.loop.suspend(owner, for_ns)

    def is_suspended(self, owner: object) -> bool:
        """Whether this process is suspended now."""
        return self._machine.loop.is_suspended(owner)

    def restarted(self) -> "SimClock":
        """The clock of the next process on the same machine."""
        successor = SimClock(self._machine.loop)
        successor._machine = self._machine
        successor.random = self.random
        return successor

    async def sleep_until(self, monotonic_ns: int) -> None:
        loop = self._machine.loop
        if monotonic_ns <= loop.now_ns:
            await asyncio.sleep(0)
            return
        due: asyncio.Future[None] = loop.create_future()
        timer = loop.call_at_ns(monotonic_ns, _wake, due)
        try:
            await due
        except BaseException:
            timer.cancel()
            raise

    async def sleep_exactly_until(self, monotonic_ns: int) -> None:
        await self.sleep_until(monotonic_ns)


def _wake(due: "asyncio.Future[None]") -> None:
    if not due.done():
        due.set_result(None)


def run(
    main: Callable[[SimClock], Awaitable[T]],
    *,
    seed: int = 0,
    start_wall_ns: int = START_WALL_NS,
    limit_ns: int = VIRTUAL_LIMIT_NS,
) -> T:
    """Run `main(clock)` in virtual time and return its result.

    The same seed gives the same run: the module `random` and `clock.random` both start from it. Raises `Deadlock` when
    every task waits and nothing is scheduled, `Livelock` when tasks spin and time cannot move, `RanTooLong` when virtual
    time passes `limit_ns`.
    """
    loop = JumpingLoop(limit_ns=limit_ns)
    chance_before = random.getstate()
    random.seed(seed)

    async def body() -> T:
        return await main(SimClock(loop, start_wall_ns=start_wall_ns, seed=seed))

    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(body())
    finally:
        random.setstate(chance_before)
