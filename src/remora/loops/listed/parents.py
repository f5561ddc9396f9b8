"""Which entries of another source does a list belong to? They come from the mirror; addresses of its documents need them, too."""

from typing import NamedTuple

from remora.collect import Collector
from remora.contracts import Store
from remora.loops.listed.entry_marks import kept_mark


class Parents(NamedTuple):
    """How many entries of the other source are known, and how many of them lack a field that an address needs."""

    known: int
    lacking: int


async def take_parents(source: str, collector: Collector, store: Store) -> Parents | None:
    """Tell the source the entries that its list is walked for. None if it is no list for each entry of another source."""
    each, walked = collector.capabilities.each, collector.walked
    if each is None or walked is None:
        return None
    known, lacking = 0, 0
    async for held in store.documents(each):
        if held.body is not None:
            known += 1
            lacking += walked.take_parents([(held.key, held.body, held.vanished_ns is None)])
            if (mark := await kept_mark(store, source, held.key)) is not None:
                walked.take_watermark(held.key, mark)
    return Parents(known, lacking)
