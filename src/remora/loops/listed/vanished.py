"""Which entries have vanished from a list? Those that walks do not show, and that did not only move.

A full walk does not show an entry that is updated meanwhile: it moves to the front, or behind the end of the last window.
So entries that a full walk did not show are judged after the next walk from the top, and then their documents are asked
for. One that has changed exists, and the next full walk judges it again.

Numbered pages move up by one when an entry above them is deleted. If two pages share nothing, an entry may lie
between them unseen. Such a walk is not enough: an entry has vanished if the full walk after it does not show it either.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from remora.collect import Asked, Collector
from remora.contracts import Clock, Outcome, Store
from remora.core.item import Document, Page
from remora.core.lanes import Lane
from remora.core.ledger import marks
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.gap import Gap, GapState
from remora.core.ledger.notes import FULL_WALK_NOTE, SKIPPING_NOTE
from remora.core.ledger.run import RunCounts, Stop
from remora.core.reasons import GapReason
from remora.core.verdict import Found, Missing
from remora.loops.listed.details import DETAILS_AT_ONCE, Details

JUDGED_AT_ONCE: Final = 10_000
INLINE_OWED_MAX: Final = 10_000
MISSING_WATCHED: Final = 1_000


class Missed(NamedTuple):
    """What can be judged: the entries that no page has shown since a full walk began, up to the end of the last window."""

    walk: int
    before_s: int | None = None  # the end of the last window


class Vanished:
    """Judges, at the end of a walk, what the list no longer shows."""

    def __init__(
        self, source: str, collector: Collector, store: Store, details: Details, *, clock: Clock, counts: RunCounts
    ) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._details = details
        self._clock = clock
        self._counts = counts
        self._noted: int | None = None  # a walk that may have skipped entries

    async def skips(self, walk: int) -> None:
        """This walk read a page that shows nothing of the one before it."""
        if self._noted != walk:
            await self._note(latest=walk, missed=(await self._skipping())[1])
            self._noted = walk

    async def doubted_at_ns(self, dead: Sequence[Gap], gone: Sequence[Gap]) -> int | None:
        """The latest time when a detail became missing or gone although the list may still show its entry."""
        owed = await self._store.gaps(
            self._source, state=GapState.OWED, reason=GapReason.NOT_FOUND, limit=MISSING_WATCHED
        )
        missing = [gap for gap in (*owed, *dead) if gap.reason is GapReason.NOT_FOUND and gap.kind is Kind.DOCUMENT]
        return max((*(gap.first_seen_ns for gap in missing), *(gap.last_seen_ns for gap in gone)), default=None)

    async def counts_as(self, walk: int, page: Page) -> int | None:
        """Since which full walk an entry must be missing to have vanished, if this full walk ends with this page."""
        latest, missed = await self._skipping()
        if await self.is_clock_behind(page):
            return None  # its last window ends before entries that are known
        return missed if latest == walk else walk

    async def is_clock_behind(self, page: Page) -> bool:
        """Whether the list has shown a mark beyond the last window, which ends at our own time."""
        end_s = page.covers_before_s
        return end_s is not None and await self._store.is_listed_from(self._source, end_s)

    async def misses_entries(self, walk: int) -> bool:
        """Whether this full walk missed entries, so that another walk must follow: a full one, if it may have skipped them."""
        misses = bool(await self._store.unlisted(self._source, walk=walk, limit=1))
        latest, missed = await self._skipping()
        if latest == walk and misses and missed is None:
            await self._note(latest=walk, missed=walk)
            await self._store.keep_note(self._source, FULL_WALK_NOTE, 0)
        elif latest is not None:
            await self._store.keep_note(self._source, SKIPPING_NOTE, None)
        return misses

    async def judge(self, missed: Missed) -> Stop | None:
        """What neither the full walk nor a later one showed has vanished, unless it has changed.

        A run that stops before all of it is judged leaves the rest to the next one.
        """
        can_ask = not self._collector.capabilities.inline_details
        limit = DETAILS_AT_ONCE if can_ask else JUDGED_AT_ONCE
        walk = (await self._store.walk_state(self._source)).walk
        while keys := await self._store.unlisted(self._source, walk=missed.walk, limit=limit):
            stop = await self._details.ask(keys) if can_ask else None
            vanished = [key for key in keys if not can_ask or self._has_vanished(key, missed)]
            await self._record(vanished)
            # What was answered is not asked for again by the next run, or five that are refused would stop every run.
            undecided = self._details.answers if stop is not None else keys
            await self._store.record_existing(self._source, sorted({*undecided}.difference(vanished)), walk=walk)
            if stop is not None:
                return stop
        state = await self._store.walk_state(self._source)
        if state.full_walk == missed.walk:
            judged = replace(state, full_walk=None)
            await self._store.record_page(self._source, (), judged, now_ns=self._clock.wall_ns())
        return None

    def _has_vanished(self, key: str, missed: Missed) -> bool:
        """Whether the last answer fits: it is missing, or has not changed, so that it has not moved in the list.

        Behind the end of the last window, which is our own time, nobody has looked.
        """
        match self._details.answers.get(key):
            case Missing(), _:
                return True
            case Found(Document(updated_at=mark)), Outcome.UNCHANGED:
                return missed.before_s is None or not marks.is_from(mark, missed.before_s)
            case _:
                return False

    async def judge_missing(self, *, walk: int, newer_than: str) -> None:
        """The same for missing details whose entries belong in the part of the list that this shorter walk read."""
        while missed := await self._store.unlisted(
            self._source, walk=walk, newer_than=newer_than, limit=JUDGED_AT_ONCE
        ):
            await self._record(missed)

    async def settle_inline(self) -> None:
        """What an inline list no longer shows cannot be requested: it is gone. A kill may have left it owed."""
        if not self._collector.capabilities.inline_details:
            return
        for owed in await self._store.owed_details(self._source, limit=INLINE_OWED_MAX):
            held = await self._store.document(self._source, owed.key)
            if held is not None and held.vanished_ns is not None:
                missing = Asked(Missing(GapReason.NOT_FOUND), self._clock.wall_ns(), 0)
                await self._collector.record(Discovery(Kind.DOCUMENT, owed.key, Lane.DETAIL), missing)

    async def _record(self, keys: Collection[str]) -> None:
        self._counts.vanished += await self._store.record_vanished(self._source, keys, now_ns=self._clock.wall_ns())

    async def _skipping(self) -> tuple[int | None, int | None]:
        """The latest walk that may have skipped entries, and the full one before it whose missing entries are not judged."""
        match await self._store.note(self._source, SKIPPING_NOTE):
            case {"latest": int(latest), "missed": int() | None as missed}:
                return latest, missed
            case _:
                return None, None

    async def _note(self, *, latest: int, missed: int | None) -> None:
        await self._store.keep_note(self._source, SKIPPING_NOTE, {"latest": latest, "missed": missed})
