"""Is an id left out? While nothing is sent and nothing waits, every id up to the newest covered one must be covered.

A later process would find such an id in the ledger, so that the end of a world does not show it.
"""

from typing import Final

from remora.contracts import Store
from remora.core.ledger.coverage import IdRange
from remora.core.units import MINUTE_NS
from remora.sim.fuzz.judge import NAME
from remora.sim.fuzz.lives import Home, Process

# A loop that failed begins again within a minute, and reads the ledger.
LEFT_OUT_AFTER_NS: Final = 2 * MINUTE_NS
IDLE_LOOKS: Final = 3


class LeftOut:
    """Remembers since when ids are missing although all processes are idle."""

    def __init__(self, home: Home, processes: list[Process]) -> None:
        self._home = home
        self._processes = processes
        self._missing: dict[int, list[int]] = {}  # by id: when it was missing at an idle look
        self._disturbances = -1

    async def look(self, store: Store) -> None:
        """Fail if an id is missing again and again while there is nothing else to do."""
        before, self._disturbances = self._disturbances, self._count_disturbances()
        if before != self._disturbances:
            self._missing.clear()
        if not self._is_idle() or await store.open_segments(NAME):
            return
        coverage, now_ns = await store.coverage(NAME), self._home.clock.monotonic_ns()
        holes = coverage.uncovered(IdRange(1, coverage.ranges[-1].end)) if coverage.ranges else ()
        ids = [item_id for hole in holes for item_id in range(hole.start, hole.end + 1)]
        self._missing = {item_id: [*self._missing.get(item_id, ()), now_ns] for item_id in ids}
        for item_id, seen_ns in self._missing.items():
            if len(seen_ns) >= IDLE_LOOKS and now_ns - seen_ns[0] >= LEFT_OUT_AFTER_NS:
                self._home.judge.fail(f"item {item_id} is missing, and nobody asks for it while nothing else is to do")

    def _count_disturbances(self) -> int:
        """Whatever makes a loop or a process begin again changes this number."""
        return self._home.trouble.failures + sum(process.lives for process in self._processes)

    def _is_idle(self) -> bool:
        if self._home.trouble.is_down:
            return False
        return all(
            process.is_awake() and process.running is not None and _is_at_rest(process) for process in self._processes
        )


def _is_at_rest(process: Process) -> bool:
    assert process.running is not None, "it is awake"
    rate = process.running.given.governor.state()
    return rate.waiting == 0 and rate.in_flight == 0
