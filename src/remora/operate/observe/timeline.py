"""Who remembers what happened? Every reading of the status is compared with the one before; events are kept as notes."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import structlog

from remora.contracts import Clock, Notes
from remora.core.errors import StoreError
from remora.core.ledger.notes import TIMELINE_NOTE
from remora.core.repeats import Repeats
from remora.core.status.model import SourceStatus, Status
from remora.core.status.timeline import Event, added, as_last_told, events_between
from remora.core.units import SECOND_NS

log = structlog.get_logger()

KEEP_EVERY_NS: Final = 10 * SECOND_NS


class Timeline:
    """The events of every source, 30 days and 1,000 events at most."""

    def __init__(self) -> None:
        self._events: dict[str, tuple[Event, ...]] = {}
        self._last: dict[str, SourceStatus] = {}
        self._unkept: set[str] = set()
        self._not_kept = Repeats()

    def take(self, status: Status) -> None:
        """One reading."""
        for name, source in status.sources.items():
            before = self._last.get(name)
            told = self._last[name] = as_last_told(before, source)
            found = tuple(events_between(before, told, at_ns=status.as_of_ns))
            if found:
                self.add(name, found, now_ns=status.as_of_ns)

    def add(self, source: str, events: Iterable[Event], *, now_ns: int) -> None:
        """Something happened that no status shows."""
        self._events[source] = added(self._events.get(source, ()), events, now_ns=now_ns)
        self._unkept.add(source)

    def all(self) -> Mapping[str, tuple[Event, ...]]:
        """Everything that is remembered, oldest first."""
        return dict(self._events)

    async def open(self, store: Notes, sources: Iterable[str]) -> None:
        """Load what an earlier process kept. Unreadable events are dropped: they are no reason to fail."""
        for name in sources:
            try:
                note = await store.note(name, TIMELINE_NOTE)
                self._events[name] = msgspec.convert(note or [], tuple[Event, ...])
            except msgspec.ValidationError:
                log.warning("timeline_not_read", source=name)

    async def keep(self, store: Notes) -> None:
        """Make new events durable."""
        for name in sorted(self._unkept):
            await store.keep_note(name, TIMELINE_NOTE, msgspec.to_builtins(self._events[name]))
            self._unkept.discard(name)

    async def run(self, store: Notes, *, clock: Clock) -> None:
        """Keep new events every ten seconds, and at the end."""
        try:
            while True:
                await clock.sleep_until(clock.monotonic_ns() + KEEP_EVERY_NS)
                await self._try_to_keep(store, clock)
        finally:
            await self._try_to_keep(store, clock)

    async def _try_to_keep(self, store: Notes, clock: Clock) -> None:
        try:
            await self.keep(store)
        except StoreError as error:
            if self._not_kept.is_worth_telling(now_ns=clock.monotonic_ns()):
                log.warning("timeline_not_kept", why=error.message)
        else:
            self._not_kept.over()
