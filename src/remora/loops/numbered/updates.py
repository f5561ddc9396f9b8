"""What has changed at the source? The change stream announces ids to the inbox; what it missed is repaired.

An announcement is a hint, not the truth: it only says what to fetch. The last event is durable, so a blind window is
measured from it even across restarts. It moves on only when everything before it is repaired or in the inbox.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
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
    Store,
    Unread,
)
from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.freshness import (
    BlindWindow,
    LastEvent,
    Repair,
    blind_window,
    is_deaf,
    last_event_from_json,
    last_event_to_json,
)
from remora.core.ledger.notes import LAST_EVENT_NOTE as LAST_EVENT_NOTE
from remora.core.ledger.segment import SegmentKind
from remora.core.status.snapshot import StreamFacts
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.loops.numbered.inbox import InboxWorkers, Key
from remora.loops.numbered.stream import Reconnect, Stream

log = structlog.get_logger()

KEEP_EVERY_NS: Final = 5 * SECOND_NS
# The newest id bounds a blind window; without an answer it is requested again after this time.
ASK_AGAIN_NS: Final = 5 * SECOND_NS
# Unreadable events are logged and repaired at most this often, however many there are; all of them are counted.
TELL_UNREAD_EVERY_NS: Final = MINUTE_NS
REPAIR_UNREAD_EVERY_NS: Final = HOUR_NS


class Updates:
    """The change stream of one source."""

    def __init__(
        self,
        source: NumberedSource,
        collector: Collector,
        store: Store,
        inbox: InboxWorkers,
        *,
        clock: Clock,
        want_rescan: Callable[[], Awaitable[None]],
        look_for_new: Callable[[], None],
        connect_every_ns: int = 0,
    ) -> None:
        self._source = source.name
        self._collector = collector
        self._store = store
        self._inbox = inbox
        self._clock = clock
        self._want_rescan = want_rescan
        self._look_for_new = look_for_new
        gate = collector.stream_gate(Lane.UPDATE)
        self._stream = Stream(
            source.name,
            "updates",
            lambda: source.changes(gate),
            self._hear,
            clock=clock,
            on_open=self._on_open,
            on_heard=self._on_heard,
            every_ns=connect_every_ns,
        )
        self._last: LastEvent | None = None
        self._waits_for_first = False  # no event yet: `_last` is only where a first blind window would begin
        self._judged: LastEvent | None = None  # when the stream was last called deaf; None after an event
        self._heard_monotonic_ns: int | None = None
        # The last event before the earliest window that is not repaired yet. The durable note stays at this event.
        self._blind_since: LastEvent | None = None
        self._blind_for_ns = 0
        self._unread = 0
        self._dropped = 0
        self._unread_told_ns: int | None = None
        self._repaired_unread_ns: int | None = None
        self._owes_repair = False  # an event could not be read, and its window is repaired later
        self._opened = asyncio.Event()
        self._kept: LastEvent | None = None

    async def run(self) -> None:
        """Listen, repair and remember, for ever."""
        await self.open()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._stream.run())
            group.create_task(self._repair())
            group.create_task(self._remember())

    async def run_once(self) -> str:
        """One connection until it ends, and the repair of what came before it; returns why it ended."""
        await self.open()
        reason = await self._stream.run_once()
        if self._opened.is_set():
            await self._repair_once()
        await self.keep()
        return reason

    def state(self) -> StreamFacts:
        """The times of the last read and the last event, and the connection, for the status."""
        return StreamFacts(
            connected=self._stream.connected,
            last_byte_at_ns=self._stream.last_byte_at_ns,
            last_event_at_ns=self._last.at_ns if self._last and not self._waits_for_first else None,
            reconnects=self._stream.reconnects,
            unread_events=self._unread,
            dropped_keys=self._dropped,
        )

    async def open(self) -> None:
        """Load the last event that was stored; the very first start counts as one."""
        if self._last is not None:
            return
        self._kept = self._last = last_event_from_json(await self._store.note(self._source, LAST_EVENT_NOTE))
        if self._last is None:
            now_ns = self._clock.wall_ns()
            self._last = LastEvent(now_ns, self._collector.newest_id, heard_at_ns=now_ns)
            self._waits_for_first = True
            await self.keep()

    async def keep(self) -> None:
        """Make the last event durable, but not past what is still to be repaired."""
        last = self._blind_since or self._last
        if last is not None and last != self._kept:
            await self._store.keep_note(self._source, LAST_EVENT_NOTE, {**last_event_to_json(last)})
            self._kept = last

    # ── the stream ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_open(self) -> None:
        """A connection is open: changes since the last event were not announced."""
        if self._blind_since is None:
            self._blind_since = self._last
        if self._heard_monotonic_ns is not None:
            self._blind_for_ns = max(self._blind_for_ns, self._clock.monotonic_ns() - self._heard_monotonic_ns)
        self._opened.set()

    def _on_heard(self) -> None:
        assert self._last is not None, "the loop listens before it was opened"
        self._last = replace(self._last, heard_at_ns=self._clock.wall_ns())
        self._heard_monotonic_ns = self._clock.monotonic_ns()

    async def _hear(self, announcement: Announcement) -> bool:
        match announcement:
            case Announced(item_ids, profiles, dropped):
                if not self._collector.capabilities.can_ask(Kind.USER):
                    profiles, dropped = (), dropped + len(profiles)
                self._dropped += dropped
                return await self._announce(item_ids, profiles)
            case KeepAlive() | Ignored():
                # A stream whose events are empty at the declared path is as deaf as one without events.
                self._check_hearing()
                return False
            case Cancelled():
                raise Reconnect("cancelled")
            case AuthRevoked():
                raise Reconnect("auth_revoked")
            case Unread(reason):
                await self._could_not_read(reason)
                self._check_hearing()  # noise is not an event
                return False
            case NewestAnnounced():
                return False

    async def _could_not_read(self, reason: str) -> None:
        """An unreadable event announced unknown changes: its window is repaired like a blind window, now or soon."""
        self._unread += 1
        now_ns = self._clock.monotonic_ns()
        if self._unread_told_ns is None or now_ns - self._unread_told_ns >= TELL_UNREAD_EVERY_NS:
            self._unread_told_ns = now_ns
            log.warning("stream_event_unread", source=self._source, reason=reason, unread=self._unread)
        if self._blind_since is None:
            self._blind_since = self._last
        self._owes_repair = True
        await self._repair_unread()

    async def _repair_unread(self) -> None:
        """A provider that sends only noise must not cause one rescan after another."""
        now_ns = self._clock.monotonic_ns()
        last_ns = self._repaired_unread_ns
        if not self._owes_repair or (last_ns is not None and now_ns - last_ns < REPAIR_UNREAD_EVERY_NS):
            return
        self._repaired_unread_ns, self._owes_repair = now_ns, False
        self._opened.set()
        await self._want_rescan()  # it is unknown which older items changed

    async def _announce(self, item_ids: Sequence[int], profiles: Sequence[str]) -> bool:
        keys: list[Key] = [(Kind.ITEM, str(item_id)) for item_id in item_ids]
        keys.extend((Kind.USER, name) for name in profiles)
        if not keys:
            return False
        await self._inbox.announce(keys)
        newest_id = self._collector.newest_id
        now_ns = self._clock.wall_ns()
        self._last = LastEvent(now_ns, newest_id, heard_at_ns=now_ns)
        self._waits_for_first, self._judged = False, None
        if item_ids and (newest_id is None or max(item_ids) > newest_id):
            self._look_for_new()  # not believed, only asked about: a wrong number must not declare ids missing
        return True

    def _check_hearing(self) -> None:
        newest_id, now_ns, began = self._collector.newest_id, self._clock.wall_ns(), self._judged or self._last
        if self._last is None or began is None or not is_deaf(began, newest_id=newest_id, now_ns=now_ns):
            return
        # What it sent since the last event no longer proves anything. The next connection is judged by what comes after this
        # moment: the same quiet hours must not cause a reconnect and a rescan at every keep-alive.
        self._last = replace(self._last, heard_at_ns=began.at_ns)
        self._judged = LastEvent(now_ns, newest_id, heard_at_ns=now_ns)
        raise Reconnect("deaf")

    # ── what the stream could not tell ──────────────────────────────────────────────────────────────────────────────

    async def _repair(self) -> None:
        while True:
            await self._opened.wait()
            await self._repair_once()

    async def _repair_once(self) -> None:
        """Repair everything between the last event and the latest connect."""
        self._opened.clear()
        since, blind_for_ns = self._blind_since, self._blind_for_ns
        if since is None:
            return
        # Requested after the stream was open: the stream announces everything newer.
        while (newest_id := await self._collector.newest()) is None:
            await self._clock.sleep_until(self._clock.monotonic_ns() + ASK_AGAIN_NS)
        now_ns = self._clock.wall_ns()
        await self._make_up(blind_window(since, newest_id=newest_id, now_ns=now_ns, blind_for_ns=blind_for_ns))
        # Otherwise another window has begun or must be repaired, and it reaches back to the same event.
        if not self._opened.is_set() and not self._owes_repair:
            self._blind_since, self._blind_for_ns = None, 0
            await self.keep()

    async def _make_up(self, window: BlindWindow) -> None:
        log.debug("blind_window", source=self._source, repair=str(window.repair), rescan=window.rescan)
        match window.repair:
            case Repair.NOTHING:
                pass
            case Repair.INBOX:
                assert window.ids is not None, "a repair without ids"
                await self._inbox.announce([(Kind.ITEM, str(item_id)) for item_id in _each(window.ids)])
            case Repair.SEGMENTS:
                assert window.ids is not None, "a repair without ids"
                now_ns = self._clock.wall_ns()
                await self._store.plan(self._source, SegmentKind.BLIND_WINDOW, (window.ids,), now_ns=now_ns)
        if window.rescan:
            await self._want_rescan()

    async def _remember(self) -> None:
        try:
            while True:
                await self._clock.sleep_until(self._clock.monotonic_ns() + KEEP_EVERY_NS)
                await self._repair_unread()
                await self.keep()
        finally:
            await self.keep()


def _each(ids: IdRange) -> range:
    return range(ids.start, ids.end + 1)
