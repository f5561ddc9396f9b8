"""How many changes were there lately, without reading them all? Their numbers grow with time: find the first, then sample."""

from typing import Final

from remora.contracts.keeping import Housekeeping

# Up to this many are counted one by one.
COUNTED_MAX: Final = 200_000
BLOCKS: Final = 200
BLOCK_CHANGES: Final = COUNTED_MAX // BLOCKS


async def recent_changes(store: Housekeeping, since_ns: int) -> dict[str, int]:
    """How many changes of each sort there were since a moment. Many are estimated."""
    ends = await store.change_ends()
    if ends is None:
        return {}
    first, last = await _first_since(store, since_ns, *ends), ends[1]
    numbers = last - first + 1
    if numbers <= COUNTED_MAX:
        return await store.changes_within([first], max(numbers, 0), since_ns=since_ns)
    starts = [first + block * numbers // BLOCKS for block in range(BLOCKS)]
    found = await store.changes_within(starts, BLOCK_CHANGES, since_ns=since_ns)
    return {name: round(count * numbers / COUNTED_MAX) for name, count in found.items()}


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
