"""How are the gaps of a listed source closed? Details as everywhere, and unread pages with what moved around them."""

from typing import Final

from remora.collect import Asked, Collector
from remora.contracts import Clock, Store
from remora.contracts.allowance import Allowance
from remora.contracts.source import WalkedSource
from remora.core.item import Page
from remora.core.lanes import Lane
from remora.core.ledger.asking import ONCE
from remora.core.ledger.discovery import Discovery, FromGap, Kind
from remora.core.ledger.gap import Gap
from remora.core.ledger.list_promises import clash, contradiction
from remora.core.ledger.list_walk import joins
from remora.core.ledger.run import RunCounts
from remora.core.ledger.unread_page import UnreadPage, advanced, reaches_above, reaches_below
from remora.core.reasons import GapReason
from remora.core.units import MINUTE_NS
from remora.core.verdict import Deferred, Found, Malformed, Missing, Pressure
from remora.loops.listed.pages import PageRecorder
from remora.loops.listed.unread_pages import UnreadPages
from remora.loops.recover import Recover, Recovery

# One at a time: a gap that is leased but not requested would lose its place in the order.
RECOVERY: Final = Recovery(width=1, at_once=1, lease_ns=30 * MINUTE_NS, asks=ONCE)
# A list that grew since is read from where the page was; one that grew by more than this is left to the full walk.
PAGES_MAX: Final = 1_000
# A list that moves while it is read is begun again this often.
TURNS_BACK_MAX: Final = 3


class ListedRecovery(Recover):
    """Fetches the owed details of one listed source, and its unread pages."""

    def __init__(
        self,
        source: str,
        collector: Collector,
        store: Store,
        *,
        clock: Clock,
        owner: str,
        allowance: Allowance,
        counts: RunCounts,
    ) -> None:
        super().__init__(source, collector, store, clock=clock, owner=owner, policy=RECOVERY, allowance=allowance)
        self._counts = counts
        self._recorder = PageRecorder(source, collector, store, counts=counts)
        self._pages = UnreadPages(source, collector, store, clock=clock)

    async def _serve(self, gap: Gap) -> None:
        if gap.kind is not Kind.UNREAD_PAGE:
            await super()._serve(gap)
            return
        discovery = Discovery(Kind.UNREAD_PAGE, gap.key, Lane.RECOVER, FromGap(self._owner, gap.reason))
        unread, walked = await self._pages.unread(gap.key), self._collector.walked
        if unread is None or walked is None:
            await self._pages.ask_for_full_walk()  # nobody knows any more where it was
            await self._pages.settle(discovery)
        elif not unread.by_walk:  # otherwise every walk reads the list to its end
            await self._read(discovery, unread, walked)

    async def _read(self, discovery: Discovery, unread: UnreadPage, walked: WalkedSource) -> None:
        """Read from where the page was, backwards and forwards until its neighbours are seen, and settle it."""
        position, chain = unread.position, list[Page]()
        turns = 0
        for _ in range(PAGES_MAX):
            asked = await self._ask(position, discovery, may_be_behind=walked.position_before(position) is not None)
            page = self._page(asked, chain, walked, position)
            if page is None:
                await self._failed(discovery, unread, walked, asked, chain, position)
                return
            self._counts.pages += 1
            begins = chain or position == walked.first_of_part(position) or reaches_above(unread, page)
            before = None if begins else walked.position_before(position)
            if before is not None:
                position = before
                continue
            if chain and not joins(page, {entry.key for read in chain for entry in read.entries}):
                turns, chain, position = turns + 1, [], unread.position
                if turns > TURNS_BACK_MAX:
                    return  # it stays owed, and the next run tries again
                continue
            state, now_ns = await self._store.walk_state(self._source), self._clock.wall_ns()
            await self._recorder.record(page, state, now_ns=now_ns)
            if reaches_below(unread, page) or page.next_position in {None, walked.ended_at(position).next_position}:
                await self._pages.settle(discovery)
                return
            assert page.next_position is not None, "a page that is not the last has a next one"
            chain, position = [*chain[-1:], page], page.next_position
        await self._pages.ask_for_full_walk()

    async def _ask(self, position: str, discovery: Discovery, *, may_be_behind: bool) -> Asked:
        page = Discovery(Kind.PAGE, position, Lane.RECOVER, discovery.origin, may_be_behind=may_be_behind)
        return await self._collector.ask(page, self._allowance, ONCE)

    def _page(self, asked: Asked, chain: list[Page], walked: WalkedSource, position: str) -> Page | None:
        """The page, if it can be trusted. A missing one after the last is the end of the list."""
        match asked.verdict:
            case Found(Page() as page) if not page.unreadable and (contradiction(page, ()) or clash(page)) is None:
                return page
            case Missing(GapReason.NOT_FOUND) if chain and chain[-1].missing_is_end:
                return walked.ended_at(position)
            case _:
                return None

    async def _failed(
        self,
        discovery: Discovery,
        unread: UnreadPage,
        walked: WalkedSource,
        asked: Asked,
        chain: list[Page],
        position: str,
    ) -> None:
        """Keep what was read before it, and count the attempt, unless the provider only asked for less."""
        if chain:
            left = advanced(unread, position, walked.position_in_words(position), chain[-1])
            await self._pages.keep(discovery.key, left)
        match asked.verdict:
            case Deferred() | Pressure():
                return
            case Found():
                asked = Asked(Malformed(GapReason.MALFORMED), asked.started_at_ns, asked.requests)
            case _:
                pass
        await self._collector.record(discovery, asked)
