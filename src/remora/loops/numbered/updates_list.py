"""What has changed at a source without a stream? A list of what changed lately is polled, and its news are announced.

A list shows only its latest entries. If none of them was on the list before, more has changed than it shows, and the rescan
looks for the rest.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from remora.collect import Collector
from remora.contracts import Clock, Json, Store
from remora.core.item import Updated
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.notes import UPDATES_LIST_NOTE
from remora.core.reasons import GapReason
from remora.core.verdict import Found, NotYet
from remora.loops.numbered.inbox import InboxWorkers

log = structlog.get_logger()

LISTED_MAX: Final = 10_000

Marks = dict[int, set[str]]  # of each id on the list


class UpdatesList:
    """The list of recent changes of one source."""

    def __init__(
        self,
        source: str,
        collector: Collector,
        store: Store,
        inbox: InboxWorkers,
        *,
        clock: Clock,
        want_rescan: Callable[[], Awaitable[None]],
        every_ns: int,
    ) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._inbox = inbox
        self._clock = clock
        self._want_rescan = want_rescan
        self._every_ns = every_ns
        self.unread_since_ns: int | None = None  # wall clock: since when it could not be read; None while it can be

    async def run(self) -> None:
        """Poll it for ever."""
        while True:
            await self.run_once()
            await self._clock.sleep_until(self._clock.monotonic_ns() + self._every_ns)

    async def run_once(self) -> int:
        """Ask for the list and announce what is new on it. Returns how many ids were announced."""
        match (await self._collector.ask(Discovery.updates())).verdict:
            case Found(Updated(entries)):
                self.unread_since_ns = None
                return await self._announce(_marks_of(entries[:LISTED_MAX]))
            case Found() | NotYet():
                self._could_not_read(GapReason.MALFORMED)
            case failed:
                self._could_not_read(failed.reason)
        return 0  # the gate has heard of it, and the list is asked for again

    def _could_not_read(self, reason: GapReason) -> None:
        if self.unread_since_ns is None:
            self.unread_since_ns = self._clock.wall_ns()
            log.warning("updates_list_unread", source=self._source, reason=str(reason))

    async def _announce(self, shown: Marks) -> int:
        known = _known(await self._store.note(self._source, UPDATES_LIST_NOTE))
        if shown == known:
            return 0
        news = [item_id for item_id, marks in shown.items() if known is None or not marks <= known.get(item_id, set())]
        if news:
            await self._inbox.announce([(Kind.ITEM, str(item_id)) for item_id in news])
        # An entry that is on the list for the first time says nothing: only one that stayed joins the two lists.
        if known and not any(marks & known.get(item_id, set()) for item_id, marks in shown.items()):
            log.warning("updates_list_overrun", source=self._source, listed=len(shown))
            await self._want_rescan()
        # Last: after a kill the same ids are announced once more.
        kept: dict[str, Json] = {str(item_id): [*sorted(marks)] for item_id, marks in shown.items()}
        await self._store.keep_note(self._source, UPDATES_LIST_NOTE, kept)
        return len(news)


def _marks_of(entries: Sequence[tuple[int, str]]) -> Marks:
    """A list may be a log: an item that changed twice is on it twice, and each of its marks is one change."""
    shown: Marks = {}
    for item_id, mark in entries:
        shown.setdefault(item_id, set()).add(mark)
    return shown


def _known(note: Json) -> Marks | None:
    if not isinstance(note, dict):
        return None
    # An earlier version kept one mark of each id.
    kept = {int(key): [marks] if isinstance(marks, str) else marks for key, marks in note.items()}
    return {item_id: {str(mark) for mark in marks} for item_id, marks in kept.items() if isinstance(marks, list)}
