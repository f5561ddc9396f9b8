"""When are writes committed together? At once if nothing was written just now, else a few dozen times a second."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence

from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.sim.clock import SimClock, run
from remora.stores.batches import Batches

PAUSE_NS = 25 * MILLISECOND_NS
ENOUGH = 40


class Written:
    """What was written, batch by batch, and when each began. Each takes a millisecond."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self.batches: list[tuple[int, list[int]]] = []
        self.writes = Batches(self._write, batch_max=100, pause_s=PAUSE_NS / SECOND_NS, enough=ENOUGH)

    async def _write(self, jobs: Sequence[int]) -> Sequence[int]:
        self.batches.append((self._clock.monotonic_ns(), list(jobs)))
        await self._clock.sleep_until(self._clock.monotonic_ns() + MILLISECOND_NS)
        return jobs

    @property
    def began_ns(self) -> list[int]:
        return [began_ns for began_ns, _ in self.batches]


def simulated(body: Callable[[SimClock, Written], Coroutine[None, None, None]]) -> None:
    async def main(clock: SimClock) -> None:
        await clock.sleep_until(SECOND_NS)
        await body(clock, Written(clock))

    run(main)


def test_a_write_that_can_wait_is_written_at_once_if_none_was_written_just_now() -> None:
    async def body(clock: SimClock, written: Written) -> None:
        assert await written.writes.put(1, can_wait=True) == 1
        assert written.began_ns == [SECOND_NS]

    simulated(body)


def test_writes_that_can_wait_are_written_together_once_in_a_pause_and_in_order() -> None:
    async def body(clock: SimClock, written: Written) -> None:
        waiting = []
        for number in range(1_000):
            await clock.sleep_until(SECOND_NS + number * MILLISECOND_NS)
            waiting.append(written.writes.put(number, can_wait=True))
        assert await asyncio.gather(*waiting) == list(range(1_000))
        gaps_ns = [later - earlier for earlier, later in zip(written.began_ns, written.began_ns[1:], strict=False)]
        assert min(gaps_ns) >= PAUSE_NS
        assert [number for _, jobs in written.batches for number in jobs] == list(range(1_000))

    simulated(body)


def test_a_write_that_cannot_wait_is_written_at_once_and_takes_the_others_along() -> None:
    async def body(clock: SimClock, written: Written) -> None:
        await written.writes.put(1, can_wait=True)
        patient = written.writes.put_many([2, 3], can_wait=True)
        await clock.sleep_until(SECOND_NS + 5 * MILLISECOND_NS)
        assert not patient.done()
        assert await written.writes.put(4) == 4
        assert await patient == [2, 3]
        assert written.batches[1:] == [(SECOND_NS + 5 * MILLISECOND_NS, [2, 3, 4])]

    simulated(body)


def test_after_a_write_that_could_not_wait_the_next_ones_wait_again() -> None:
    async def body(clock: SimClock, written: Written) -> None:
        await written.writes.put(1)
        await written.writes.put(2)
        await written.writes.put(3, can_wait=True)
        assert written.began_ns == [SECOND_NS, SECOND_NS + MILLISECOND_NS, SECOND_NS + MILLISECOND_NS + PAUSE_NS]

    simulated(body)


def test_enough_writes_do_not_wait_for_more() -> None:
    async def body(clock: SimClock, written: Written) -> None:
        await written.writes.put(0, can_wait=True)
        await written.writes.put_many(range(ENOUGH), can_wait=True)
        assert written.began_ns == [SECOND_NS, SECOND_NS + MILLISECOND_NS]

    simulated(body)


def test_closing_writes_what_waits_without_a_wait() -> None:
    async def body(clock: SimClock, written: Written) -> None:
        await written.writes.put(1, can_wait=True)
        waiting = written.writes.put(2, can_wait=True)
        await asyncio.sleep(0)
        await written.writes.finish()
        assert waiting.result() == 2
        assert written.began_ns == [SECOND_NS, SECOND_NS + MILLISECOND_NS]

    simulated(body)
