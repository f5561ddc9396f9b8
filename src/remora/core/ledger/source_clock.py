"""What time is it at the source, and from which id on are items newer than a given time? Absurd times are ignored.

Ids are assigned in order of time, so the median of a small block of neighbours is the time at that place. The search
asks the store for one block after another; each store decides how to read them.
"""

from collections.abc import Generator, Sequence
from typing import Final

import msgspec

BLOCK_ITEMS: Final = 15
_FIRST_STEP_IDS: Final = 64


class Timed(msgspec.Struct, frozen=True):
    """A stored item with a time (seconds, as the source says)."""

    item_id: int
    time_s: int


# Up to BLOCK_ITEMS timed items: the highest ids at or below the requested one.
Block = Sequence[Timed]
Search = Generator[int, Block, int | None]


def time_of(block: Block) -> int | None:
    """The time at a place, whatever single items say."""
    times_s = sorted(item.time_s for item in block)
    return times_s[(len(times_s) - 1) // 2] if times_s else None


def first_id_since(time_s: int, *, newest_id: int) -> Search:
    """Ask for blocks (yield an id, receive its block) and return the lowest id from which on items are this new."""
    newest_block = yield newest_id
    if not _is_young(newest_block, time_s):
        return _lowest(newest_block, time_s)
    young, young_block = newest_id, newest_block
    step, old = _FIRST_STEP_IDS, newest_id
    while True:
        old = max(-1, newest_id - step)
        block = yield old
        if not _is_young(block, time_s):
            break
        young, young_block = old, block
        step *= 2
    while young - old > 1:
        middle = (young + old) // 2
        block = yield middle
        if _is_young(block, time_s):
            young, young_block = middle, block
        else:
            old = middle
    return _lowest(young_block, time_s)


def _is_young(block: Block, time_s: int) -> bool:
    time_here_s = time_of(block)
    return time_here_s is not None and time_here_s >= time_s


def _lowest(block: Block, time_s: int) -> int | None:
    return min((item.item_id for item in block if item.time_s >= time_s), default=None)
