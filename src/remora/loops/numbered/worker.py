"""What does a process do that only helps? It claims segments and gaps of one source and fetches them."""

from collections.abc import Mapping
from typing import Final

from remora.collect import Collector
from remora.contracts import Clock, Store
from remora.core.ledger.segment import SegmentKind
from remora.core.status.snapshot import LoopFacts
from remora.loops.numbered.backfill import walk_for_ever, walkers
from remora.loops.numbered.newest import follow_newest, take_up
from remora.loops.recover import Recover, beside_walks
from remora.loops.supervisor import Supervisor

# What was missed comes first, history last.
KINDS: Final = (SegmentKind.BLIND_WINDOW, SegmentKind.RESCAN, SegmentKind.REPLAY, SegmentKind.BACKFILL)


class Worker:
    """Segments and gaps of one source, for ever. It watches nothing and plans nothing."""

    def __init__(
        self, source: str, collector: Collector, store: Store, *, clock: Clock, owner: str, width: int
    ) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._clock = clock
        self._walkers = walkers(source, collector, store, clock=clock, owner=owner, kinds=KINDS, width=width)
        self._gaps = Recover(source, collector, store, clock=clock, owner=owner, policy=beside_walks(width))
        loops = {"segments": self._walk, "gaps": self._gaps.run, "newest_id": self._follow_newest}
        self._supervisor = Supervisor(loops, clock=clock)

    async def run(self) -> None:
        """Run until cancelled (leases are released), or until a loop fails for good: then its error is raised."""
        await self._supervisor.run()

    def state(self) -> Mapping[str, LoopFacts]:
        """Its loops, for the status."""
        return self._supervisor.state()

    async def _walk(self) -> None:
        # Before the first answer: what an empty answer means depends on how far its id is below the newest.
        await take_up(self._collector, self._store, self._source)
        await walk_for_ever(self._walkers)

    async def _follow_newest(self) -> None:
        await follow_newest(self._collector, self._store, self._source, clock=self._clock)
