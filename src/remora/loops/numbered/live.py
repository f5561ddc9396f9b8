"""Which items are new? The newest id is streamed or polled, and every id up to it is collected at once.

An id is covered only when its outcome is durable. A process that is far behind plans the ids as segments, so that items
that are new now do not wait for items that were new an hour ago.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Final

import structlog

from remora.collect import Collector
from remora.contracts import (
    Announced,
    Announcement,
    AuthRevoked,
    Cancelled,
    Clock,
    Ignored,
    KeepAlive,
    NewestAnnounced,
    NumberedSource,
    Outcome,
    Store,
    Unread,
)
from remora.core.errors import ConfigurationError
from remora.core.lanes import Lane
from remora.core.ledger.coverage import Coverage, IdRange, newest_first
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.newest_id import needs_proof
from remora.core.ledger.notes import LIVE_FROM_NOTE
from remora.core.ledger.segment import SegmentKind
from remora.core.units import SECOND_NS
from remora.loops.numbered.newest import keep_newest, retract_absurd, take_up
from remora.loops.numbered.stream import Reconnect, Stream

log = structlog.get_logger()

POLL_EVERY_NS: Final = 15 * SECOND_NS
POLL_AGAIN_NS: Final = SECOND_NS  # at most this often, however many unknown ids the change stream names
KEEP_EVERY_NS: Final = 5 * SECOND_NS
BEHIND_MAX_IDS: Final = 300
AT_ONCE_MAX: Final = 100
# At the first start, ids this close below the newest id that a backfill left count as recent; older ones are history.
RECENT_IDS: Final = 100_000


class Live:
    """The new ids of one source, from the first start on. Without a stream of the newest id it is polled."""

    def __init__(
        self,
        source: NumberedSource,
        collector: Collector,
        store: Store,
        *,
        clock: Clock,
        history_from: int | None = 1,
        poll_every_ns: int = POLL_EVERY_NS,
        connect_every_ns: int | None = 0,
    ) -> None:
        """What may be left out, and how often to ask.

        `history_from`: the first id of history; None: ids from before the first start stay uncovered.
        `connect_every_ns`: time between two connects; None: a stream costs too many requests, so ids are polled.
        """
        self._source = source.name
        self._collector = collector
        self._store = store
        self._clock = clock
        self._history_from = history_from
        self._behind_kind = SegmentKind.BLIND_WINDOW if history_from is None else SegmentKind.BACKFILL
        self._poll_every_ns = poll_every_ns
        self._has_stream = source.capabilities.newest_stream and connect_every_ns is not None
        gate = collector.stream_gate(Lane.LIVE)
        self._stream = Stream(
            source.name,
            "newest",
            lambda: source.newest_ids(gate),
            self._hear,
            clock=clock,
            every_ns=connect_every_ns or 0,
        )
        self._live_from: int | None = None
        self._todo: list[IdRange] = []  # uncovered and not started; the newest ids last
        self._known_id = 0  # every live id up to it is covered, started, in `_todo` or in segments
        self._recorded: set[int] = set()  # durable, not yet covered
        self._covering = False
        self._kept_id: int | None = None
        self._begun = asyncio.Event()
        self._news = asyncio.Event()
        self._look_now = asyncio.Event()
        self.newest_at_ns: int | None = None  # when the source last reported it
        self.owed_at_ns: int | None = None  # when a new id last could not be read yet (monotonic)

    async def run(self) -> None:
        """Collect what is new, for ever."""
        async with asyncio.TaskGroup() as group:
            await self._begin()
            if self._has_stream:
                group.create_task(self._stream.run())
            group.create_task(self._poll())
            group.create_task(self._remember())
            await self._collect_for_ever(group)

    async def run_once(self) -> Counter[Outcome]:
        """Ask for the newest id and collect everything up to it, or plan it as segments."""
        await self._begin()
        outcomes: Counter[Outcome] = Counter()
        while (item_id := await self._next_id(wait=False)) is not None:
            outcomes[await self._collect(item_id)] += 1
        await self.keep()
        return outcomes

    def look_now(self) -> None:
        """A stream named an id above the newest one: ask soon."""
        self._look_now.set()

    async def live_from(self) -> int:
        """The first live id; waits until the source has reported its newest id."""
        await self._begun.wait()
        assert self._live_from is not None, "live has begun somewhere"
        return self._live_from

    async def keep(self) -> None:
        """Make the newest id durable, if it changed."""
        newest_id = self._collector.newest_id
        if newest_id != self._kept_id:
            await keep_newest(self._collector, self._store, self._source)
            self._kept_id = newest_id

    async def _begin(self) -> None:
        """Find the first live id, and the ids that an earlier process or an earlier run of this loop left uncovered."""
        self._kept_id = await take_up(self._collector, self._store, self._source)
        planned_id = 0
        while (newest_id := await self._ask()) is None:
            if self._collector.newest_is_malformed and self._collector.newest_id is None:
                # It answered, but never with an id: the declaration is wrong, and waiting does not help.
                raise ConfigurationError(
                    f"{self._source} answers, but without a newest id",
                    hint=f"remora check --source {self._source} says what to write",
                )
            planned_id = await self._plan_what_is_known(planned_id)
            await self._clock.sleep_until(self._clock.monotonic_ns() + self._poll_every_ns)
        await retract_absurd(self._collector, self._store, self._source)
        await self.keep()
        coverage = await self._store.coverage(self._source)
        live_from = await self._store.note(self._source, LIVE_FROM_NOTE)
        if not isinstance(live_from, int):
            live_from = _first_live_id(coverage, newest_id)
            await self._store.keep_note(self._source, LIVE_FROM_NOTE, live_from)
        holes = coverage.uncovered(IdRange(live_from, newest_id)) if live_from <= newest_id else ()
        self._live_from, self._known_id = live_from, max(newest_id, live_from - 1)
        self._todo, self._recorded, self._covering = list(holes), set(), False
        self._begun.set()
        await self._hand_over_what_is_too_much()

    async def _plan_what_is_known(self, planned_id: int) -> int:
        """Plan what is uncovered below the highest covered id, if that is believed: it exists, whatever is newest.

        Returns that id; nothing is planned again while it is `planned_id`.
        """
        live_from = await self._store.note(self._source, LIVE_FROM_NOTE)
        first_id = live_from if self._history_from is None else self._history_from
        coverage = await self._store.coverage(self._source)
        known_id = coverage.ranges[-1].end if coverage.ranges else 0
        is_believed = not needs_proof(known_id, proven_id=self._collector.proven_id)
        if is_believed and known_id != planned_id and isinstance(first_id, int) and first_id <= known_id:
            holes = newest_first(coverage.uncovered(IdRange(first_id, known_id)))
            await self._store.plan(self._source, self._behind_kind, holes, now_ns=self._clock.wall_ns())
        return known_id

    # ── the newest id ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _hear(self, announcement: Announcement) -> bool:
        match announcement:
            case NewestAnnounced(item_id):
                self._told(item_id)
                return True
            case Cancelled():
                raise Reconnect("cancelled")
            case AuthRevoked():
                raise Reconnect("auth_revoked")
            case Unread():
                self._look_now.set()  # it may have announced a new id
                return False
            case Announced() | KeepAlive() | Ignored():
                return False

    def _told(self, item_id: int) -> None:
        if needs_proof(item_id, proven_id=self._collector.proven_id):
            self._look_now.set()  # a request for the newest id checks the claim
            return
        self._collector.believe(item_id)
        self.newest_at_ns = self._clock.wall_ns()
        self._news.set()

    async def _ask(self) -> int | None:
        newest_id = await self._collector.newest()
        if newest_id is not None:
            self.newest_at_ns = self._clock.wall_ns()
            self._news.set()
        return newest_id

    async def _poll(self) -> None:
        """Ask for the newest id when no stream has reported it for a while, or when a higher id was named."""
        while True:
            told_at_ns = self.newest_at_ns
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_every_ns / SECOND_NS):
                    await self._look_now.wait()
            if self._look_now.is_set() or self.newest_at_ns == told_at_ns:
                self._look_now.clear()
                await self._ask()
                await self._clock.sleep_until(self._clock.monotonic_ns() + POLL_AGAIN_NS)

    async def _remember(self) -> None:
        try:
            while True:
                await self._clock.sleep_until(self._clock.monotonic_ns() + KEEP_EVERY_NS)
                await self.keep()
        finally:
            await self.keep()

    # ── collecting ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _collect_for_ever(self, group: asyncio.TaskGroup) -> None:
        places = asyncio.Semaphore(AT_ONCE_MAX)
        while True:
            await places.acquire()
            item_id = await self._next_id(wait=True)
            assert item_id is not None, "waited for an id and got none"
            group.create_task(self._collect(item_id)).add_done_callback(lambda _: places.release())

    async def _next_id(self, *, wait: bool) -> int | None:
        """The next id to collect, the newest range first; None if there is none and `wait` is False."""
        while True:
            self._news.clear()
            self._take_up_new_ids()
            await self._hand_over_what_is_too_much()
            if self._todo:
                return self._take()
            if not wait:
                return None
            await self._news.wait()

    def _take_up_new_ids(self) -> None:
        newest_id = self._collector.newest_id or 0
        if newest_id <= self._known_id:
            return
        start = self._known_id + 1
        if self._todo and self._todo[-1].end == self._known_id:
            start = self._todo.pop().start
        self._todo.append(IdRange(start, newest_id))
        self._known_id = newest_id

    def _take(self) -> int:
        newest = self._todo.pop()
        if newest.start < newest.end:
            self._todo.append(IdRange(newest.start + 1, newest.end))
        return newest.start

    async def _hand_over_what_is_too_much(self) -> None:
        behind = sum(len(ids) for ids in self._todo)
        if behind <= BEHIND_MAX_IDS:
            return
        # The ids leave the list before they are planned: if planning fails, the loop restarts from the coverage.
        holes, self._todo = newest_first(self._todo), []
        log.info("live_is_behind", source=self._source, ids=behind, kind=str(self._behind_kind))
        await self._store.plan(self._source, self._behind_kind, holes, now_ns=self._clock.wall_ns())

    async def _collect(self, item_id: int) -> Outcome:
        outcome = await self._collector.collect(Discovery.item(item_id, via=Lane.LIVE))
        if outcome is Outcome.OWED:
            self.owed_at_ns = self._clock.monotonic_ns()
        self._recorded.add(item_id)
        await self._cover()
        return outcome

    async def _cover(self) -> None:
        """Cover what is recorded, one writer at a time; it covers ids recorded meanwhile in its next round."""
        if self._covering:
            return
        self._covering = True
        try:
            while self._recorded:
                ids, self._recorded = self._recorded, set()
                for piece in Coverage.of(IdRange(item_id, item_id) for item_id in ids).ranges:
                    await self._store.cover(self._source, piece)
        finally:
            self._covering = False


def _first_live_id(coverage: Coverage, newest_id: int) -> int:
    """At the very first start: the newest id, or where a recent backfill ended."""
    covered_id = coverage.ranges[-1].end if coverage.ranges else 0
    return covered_id + 1 if covered_id and newest_id - RECENT_IDS <= covered_id <= newest_id else newest_id
