"""What keeps a numbered source fresh? All its loops, started and stopped together, and the state that they report.

The same code runs in production and in the simulator: it knows contracts only, no sockets and no files. The source's
capabilities decide which loops run. If several processes share a store, one of them watches the source (stream, inbox,
new ids, rescan) and the others stand by to take over; all of them work on segments and gaps.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import structlog

from remora.collect import Collector
from remora.contracts import Clock, LeaderLease, NumberedSource, Store
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.freshness import UpdateAges, is_stream_too_dear, poll_interval_ns, reconnect_every_ns
from remora.core.ledger.newest_id import WentBack
from remora.core.ledger.notes import NEWEST_NOTE
from remora.core.ledger.segment import SegmentKind
from remora.core.rate.gate_types import RateFacts
from remora.core.status.snapshot import InboxFacts, LoopFacts, RescanFacts, StreamFacts
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.gate.governor import Governor
from remora.loops.numbered.backfill import side_by_side, walk_for_ever, walkers
from remora.loops.numbered.inbox import MEMORY_MAX, WORKERS, InboxWorkers
from remora.loops.numbered.live import POLL_EVERY_NS, Live
from remora.loops.numbered.newest import follow_newest, take_up
from remora.loops.numbered.rescan import Rescan, RescanSettings
from remora.loops.numbered.update_ages import AgeBook
from remora.loops.numbered.updates import Updates
from remora.loops.numbered.updates_list import UpdatesList
from remora.loops.recover import Recover, beside_walks
from remora.loops.supervisor import Run, Supervisor

log = structlog.get_logger()

WALK_WIDTH: Final = 32
WALK_IDLE_NS: Final = 5 * SECOND_NS
# New gaps are requested again within seconds; older ones can wait a little.
RECOVER_IDLE_NS: Final = SECOND_NS
RECOVER_IDLE_LONG_NS: Final = 5 * SECOND_NS
RECENTLY_OWED_NS: Final = MINUTE_NS
HISTORY: Final = (SegmentKind.REPLAY, SegmentKind.BACKFILL)


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What the owner may choose. None of it makes anything faster than the ceiling."""

    first_id: int = 1
    backfill: bool = True  # False: items from before the first start stay uncovered, and the status says so
    rescan: RescanSettings | None = field(
        default_factory=RescanSettings
    )  # None: no rescan as a safety net; only to test the rest
    update_workers: int = WORKERS
    walk_width: int = WALK_WIDTH  # ids in flight per walker
    poll_every_ns: int = POLL_EVERY_NS  # the newest id is requested after this long without a report from the stream


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The state of all loops of one source, at one moment."""

    rate: RateFacts
    stream: StreamFacts | None  # None: the source has no change stream, or it costs too many requests
    inbox: InboxFacts | None  # None: not read yet
    inbox_in_memory: int
    workers_alive: int
    worker_restarts: int
    rescan: RescanFacts | None  # None: switched off, or the source does not say which items are recent
    update_ages: UpdateAges
    newest_id: int | None
    newest_id_at_ns: int | None
    newest_refused: int | None  # the source reports this newest id, but no item near it exists
    newest_went_back: WentBack | None  # the source reports newest ids far below an item that was read
    changes_unread_since_ns: int | None  # since when the list of changes could not be read; None while it can be
    loops: Mapping[str, LoopFacts]
    stands_by: bool = False  # another process watches the source


class NumberedService:
    """Every loop of one numbered source, under one governor, one store and one cancellation."""

    def __init__(
        self,
        source: NumberedSource,
        store: Store,
        collector: Collector,
        governor: Governor,
        *,
        clock: Clock,
        owner: str,
        settings: ServiceSettings | None = None,
        alone: LeaderLease | None = None,
    ) -> None:
        """`alone` decides which of several processes watches the source; without it this process is the only one."""
        self._numbered = source
        self._can = source.capabilities
        self._source = source.name
        self._store = store
        self._collector = collector
        self._governor = governor
        self._clock = clock
        self._owner = owner
        self._settings = settings or ServiceSettings()
        self._alone = alone
        streams = int(self._can.change_stream) + int(self._can.newest_stream)
        interval_ns = governor.state().ceiling_interval_ns
        self._connect_every_ns = reconnect_every_ns(ceiling_interval_ns=interval_ns, streams=streams)
        self._is_stream_too_dear = is_stream_too_dear(ceiling_interval_ns=interval_ns, streams=streams)
        self._begin_anew()
        self._watching: Supervisor | None = None
        self._supervisor = Supervisor(self._loops(), clock=clock)

    async def run(self) -> None:
        """Run until cancelled (leases are released), or until a loop fails for good: then its error is raised."""
        if self._is_stream_too_dear:
            per_min = MINUTE_NS / self._governor.state().ceiling_interval_ns
            log.warning("streams_too_dear", source=self._source, ceiling_per_min=per_min)
        await self._supervisor.run()

    def _begin_anew(self) -> None:
        """Create everything that watches the source. At first it knows only what is in the store."""
        source, collector, store, clock = self._numbered, self._collector, self._store, self._clock
        self._ages = AgeBook(source.name, store, clock=clock)
        self._inbox = InboxWorkers(
            source.name,
            collector,
            store,
            clock=clock,
            workers=self._settings.update_workers,
            on_changed=self._ages.changed,
        )
        interval_ns = self._governor.state().ceiling_interval_ns
        self._live = Live(
            source,
            collector,
            store,
            clock=clock,
            history_from=self._settings.first_id if self._settings.backfill else None,
            poll_every_ns=poll_interval_ns(self._settings.poll_every_ns, ceiling_interval_ns=interval_ns),
            connect_every_ns=None if self._is_stream_too_dear else self._connect_every_ns,
        )
        self._rescan = self._make_rescan(self._settings.rescan)
        self._updates = Updates(
            source,
            collector,
            store,
            self._inbox,
            clock=clock,
            want_rescan=self._want_rescan,
            look_for_new=self._live.look_now,
            connect_every_ns=self._connect_every_ns,
        )
        self._updates_list = UpdatesList(
            source.name,
            collector,
            store,
            self._inbox,
            clock=clock,
            want_rescan=self._want_rescan,
            every_ns=poll_interval_ns(self._settings.poll_every_ns, ceiling_interval_ns=interval_ns),
        )

    def state(self) -> ServiceState:
        """The current state; reading it changes nothing."""
        depth = self._inbox.depth
        return ServiceState(
            rate=self._governor.state(),
            stream=self._updates.state() if self._has_change_stream else None,
            inbox=None if depth is None else InboxFacts(depth, MEMORY_MAX),
            inbox_in_memory=self._inbox.in_memory,
            workers_alive=self._inbox.alive,
            worker_restarts=self._inbox.restarts,
            rescan=None if self._rescan is None else self._rescan.state(),
            update_ages=self._ages.ages,
            newest_id=self._collector.newest_id,
            newest_id_at_ns=self._live.newest_at_ns,
            newest_refused=None if self._collector.doubt is None else self._collector.doubt.told,
            newest_went_back=self._went_back,
            changes_unread_since_ns=self._updates_list.unread_since_ns,
            loops={**self._supervisor.state(), **(self._watching.state() if self._watching else {})},
            stands_by=self._alone is not None and self._watching is None,
        )

    @property
    def _went_back(self) -> WentBack | None:
        found = self._collector.went_back
        return found if found is not None and found.is_lasting else None

    @property
    def _has_change_stream(self) -> bool:
        return self._can.change_stream and not self._is_stream_too_dear

    def _loops(self) -> Mapping[str, Run]:
        loops: dict[str, Run] = {"recover": self._recover, "repair": self._repair}
        if self._settings.backfill:
            loops["backfill"] = self._backfill if self._alone is None else self._walk_history
        if self._alone is None:
            return {**self._watching_loops(), **loops}
        return {**loops, "watch": self._watch, "newest_id": self._follow_newest}

    def _watching_loops(self) -> Mapping[str, Run]:
        """The loops that run in exactly one process."""
        # The inbox is drained even without a stream: an earlier declaration may have had one.
        loops: dict[str, Run] = {"inbox": self._inbox.run, "live": self._live.run, "update_ages": self._keep_ages}
        if self._has_change_stream:
            loops["updates"] = self._updates.run
        if self._can.change_list:
            loops["updates_list"] = self._updates_list.run
        if self._rescan is not None:
            loops["rescan"] = self._rescan.run
        return loops

    async def _watch(self) -> None:
        """Watch the source while this process is the leader."""
        assert self._alone is not None, "nobody to ask who watches"
        await self._alone.run(self._watch_alone)

    async def _watch_alone(self) -> None:
        log.info("watching", source=self._source)
        self._begin_anew()
        loops = dict(self._watching_loops())
        if self._settings.backfill:
            loops["history"] = self._plan_for_all
        self._watching = Supervisor(loops, clock=self._clock)
        try:
            await self._watching.run()
        finally:
            self._watching = None
            log.info("standing_by", source=self._source)

    async def _follow_newest(self) -> None:
        await follow_newest(self._collector, self._store, self._source, clock=self._clock)

    async def _recover(self) -> None:
        """Fetch what is owed: soon after it became owed, then whenever it is due."""
        recover = Recover(
            self._source,
            self._collector,
            self._store,
            clock=self._clock,
            owner=self._owner,
            policy=beside_walks(self._settings.walk_width),
        )
        await recover.run(self._recover_idle_ns)

    def _recover_idle_ns(self) -> int:
        owed_at_ns = self._live.owed_at_ns
        recently = owed_at_ns is not None and self._clock.monotonic_ns() - owed_at_ns < RECENTLY_OWED_NS
        return RECOVER_IDLE_NS if recently else RECOVER_IDLE_LONG_NS

    async def _repair(self) -> None:
        """Fetch the ids of blind windows that were too large for the inbox."""
        await self._walk(SegmentKind.BLIND_WINDOW)

    async def _walk(self, *kinds: SegmentKind) -> None:
        walking = walkers(
            self._source,
            self._collector,
            self._store,
            clock=self._clock,
            owner=f"{self._owner}:{kinds[0]}",
            kinds=kinds,
            width=self._settings.walk_width,
        )
        await walk_for_ever(walking, idle_ns=WALK_IDLE_NS)

    def _make_rescan(self, settings: RescanSettings | None) -> Rescan | None:
        if settings is None or not self._can.item_times:
            return None
        return Rescan(
            self._source,
            self._collector,
            self._store,
            clock=self._clock,
            settings=settings,
            ages=lambda: self._ages.ages,
            owner=self._owner,
            width=self._settings.walk_width,
        )

    async def _want_rescan(self) -> None:
        if self._rescan is not None:
            await self._rescan.want()

    async def _keep_ages(self) -> None:
        await self._ages.open()
        await self._ages.run()

    async def _backfill(self) -> None:
        """Fetch history below the first live id, newest first, in parallel with the other loops.

        What is known to exist does not wait until the source tells its newest id, unless an earlier process believed a
        wrong one: then its plan is wrong as well.
        """
        kept = await self._store.note(self._source, NEWEST_NOTE)
        if kept is not None and await take_up(self._collector, self._store, self._source) is None:
            await self._live.live_from()
        planned = await self._store.open_segments(self._source)
        if not any(planned.get(kind) for kind in HISTORY) and await self._is_told_soon():
            await self._plan_history()
            await self._walk_history()
        else:
            await side_by_side([self._plan_history(), self._walk_history()])

    async def _is_told_soon(self) -> bool:
        """Wait a while for the newest id; returns whether the source has told it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.poll_every_ns / SECOND_NS):
                await self._live.live_from()
                return True
        return False

    async def _walk_history(self) -> None:
        await self._walk(*HISTORY)

    async def _plan_for_all(self) -> None:
        await self._plan_history()
        await asyncio.Event().wait()

    async def _plan_history(self) -> None:
        history_end = await self._live.live_from() - 1
        if history_end >= self._settings.first_id:
            wanted = IdRange(self._settings.first_id, history_end)
            await self._store.plan(self._source, SegmentKind.BACKFILL, (wanted,), now_ns=self._clock.wall_ns())
