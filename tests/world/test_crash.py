"""Does a simulated kill leave behind exactly what a real one would?"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from remora.core.units import SECOND_NS
from remora.sim.clock import SimClock, run
from remora.sim.crash import Crashed, Generation


class Disk:
    """A durable place: what is written here survives."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def write(self, line: str) -> int:
        await asyncio.sleep(0.01)
        self.lines.append(line)
        return len(self.lines)

    def size(self) -> int:
        return len(self.lines)

    async def read(self) -> AsyncIterator[str]:
        for line in self.lines:
            yield line


async def _write_for_ever(disk: Disk) -> None:
    try:
        while True:
            await disk.write("line")
            await asyncio.sleep(1)
    finally:
        await disk.write("goodbye")


def test_finally_blocks_of_a_killed_process_leave_no_trace() -> None:
    async def main(_clock: SimClock) -> list[str]:
        disk, generation = Disk(), Generation()
        asyncio.get_running_loop().call_later(3.5, generation.crash)
        with pytest.raises(Crashed):
            await generation.live(_write_for_ever(generation.guard(disk)))
        return disk.lines

    assert run(main) == ["line"] * 4


def test_a_process_that_is_asked_to_stop_says_goodbye_and_does_nothing_more() -> None:
    async def main(clock: SimClock) -> list[str]:
        disk, generation = Disk(), Generation()
        living = asyncio.get_running_loop().create_task(generation.live(_write_for_ever(generation.guard(disk))))
        await asyncio.sleep(3.5)
        living.cancel()
        await asyncio.wait([living])
        await clock.sleep_until(clock.monotonic_ns() + 3_600 * SECOND_NS)
        return disk.lines

    assert run(main) == [*["line"] * 4, "goodbye"]


def test_a_process_may_die_before_a_call_has_any_effect_or_after_it() -> None:
    async def lines(*, after_effect: bool) -> list[str]:
        disk, generation = Disk(), Generation(die_at_call=3, after_effect=after_effect)
        with pytest.raises(Crashed):
            await generation.live(_write_for_ever(generation.guard(disk)))
        return disk.lines

    assert run(lambda _clock: lines(after_effect=False)) == ["line"] * 2
    assert run(lambda _clock: lines(after_effect=True)) == ["line"] * 3


def test_code_that_survives_every_exception_does_not_survive_a_crash() -> None:
    async def stubborn(disk: Disk) -> None:
        while True:
            try:
                await disk.write("line")
            except Exception:  # noqa: BLE001  what a supervisor does
                await asyncio.sleep(1)

    async def main(_clock: SimClock) -> int:
        disk, generation = Disk(), Generation(die_at_call=2)
        with pytest.raises(Crashed):
            await generation.live(stubborn(generation.guard(disk)))
        return disk.size()

    assert run(main) == 1


def test_children_of_a_killed_process_die_with_it_and_other_processes_live_on() -> None:
    async def parent(disk: Disk) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(_write_for_ever(disk))

    async def main(clock: SimClock) -> tuple[int, int]:
        mine, theirs = Disk(), Disk()
        generation, other = Generation(), Generation()
        living = asyncio.create_task(other.live(_write_for_ever(other.guard(theirs))))
        asyncio.get_running_loop().call_later(2.5, generation.crash)
        with pytest.raises(Crashed):
            await generation.live(parent(generation.guard(mine)))
        size = mine.size()
        await clock.sleep_until(20 * SECOND_NS)
        assert mine.size() == size == 15
        other.crash()
        with pytest.raises(Crashed):
            await living
        return size, theirs.size()

    assert run(main)[1] == 20


def test_a_dead_process_cannot_read_either() -> None:
    disk, generation = Disk(), Generation()
    guarded = generation.guard(disk)
    assert guarded.size() == 0
    generation.crash()
    with pytest.raises(Crashed):
        guarded.size()
    with pytest.raises(Crashed):
        guarded.read()


def test_a_process_that_ends_by_itself_gives_its_result() -> None:
    async def main(_clock: SimClock) -> list[str]:
        disk, generation = Disk(), Generation()
        guarded = generation.guard(disk)

        async def process() -> list[str]:
            await guarded.write("a")
            return [line async for line in guarded.read()]

        return await generation.live(process())

    assert run(main) == ["a"]
