"""How is a list walked? Page after page, each recorded with its owed details, and never past entries it did not see.

A list changes during a walk. Pages that overlap prove that nothing was skipped. Where they do not overlap, the walk
goes back one page and, if that does not help, starts again. A walk that cannot be proven complete records the entries
it saw as owed, but moves neither watermark nor position. A page that cannot be read is owed by itself (`holes`), and the walk
goes on behind it.

What a full walk did not show may have vanished. A later walk says that it can be judged; `vanished` judges it.
"""

from collections import deque
from dataclasses import replace
from itertools import chain
from typing import Final

import msgspec
import structlog

from remora.collect import Asked, Collector
from remora.contracts import Clock, Store
from remora.core.item import Entry, Page
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind, fingerprint
from remora.core.ledger.gap import LOOKS_AT_A_LISTED_GONE, GapState
from remora.core.ledger.list_promises import MOVES_TOO_FAST, REPEATS_MAX, clash, contradiction, repeated
from remora.core.ledger.list_walk import (
    WalkState,
    after_page,
    begun,
    finished,
    fits_on,
    full_walk_is_due,
    is_at_end,
    joins,
    restarted,
)
from remora.core.ledger.marks import is_newer
from remora.core.ledger.notes import FULL_WALK_NOTE
from remora.core.ledger.run import RunCounts, Stop, StoppedBy, stop_for_list
from remora.core.ledger.walk_circle import WalkCircle
from remora.core.reasons import GapReason
from remora.core.verdict import Found, Missing, Pressure
from remora.loops.listed.allowance import RunAllowance
from remora.loops.listed.entry_marks import EntryMarks
from remora.loops.listed.holes import Holes
from remora.loops.listed.last_page import is_repeated_last
from remora.loops.listed.owed_pages import owed_pages
from remora.loops.listed.pages import PageRecorder
from remora.loops.listed.unread_pages import UnreadPages
from remora.loops.listed.vanished import Missed, Vanished

log = structlog.get_logger()

FIRST: Final = ""  # the position of the first page
# No list is longer; a source that repeats its pages in a circle must not keep a run walking for ever.
PAGES_PER_WALK_MAX: Final = 1_000_000
# A provider that filters its pages may show a few empty ones before the next entry.
EMPTY_PAGES_MAX: Final = 10
PAGES_REMEMBERED: Final = 8
DEAD_WATCHED: Final = 10_000
# If a list changes faster than it can be read, the walk continues anyway; the next run walks the list again.
TURNS_BACK_MAX: Final = 8
ENDED: Final = Page(entries=(), next_position=None)


class ListWalk:
    """One walk over a source's list, or the rest of one that was interrupted."""

    def __init__(
        self,
        source: str,
        collector: Collector,
        store: Store,
        allowance: RunAllowance,
        *,
        clock: Clock,
        counts: RunCounts,
        vanished: Vanished,
        waits: bool,
    ) -> None:
        """`waits`: a refused page is requested again until the allowance says stop; otherwise the walk stops."""
        self._source = source
        self._collector = collector
        self._store = store
        self._allowance = allowance
        self._clock = clock
        self._counts = counts
        self._vanished = vanished
        self._waits = waits
        self.was_resumed = False  # an earlier run read the top of the list; newer entries are above it
        self.misses_entries = False  # it saw the whole list, but not every entry that was listed before
        self.missed: Missed | None = None  # what an earlier full walk did not show can be judged
        self.shows_gone = False  # it saw entries whose details are said to be gone: they are requested once more
        self._state = WalkState()
        self._first = self._position = FIRST
        self._is_resuming = False
        self._is_whole = True
        self._clash: Stop | None = None  # entries share a key, and only one of them could be kept
        self._why_unreadable = ""  # of the first page with an entry that has no usable key
        self._was_refused = self._may_leave_watermark = False
        self._was_overtaken = False
        self._turns_back = 0
        self._circle = WalkCircle()
        self._empty_pages = 0  # in a row
        self._repeats = 0  # pages in a row with the same content as the page before
        self._before: tuple[Entry, ...] = ()  # the previous page, if the next page can be compared with it
        self._missing_is_end = False
        self._recorder = PageRecorder(source, collector, store, counts=counts)
        self._unread = UnreadPages(source, collector, store, clock=clock)
        self._holes = Holes(source, self._unread)
        self._entries = EntryMarks(source, store, collector.walked)
        self._asked: Asked | None = None  # the last answer
        self._next_part: str | None = None  # where to go on when the rest of a part is known
        self._dead: frozenset[str] = frozenset()
        self._gone: frozenset[str] = frozenset()  # gone according to the provider; its list may contradict that
        self._recent: deque[tuple[str, frozenset[str]]] = deque(maxlen=PAGES_REMEMBERED)

    async def run(self) -> Stop | None:
        """Record page after page. The owed details of a page and the progress of the walk become durable together."""
        await self._begin()
        for _ in range(PAGES_PER_WALK_MAX):
            page = await self._page()
            if self._leaves_watermark(page):
                continue
            if isinstance(page, Stop):
                if self._may_start_over(page):
                    continue
                if not await self._goes_on_behind(page):
                    return page
                if not self._holes.is_at_end:
                    continue
                page = ENDED
            if page.begins_part:
                self._before, self._repeats = (), 0
            if await self._is_behind_last(page):
                page = self._ended()
            if self._is_overtaken(page):
                continue
            if (stop := self._contradiction(page)) is not None:
                return stop
            if not self._joins(page) and self._turn_back():
                continue
            began = self._state
            if await self._record(page):
                return await self._end(page, began)
            following = self._next_part or page.next_position
            assert following is not None, "a page that is not the last has a next one"
            self._position = following
            # Empty pages may repeat at the end of a list; see `_ended_by_silence`.
            if not page.is_silent and (why := self._circle.closes(following)) is not None:
                log.warning("walk_in_a_circle", source=self._source, pages=self._counts.pages)
                return self._contradicts(why)
        return self._contradicts(f"the list has more than {PAGES_PER_WALK_MAX:,} pages; check paging")

    async def _begin(self) -> None:
        kept = await self._store.note(self._source, FULL_WALK_NOTE)
        dead = await self._store.gaps(self._source, state=GapState.DEAD, limit=DEAD_WATCHED)
        self._dead = frozenset(gap.key for gap in dead)
        told = await self._store.gaps(self._source, state=GapState.GONE, reason=GapReason.GONE, limit=DEAD_WATCHED)
        gone = [gap for gap in told if gap.attempts < LOOKS_AT_A_LISTED_GONE]
        self._gone = frozenset(gap.key for gap in gone)
        finished_ns, now_ns = kept if isinstance(kept, int) else None, self._clock.wall_ns()
        doubted_ns = await self._vanished.doubted_at_ns(dead, gone)
        is_full = full_walk_is_due(finished_ns, now_ns=now_ns, doubted_at_ns=doubted_ns)
        self._may_leave_watermark = full_walk_is_due(finished_ns, now_ns=now_ns, doubted_at_ns=now_ns)
        # A process that ended between a page and its documents left them owed; only the list can show them again.
        if self._collector.capabilities.inline_details and not is_full:
            is_full = await self._store.count_owed_details(self._source) > 0
        self._state = begun(await self._store.walk_state(self._source), is_full=is_full)
        self._is_resuming = self.was_resumed = self._holes.has_read = self._state.is_under_way
        if (source := self._collector.walked) is not None:
            self._first = source.first_position(self._state.watermark, now_wall_ns=self._clock.wall_ns())
        self._position = self._state.position or self._first
        if self.was_resumed:
            self._holes.keys.update(owed.gap.key for owed in await owed_pages(self._store, self._source))

    async def _page(self) -> Page | Stop:
        while True:
            source = self._collector.walked
            is_later = source is not None and source.position_before(self._position) is not None
            wanted = Discovery(Kind.PAGE, self._position, Lane.WALK, may_be_behind=is_later)
            asked = await self._collector.ask(wanted, self._allowance)
            if self._allowance.stop is not None:
                return self._allowance.stop
            self._asked = asked
            match asked.verdict:
                case Found(Page() as page):
                    self._counts.pages += 1
                    self._holes.answered()
                    return self._ended() if page == ENDED else self._ended_by_silence(page)
                case Pressure() if self._waits:
                    pass  # the gate waits; there is no other page to request
                case Missing(GapReason.NOT_FOUND) if self._missing_is_end:
                    self._counts.pages += 1
                    return self._ended()
                case verdict:
                    return stop_for_list(verdict, is_later=is_later)

    def _ended_by_silence(self, page: Page) -> Page:
        """Some cursors are never null: a list has ended after `EMPTY_PAGES_MAX` empty pages in a row."""
        self._empty_pages = self._empty_pages + 1 if page.is_silent and not page.begins_part else 0
        is_over = self._empty_pages >= EMPTY_PAGES_MAX
        return msgspec.structs.replace(page, next_position=self._ended().next_position) if is_over else page

    def _ended(self) -> Page:
        """The page for an end at this position: the list goes on where it has another part."""
        source = self._collector.walked
        return ENDED if source is None else source.ended_at(self._position)

    async def _is_behind_last(self, page: Page) -> bool:
        """Whether this is the last page again, as some providers show it for every page behind it."""
        is_repeat = self._missing_is_end and bool(page.entries) and page.entries == self._before
        return is_repeat and await is_repeated_last(self._collector, self._allowance, self._recent[-1][0], page.entries)

    async def _goes_on_behind(self, stop: Stop) -> bool:
        """Leave a page behind that cannot be read. It is owed before the walk moves past it."""
        if self._asked is None:
            return False
        behind = await self._holes.behind(self._position, stop, self._asked, self._collector.walked)
        if behind is None and not self._holes.is_at_end:
            return False
        self._entries.left_behind(self._position)
        self._is_resuming, self._missing_is_end, self._before, self._repeats = False, True, (), 0
        self._position = behind or self._position
        return True

    def _leaves_watermark(self, answer: Page | Stop) -> bool:
        """Walk the whole list where the provider refuses the watermark, or does not read it as we mean it; once a day."""
        if isinstance(answer, Page):
            is_odd = answer.lacks_newest
        else:
            is_odd = answer.may_be_of_position and self._ended().is_rest and self._collector.capabilities.each is None
        source, is_first = self._collector.walked, self._position == self._first
        if source is None or not (is_odd and is_first and self._may_leave_watermark):
            return False
        self._may_leave_watermark = False
        self._first = source.first_position(None, now_wall_ns=self._clock.wall_ns())
        self._state = replace(self._state, watermark=None)
        self._start_over()
        return True

    def _is_overtaken(self, page: Page) -> bool:
        """Whether the list seems to have moved on by more than a page since the last one: then the walk starts over, once.

        A page that is newer than the one before it contradicts the order, or a busy list moved while the gate waited.
        """
        if self._was_overtaken or not self._before or contradiction(page, ()) is not None:
            return False
        if contradiction(page, self._before) is None:
            return False
        self._was_overtaken = True
        self._start_over()
        return True

    def _contradiction(self, page: Page) -> Stop | None:
        """How the page contradicts the declaration. Nothing of such a page is recorded."""
        keys = frozenset(entry.key for entry in page.entries)
        is_repeat = bool(keys and self._before) and keys == frozenset(entry.key for entry in self._before)
        self._repeats = self._repeats + 1 if is_repeat else 0
        # A page that does not join the one before it cannot be compared with it: the walk steps back.
        why = contradiction(page, self._before if self._joins(page) else ())
        if why is None and self._repeats >= REPEATS_MAX:
            why = repeated(self._repeats + 1)
        return None if why is None else self._contradicts(why)

    def _contradicts(self, why: str) -> Stop:
        log.warning("list_contradicts", source=self._source, why=why)
        return Stop(StoppedBy.LIST_CONTRADICTS, GapReason.MALFORMED, why=why)

    def _may_start_over(self, stop: Stop) -> bool:
        """A position may be refused because it is too old, as cursors expire. The first page has no such reason."""
        too_old = stop.may_be_of_position and self._position != self._first
        too_old = too_old and not self._ended().begins_part  # the first page of a part cannot be too old
        if not too_old or self._was_refused:
            return False
        self._was_refused = True
        self._start_over()
        return True

    def _joins(self, page: Page) -> bool:
        if not self._is_whole and not self._entries.is_whole:
            return True
        if self._is_resuming:
            return fits_on(self._state, page)
        return joins(page, set(chain.from_iterable(keys for _, keys in self._recent)))

    def _turn_back(self) -> bool:
        """Go back to where pages may join again. False after enough attempts."""
        self._turns_back += 1
        self._before, self._repeats, self._circle = (), 0, WalkCircle()
        if self._turns_back > TURNS_BACK_MAX:
            self._is_whole, self._why_unreadable = False, self._why_unreadable or MOVES_TOO_FAST
            self._entries.started_over(is_proven=False)
            log.warning("walk_not_joined", source=self._source, turns_back=TURNS_BACK_MAX)
            return False
        if self._recent and self._recent[-1][0] == self._position:
            self._recent.pop()
        if self._is_resuming or not self._recent:
            self._start_over()
        else:
            self._position = self._recent[-1][0]
            log.info("walk_stepped_back", source=self._source)
        return True

    def _start_over(self) -> None:
        self._state, self._position, self._is_resuming = restarted(self._state), self._first, False
        self._recent.clear()
        self._before, self._repeats, self._missing_is_end = (), 0, False
        self._circle = WalkCircle()
        self._holes.started_over()
        self._entries.started_over()
        log.info("walk_restarted", source=self._source)

    async def _record(self, page: Page) -> bool:
        """Make the page durable, with its owed details and the progress of the walk. True at the end of the walk."""
        is_repeated, self._is_resuming = self._is_resuming, False
        why = clash(page)
        if self._clash is None and why is not None:
            self._clash = self._contradicts(why)
        is_whole = page.unreadable == 0 and why is None
        self._why_unreadable = self._why_unreadable or page.why_unreadable
        # After an unreadable entry the walk continues, but the stored progress does not move past that entry.
        self._is_whole = self._is_whole and is_whole
        is_end = page.next_position is None
        is_known = is_at_end(self._entries.in_part(self._state, self._position), page)
        # Only a walk that began at the beginning of the list has seen the whole of it.
        is_full = is_end and not page.is_rest
        if self._missing_is_end and page.entries:
            await self._vanished.skips(self._state.walk)
        await self._holes.read(self._position, page, self._collector.walked)
        self._state = _next_state(self._state, page, self._position, is_whole=self._is_whole, is_last=is_full)
        now_ns = self._clock.wall_ns()
        if is_full and self._is_whole:
            # What the pages left behind show has not vanished.
            missed = None if self._holes.keys else await self._vanished.counts_as(self._state.walk, page)
            self._state = replace(self._state, full_walk=missed)
            # Before the page: if the process dies between the two, the walk is still in progress and runs to its end.
            await self._store.keep_note(self._source, FULL_WALK_NOTE, now_ns)
        # Also before the page: once it is recorded, these entries no longer look newer than what is stored.
        for key in await self._revived(page):
            await self._store.replay_gaps(self._source, key=key, now_ns=now_ns)
        listed = await self._recorder.record(page, self._state, now_ns=now_ns)
        self._remember(page)
        self._entries.read(self._position, page, is_whole=is_whole)
        # A page with new entries is not the last one, whatever its marks say: one absurd mark makes the rest look old.
        # Neither is one with entries that are back: more may follow, as after a list that was empty for a while.
        has_news = listed.owed + listed.back > 0
        self._next_part = None
        if not is_end and not (has_news or is_repeated or not is_known):
            self._next_part = self._ended().next_position  # the rest of this part is known
            is_end = self._next_part is None
        await self._entries.move(None if is_end else self._next_part or page.next_position)
        return is_end

    async def _end(self, page: Page, began: WalkState) -> Stop | None:
        """The walk reached the end of the list, or entries that are known. `began` is its state before the last page."""
        is_full = page.next_position is None and not page.is_rest
        if self._is_whole and is_full:
            await self._unread.settle_but(self._holes.keys)
        if self._is_whole and not self._holes.keys and not await self._vanished.is_clock_behind(page):
            await self._look_for_vanished(began, page, is_full=is_full)
        if not is_full:
            self._state = finished(self._state, is_end=False) if self._is_whole else restarted(self._state)
            await self._store.record_page(self._source, (), self._state, now_ns=self._clock.wall_ns())
        if self._is_whole:
            return self._holes.first
        return self._clash or Stop(StoppedBy.LIST_UNREADABLE, GapReason.MALFORMED, why=self._why_unreadable)

    async def _look_for_vanished(self, began: WalkState, page: Page, *, is_full: bool) -> None:
        self.missed = None if began.full_walk is None else Missed(began.full_walk, page.covers_before_s)
        down_to = self._state.seen_down_to
        if is_full:
            self.misses_entries = await self._vanished.misses_entries(began.walk)
        elif down_to is not None and self._collector.capabilities.each is None:
            await self._vanished.judge_missing(walk=began.walk, newer_than=down_to)

    async def _revived(self, page: Page) -> list[str]:
        """Dead gaps whose entries are newer now, and gone ones that the list shows. They are due again at once."""
        keys = {entry.key: fingerprint(self._source, entry.key) for entry in page.entries}
        revived = [key for key in keys.values() if key in self._gone]
        self.shows_gone = self.shows_gone or bool(revived)
        for entry in page.entries:
            key = keys[entry.key]
            if key in self._dead and (held := await self._store.document(self._source, entry.key)) is not None:
                revived += [key] if is_newer(entry.updated_at, held.updated_at) else []
        return revived

    def _remember(self, page: Page) -> None:
        keys = frozenset(entry.key for entry in page.entries)
        is_known = keys.issubset(chain.from_iterable(known for _, known in self._recent))
        self._circle.read(has_news=page.begins_part or page.goes_on or not is_known, is_empty=page.goes_on)
        self._recent.append((self._position, keys))
        self._before, self._missing_is_end = page.entries, page.missing_is_end


def _next_state(state: WalkState, page: Page, position: str, *, is_whole: bool, is_last: bool) -> WalkState:
    if not is_whole:
        return restarted(state) if is_last else state
    seen = after_page(state, page, position)
    return finished(seen, is_end=True) if is_last else seen
