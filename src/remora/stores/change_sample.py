"""How many changes were there lately, without reading them all? Their numbers grow with time: find the first, then sample."""

from collections import Counter
from typing import Final

from remora.contracts.keeping import Housekeeping

# The newest are counted one by one.
COUNTED_MAX: Final = 100_000
# Of the older ones a block here and there.
BLOCKS: Final = 100
BLOCK_CHANGES: Final = 1_000


async def recent_changes(store: Housekeeping, since_ns: int) -> dict[str, int]:
    """How many changes of each sort there were since a moment. Many are estimated."""
    ends = await store.change_ends()
    if ends is None:
        return {}
    first, last = await _first_since(store, since_ns, *ends), ends[1]
    newest = max(first, last - COUNTED_MAX + 1)
    found = Counter(await store.changes_within([newest], last - newest + 1, since_ns=since_ns))
    older = newest - first
    if older > 0:
        size = min(BLOCK_CHANGES, -(-older // BLOCKS))
        starts = [first + block * older // BLOCKS for block in range(BLOCKS)]
        sample = await store.changes_within(starts, size, since_ns=since_ns)
        found.update({name: round(count * older / (BLOCKS * size)) for name, count in sample.items()})
    return dict(found)


async def _first_since(store: Housekeeping, since_ns: int, first: int, last: int) -> int:
    """The lowest number from which on changes are not older. Writers side by side disagree by less than a batch."""
    while first <= last:
        middle = (first + last) // 2
        moment_ns = await store.change_moment(middle)
        if moment_ns is not None and moment_ns < since_ns:
            first = middle + 1
        else:
            last = middle - 1
    return first
