"""Which changes did we miss? Every few hours, and after a long blind window, all young items are read again.

The source's own clock decides which items are young. A pass covers at least everything since the previous pass minus
the horizon, so downtime and wrong clocks only make it longer. A pass is durable: after a restart it continues.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import structlog

from remora.collect import Collector
from remora.contracts import Clock, Outcome, Store
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.freshness import (
    WINDOW_DEFAULT_NS,
    RescanPass,
    UpdateAges,
    pass_from_json,
    pass_to_json,
    rescan_is_due,
    rescan_since_s,
    suggested_window_ns,
    window_ns,
)
from remora.core.ledger.notes import RESCAN_DONE_NOTE, RESCAN_UNDER_WAY_NOTE, RESCAN_WANTED_NOTE
from remora.core.ledger.segment import SegmentKind
from remora.core.status.snapshot import RescanFacts
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.loops.numbered.backfill import walk_until_done, walkers

log = structlog.get_logger()

EVERY_NS: Final = 6 * HOUR_NS
AFTER_A_FAILURE_NS: Final = 10 * MINUTE_NS
LOOK_EVERY_S: Final = 60.0
# Another process, perhaps a killed one, may hold a segment of the pass: then the pass waits for its lease.
WAIT_FOR_OTHERS_NS: Final = 5 * SECOND_NS


@dataclass(frozen=True, slots=True)
class RescanSettings:
    """How often, and how far back. A window of None follows the update ages."""

    every_ns: int = EVERY_NS
    window_ns: int | None = WINDOW_DEFAULT_NS


class Rescan:
    """The passes over one source's young items."""

    def __init__(
        self,
        source: str,
        collector: Collector,
        store: Store,
        *,
        clock: Clock,
        settings: RescanSettings,
        ages: Callable[[], UpdateAges],
        owner: str,
        width: int,
    ) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._clock = clock
        self._settings = settings
        self._ages = ages
        self._walkers = walkers(
            source,
            collector,
            store,
            clock=clock,
            owner=f"{owner}:{SegmentKind.RESCAN}",
            kinds=(SegmentKind.RESCAN,),
            width=width,
            on_outcomes=self._count,
        )
        self._done: RescanPass | None = None
        self._under_way: RescanPass | None = None
        self._rests_until_ns = 0  # set after a pass that read nothing
        self._wanted = 0  # how often a pass was asked for
        self._asked = asyncio.Event()
        self._processed = 0
        self._changed = 0

    async def run(self) -> None:
        """Start a pass whenever one is due, for ever."""
        await self.open()
        while True:
            self._asked.clear()
            if self._is_due():
                await self.run_once()
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY_S):
                        await self._asked.wait()

    async def run_once(self) -> RescanPass | None:
        """One whole pass, or the rest of one that a restart interrupted; None if the source does not answer."""
        await self.open()
        wanted, is_new = self._wanted, self._under_way is None
        if is_new and not await self._begin():
            await self._clock.sleep_until(self._clock.monotonic_ns() + WAIT_FOR_OTHERS_NS)
            return None
        assert self._under_way is not None, "a pass that began is under way"
        await walk_until_done(self._walkers, idle_ns=WAIT_FOR_OTHERS_NS, on_walked=self._keep_progress)
        done = replace(self._under_way, ended_at_ns=self._clock.wall_ns())
        if not done.is_success:
            await self._give_up(done)
            return None
        await self._store.keep_note(self._source, RESCAN_DONE_NOTE, {**pass_to_json(done)})
        await self._store.keep_note(self._source, RESCAN_UNDER_WAY_NOTE, None)
        self._done, self._under_way = done, None
        if is_new and self._wanted == wanted:  # a pass that began before the request does not fulfil it
            self._wanted = 0
            await self._store.keep_note(self._source, RESCAN_WANTED_NOTE, None)
        log.info("rescan_done", source=self._source, processed=done.processed, changed=done.changed)
        return done

    async def _give_up(self, failed: RescanPass) -> None:
        """The source was down: this pass does not count. What it could not read is owed; the next pass starts soon."""
        self._under_way = None
        self._rests_until_ns = self._clock.monotonic_ns() + AFTER_A_FAILURE_NS
        await self._store.keep_note(self._source, RESCAN_UNDER_WAY_NOTE, None)
        log.warning("rescan_failed", source=self._source, unread=failed.unread)

    async def want(self) -> None:
        """Ask for a pass now. Durable: the request survives a kill."""
        self._wanted += 1
        self._asked.set()
        await self._store.keep_note(self._source, RESCAN_WANTED_NOTE, True)

    def state(self) -> RescanFacts:
        """Whether it runs, and whether it finds anything."""
        return RescanFacts(
            last_success_at_ns=self._done.ended_at_ns if self._done else None,
            running=self._under_way is not None,
            processed=self._processed,
            changed=self._changed,
            window_ns=window_ns(self._settings.window_ns, self._ages()),
            suggested_window_ns=suggested_window_ns(self._ages()),
            every_ns=self._settings.every_ns,
        )

    async def open(self) -> None:
        """Continue where the last process stopped."""
        self._done = pass_from_json(await self._store.note(self._source, RESCAN_DONE_NOTE))
        if self._under_way is None:
            self._under_way = pass_from_json(await self._store.note(self._source, RESCAN_UNDER_WAY_NOTE))
        if await self._store.note(self._source, RESCAN_WANTED_NOTE) is not None:
            self._wanted = max(1, self._wanted)

    def _is_due(self) -> bool:
        if self._under_way is not None:
            return True
        if self._clock.monotonic_ns() < self._rests_until_ns:
            return False
        if self._wanted:
            return True
        return rescan_is_due(self._done, every_ns=self._settings.every_ns, now_ns=self._clock.wall_ns())

    async def _begin(self) -> bool:
        """Plan a pass, then store it. In this order a crash is harmless: planning twice adds nothing."""
        now_ns = self._clock.wall_ns()
        time_s = await self._store.newest_time(self._source)
        if time_s is not None:
            newest_id = self._collector.newest_id or await self._collector.newest()
            if newest_id is None:
                return False
            horizon_ns = window_ns(self._settings.window_ns, self._ages())
            since_s = rescan_since_s(time_s=time_s, previous=self._done, horizon_ns=horizon_ns)
            first_id = await self._store.first_id_since(self._source, since_s)
            if first_id is not None and first_id <= newest_id:
                ids = IdRange(first_id, newest_id)
                await self._store.plan(self._source, SegmentKind.RESCAN, (ids,), now_ns=now_ns)
        self._under_way = RescanPass(now_ns, time_s)
        await self._store.keep_note(self._source, RESCAN_UNDER_WAY_NOTE, {**pass_to_json(self._under_way)})
        return True

    async def _keep_progress(self) -> None:
        assert self._under_way is not None, "a pass ended while it was walked"
        await self._store.keep_note(self._source, RESCAN_UNDER_WAY_NOTE, {**pass_to_json(self._under_way)})

    def _count(self, _kind: SegmentKind, outcomes: Counter[Outcome]) -> None:
        processed = outcomes.total()
        changed = outcomes[Outcome.NEW] + outcomes[Outcome.CHANGED]
        unread = outcomes[Outcome.OWED] + outcomes[Outcome.DEAD]
        self._processed += processed
        self._changed += changed
        if self._under_way is not None:
            passing = self._under_way
            self._under_way = replace(
                passing,
                processed=passing.processed + processed,
                changed=passing.changed + changed,
                unread=passing.unread + unread,
            )
