"""When was an unchanged item last read? Stored for ranges of ids, so that no item's row is rewritten.

A range holds neighbours that were read in the same second and ends at the next hundred. A walk over many unchanged
items writes one small row per hundred of them, and two walks over different hundreds never touch the same row.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from remora.core.units import SECOND_NS

BLOCK_IDS: Final = 100


class ReadRange(NamedTuple):
    """Ids from `first_id` to `last_id`, both included, that were all read in the second that began at `read_s`."""

    first_id: int
    last_id: int
    read_s: int


def whole_second(moment_ns: int) -> int:
    """The second in which something was read: never later than the moment itself."""
    return moment_ns // SECOND_NS


def blocks(ids: Iterable[int]) -> Sequence[int]:
    """The first ids of the hundreds that hold these ids."""
    return sorted({item_id - item_id % BLOCK_IDS for item_id in ids})


def merged(known: Iterable[ReadRange], read_s: Mapping[int, int]) -> list[ReadRange]:
    """The ranges of some blocks after these ids were read again; `known` is all that the blocks held before."""
    seconds = dict(read_s)
    for first_id, last_id, second in known:
        for item_id in range(first_id, last_id + 1):
            seconds.setdefault(item_id, second)
    ranges: list[ReadRange] = []
    first_id = last_id = second = 0
    for item_id in sorted(seconds):
        if ranges and item_id == last_id + 1 and seconds[item_id] == second and item_id % BLOCK_IDS:
            last_id = item_id
            continue
        if ranges:
            ranges[-1] = ReadRange(first_id, last_id, second)
        first_id, last_id, second = item_id, item_id, seconds[item_id]
        ranges.append(ReadRange(first_id, last_id, second))
    if ranges:
        ranges[-1] = ReadRange(first_id, last_id, second)
    return ranges
