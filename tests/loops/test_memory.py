"""Does a process that lives for days hold no more memory at their end than after the first one?

What it holds is weighed object by object, from the service and from every task that waits, because the world around it
is in the same process and does grow. How much a whole process needs is measured in the days over loopback.
"""

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

import msgspec
import pytest

from remora.loops.numbered.rescan import RescanSettings
from remora.loops.numbered.service import ServiceSettings
from remora.sim.clock import SimClock
from remora.sim.faults import Flood
from remora.sim.world import World, WorldSettings
from tests.loops.rig import DAY_NS, HOUR_NS, MINUTE_NS, Process, Rig, in_virtual_time
from tests.loops.test_week import BAD_WEEK, CEILING_NS

# Passes begin every six hours and end within minutes: in between it is quiet.
QUIET_NS = (DAY_NS + 3 * HOUR_NS, 3 * DAY_NS + 21 * HOUR_NS)
# An outage of two hours and a flood, both after the first look.
BAD_DAYS = msgspec.structs.replace(
    BAD_WEEK,
    stream=msgspec.structs.replace(BAD_WEEK.stream, floods=(Flood(2 * 86_400, 2 * 86_400 + 600, ids_per_second=200),)),
)
GROWTH_MAX_BYTES = 64 * 1024
SETTINGS = ServiceSettings(rescan=RescanSettings(window_ns=14 * DAY_NS), poll_every_ns=2 * MINUTE_NS)

_SHARED_BY_ALL = (ModuleType, type, FunctionType, BuiltinFunctionType, CodeType)
_THE_WORLD = ("remora.sim.", "remora.stores.", "tests.", "structlog.", "_pytest.")


def weighed(roots: Iterable[object]) -> Counter[str]:
    """How many bytes can be reached from these, by type; what belongs to the world and to the code is left out."""
    gc.collect()
    bytes_of: Counter[str] = Counter()
    seen: set[int] = set()
    ahead = list(roots)
    while ahead:
        each = ahead.pop()
        if id(each) in seen or isinstance(each, _SHARED_BY_ALL) or type(each).__module__.startswith(_THE_WORLD):
            continue
        if isinstance(each, dict) and "__builtins__" in each:  # the names of a module
            continue
        seen.add(id(each))
        bytes_of[type(each).__name__] += sys.getsizeof(each)
        ahead.extend(gc.get_referents(each))
    return bytes_of


def held(process: Process) -> Counter[str]:
    """What the service holds right now, its waiting tasks included."""
    coroutines = [task.get_coro() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    return weighed([process.service, process.collector, process.governor, *coroutines])


def test_whatever_is_kept_is_weighed_and_the_world_is_not() -> None:
    kept = {"key": ["x" * 1_000 for _ in range(3)]}
    assert weighed([kept])["str"] > 1_000  # the same text three times is held once
    assert weighed([World(WorldSettings()), World]) == Counter()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_after_bad_days_a_process_holds_what_it_held_after_the_first_one() -> None:
    async def main(clock: SimClock) -> list[Counter[str]]:
        world = WorldSettings(items=100, new_per_day=50)
        rig = Rig.make(clock, world=world, faults=BAD_DAYS, ceiling_ns=CEILING_NS)
        seen = []
        async with rig.process(settings=SETTINGS) as process:
            running = asyncio.get_running_loop().create_task(process.service.run())
            for moment_ns in QUIET_NS:
                await clock.sleep_until(moment_ns)
                assert not running.done(), running
                seen.append(held(process))
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return seen

    first, last = in_virtual_time(main, seed=3)
    print(f"the service held {first.total() / 1024:.0f} KiB after a day, {last.total() / 1024:.0f} KiB after four days")
    assert first.total() > 32 * 1024, "most of it was not found"
    assert last.total() - first.total() <= GROWTH_MAX_BYTES, (last - first).most_common(8)
