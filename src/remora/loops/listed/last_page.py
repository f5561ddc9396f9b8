"""Does a list repeat its last page for every page behind it? It is asked once more before that counts as the end.

A page may also show the entries of the one before it because the list moved down by a whole page meanwhile, because the
provider ignores the number of the page, or because it shows no page beyond a certain one. So the page before and the last one are
asked for again: the last one still shows the same, so nothing moved; the page before shows others, so the number counts;
and the last one is shorter, so the list ends there.
"""

from typing import Final

from remora.collect import Collector
from remora.contracts.allowance import Allowance
from remora.core.item import Entry, Page
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.verdict import Found

# An earlier run may have gone on behind the last page before it was interrupted.
STEPS_BACK_MAX: Final = 4

Entries = tuple[Entry, ...]


async def is_repeated_last(collector: Collector, allowance: Allowance, position: str, entries: Entries) -> bool:
    """Whether the page at this position, which the next one repeated, is the last one for certain."""
    earlier = await _page_before(collector, allowance, position, entries)
    if earlier is None or len(entries) >= len(earlier):
        return False
    keys = {entry.key for entry in entries}
    if 2 * sum(entry.key in keys for entry in earlier) > len(earlier):
        return False  # the same page, of which something changed
    return await _entries(collector, allowance, position) == entries


async def _page_before(collector: Collector, allowance: Allowance, position: str, entries: Entries) -> Entries | None:
    """The last page before this position that shows something else."""
    before: str | None = position
    for _ in range(STEPS_BACK_MAX):
        before = None if collector.walked is None or before is None else collector.walked.position_before(before)
        shown = None if before is None else await _entries(collector, allowance, before)
        if shown is None or shown != entries:
            return shown
    return None


async def _entries(collector: Collector, allowance: Allowance, position: str) -> Entries | None:
    asked = await collector.ask(Discovery(Kind.PAGE, position, Lane.WALK), allowance)
    match asked.verdict:
        case Found(Page(unreadable=0, contradicts=None) as page):
            return page.entries
        case _:
            return None
