"""What is stored of a ban, and of an outage that may become one, so that a restart or a kill forgets neither?"""

from typing import Final

import msgspec

from remora.core.rate.ban import KEPT_MAX_NS, WITHIN_NS, BanWatch, LearnedLimit, Outage
from remora.core.rate.refusal_limit import MOST_MAX, RefusalLimit

NOTHING: Final = BanWatch()


class StoredOutage(msgspec.Struct, frozen=True):
    """An outage, with its age instead of its moment."""

    began_ago_ns: int
    count: int
    around: int


class StoredLimit(msgspec.Struct, frozen=True):
    """A learned limit, with the time that is left instead of its end."""

    most: int
    left_ns: int
    began_ago_ns: int
    refusals: int
    lasted_ns: int
    is_sure: bool


class StoredWatch(msgspec.Struct, frozen=True):
    """What the next process must know."""

    tolerated: int = 0
    outage: StoredOutage | None = None
    learned: StoredLimit | None = None
    has_quota: bool = False


def to_stored(watch: BanWatch, *, now_ns: int) -> StoredWatch:
    """The watch as it is stored."""
    outage, learned = watch.outage, watch.learned
    return StoredWatch(
        watch.tolerated,
        None if outage is None else StoredOutage(max(0, now_ns - outage.began_ns), outage.count, outage.around),
        None
        if learned is None
        else StoredLimit(
            learned.limit.most,
            max(0, learned.until_ns - now_ns),
            max(0, now_ns - learned.began_ns),
            learned.refusals,
            learned.lasted_ns,
            learned.is_sure,
        ),
        watch.has_quota,
    )


def from_stored(stored: object, *, age_ns: int, now_ns: int) -> BanWatch:
    """What was stored this long ago. What cannot be read is unknown: nothing was seen."""
    try:
        kept = msgspec.convert(stored, StoredWatch)
    except msgspec.ValidationError:
        return NOTHING
    outage, learned = kept.outage, kept.learned
    if outage is not None and min(outage.began_ago_ns, outage.count, outage.around) < 0:
        return NOTHING
    if learned is not None and not (
        1 <= learned.most <= MOST_MAX and min(learned.refusals, learned.lasted_ns, learned.began_ago_ns) >= 0
    ):
        return NOTHING
    return BanWatch(
        tolerated=max(0, kept.tolerated),
        outage=None
        if outage is None
        else Outage(now_ns - age_ns - min(outage.began_ago_ns, KEPT_MAX_NS), outage.count, outage.around),
        learned=None
        if learned is None
        else LearnedLimit(
            RefusalLimit(learned.most, WITHIN_NS),
            now_ns + min(learned.left_ns, KEPT_MAX_NS) - age_ns,
            now_ns - age_ns - min(learned.began_ago_ns, KEPT_MAX_NS),
            learned.refusals,
            learned.lasted_ns,
            learned.is_sure,
        ),
        has_quota=kept.has_quota,
    ).at(now_ns)


def stricter(own: BanWatch, other: BanWatch) -> BanWatch:
    """The own watch with a limit that another process has learned, if it allows less or is kept for longer."""
    mine, theirs = own.learned, other.learned
    if theirs is None or (mine is not None and mine.limit.most < theirs.limit.most):
        return own
    if mine is not None and mine.limit == theirs.limit and mine.until_ns >= theirs.until_ns:
        return own
    return msgspec.structs.replace(own, learned=theirs)
