"""Is the mirror still fresh, and what must be fetched again? The decisions about streams, blind windows and rescans.

Times named `at_ns` are wall clock; `time_s` is the source's own clock, in seconds, read from its items.
"""

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from remora.core.ledger.coverage import IdRange
from remora.core.units import DAY_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS

# ── the stream ──────────────────────────────────────────────────────────────────────────────────────────────────────

BACK_OFF_FIRST_NS: Final = 500 * MILLISECOND_NS
BACK_OFF_MAX_NS: Final = 30 * SECOND_NS
# A healthy stream sends a keep-alive about every 30 s; after twice that without a byte the connection is dead.
SILENT_NS: Final = 60 * SECOND_NS
# Quiet hours are normal. A stream is deaf only if it announces no change while the source keeps assigning ids.
DEAF_NS: Final = 5 * MINUTE_NS
DEAF_NEW_IDS: Final = 20


def back_off_ns(failures: int) -> int:
    """How long to wait before the next connect, after this many connections in a row without enough events."""
    assert failures >= 0, f"{failures} failures"
    doublings = min(failures - 1, (BACK_OFF_MAX_NS // BACK_OFF_FIRST_NS).bit_length())
    return 0 if failures == 0 else min(BACK_OFF_MAX_NS, BACK_OFF_FIRST_NS << doublings)


# One in this many requests may be a connect, over all streams of a source; and one in this many may be a poll.
CONNECTS_ONE_IN: Final = 10


def reconnect_every_ns(*, ceiling_interval_ns: int, streams: int) -> int:
    """The minimum time between two connects of one stream, so that connects use at most a tenth of the ceiling."""
    return CONNECTS_ONE_IN * streams * ceiling_interval_ns


def is_stream_too_dear(*, ceiling_interval_ns: int, streams: int) -> bool:
    """Whether polling replaces the streams: reopening one every 30 s would use more than a tenth of the ceiling.

    With one stream this is a ceiling below 20 requests a minute, with two streams below 40.
    """
    return reconnect_every_ns(ceiling_interval_ns=ceiling_interval_ns, streams=streams) > BACK_OFF_MAX_NS


def poll_interval_ns(configured_ns: int, *, ceiling_interval_ns: int) -> int:
    """How often the newest id is requested: as often as the owner says, but with at most a tenth of the ceiling."""
    return max(configured_ns, CONNECTS_ONE_IN * ceiling_interval_ns)


@dataclass(frozen=True, slots=True)
class LastEvent:
    """When the stream last announced a change, the newest id at that moment, and when the stream was last known alive.

    A keep-alive after the last event shows that there was nothing to announce: quiet hours are not blind hours.
    """

    at_ns: int
    newest_id: int | None
    heard_at_ns: int


def is_deaf(last: LastEvent, *, newest_id: int | None, now_ns: int) -> bool:
    """Whether the stream is alive but announces nothing, although the source keeps assigning ids."""
    if last.newest_id is None or newest_id is None:
        return False
    return now_ns - last.at_ns >= DEAF_NS and newest_id - last.newest_id >= DEAF_NEW_IDS


def last_event_to_json(last: LastEvent) -> dict[str, int | None]:
    """The durable form."""
    return {"at_ns": last.at_ns, "newest_id": last.newest_id, "heard_at_ns": last.heard_at_ns}


def last_event_from_json(note: object) -> LastEvent | None:
    """The stored value, or None if there is none or it cannot be read."""
    match note:
        case {"at_ns": int(at_ns), "newest_id": int() | None as newest_id, "heard_at_ns": int(heard_at_ns)}:
            return LastEvent(at_ns, newest_id, heard_at_ns)
        case _:
            return None


# ── blind windows ───────────────────────────────────────────────────────────────────────────────────────────────────

INBOX_REPAIR_MAX_IDS: Final = 500
LONG_BLIND_NS: Final = 5 * MINUTE_NS


class Repair(StrEnum):
    """How the ids created in a blind window are fetched again."""

    NOTHING = "nothing"
    INBOX = "inbox"
    SEGMENTS = "segments"


class BlindWindow(msgspec.Struct, frozen=True):
    """What must be done after a time without the stream."""

    repair: Repair
    ids: IdRange | None
    rescan: bool  # the stream was down so long that a rescan must start at once, for changes to older items


def blind_window(since: LastEvent, *, newest_id: int, now_ns: int, blind_for_ns: int = 0) -> BlindWindow:
    """What must be repaired after a reconnect. The ids start at the last event, not at the last connect.

    `blind_for_ns` is the monotonic duration, where it is known: the wall clock may have been stepped meanwhile.
    """
    wall_ns = now_ns - since.heard_at_ns
    # A time in the future was written before the clock stepped back, so the length of the blind window is unknown.
    rescan = wall_ns < 0 or max(wall_ns, blind_for_ns) > LONG_BLIND_NS
    if since.newest_id is None or newest_id <= since.newest_id:
        return BlindWindow(Repair.NOTHING, None, rescan)
    ids = IdRange(since.newest_id + 1, newest_id)
    return BlindWindow(Repair.INBOX if len(ids) <= INBOX_REPAIR_MAX_IDS else Repair.SEGMENTS, ids, rescan)


# ── how old items are when they change ──────────────────────────────────────────────────────────────────────────────

_AGES_SCHEMA: Final = 1
_FIRST_BOUND_S: Final = 60
_BOUNDS: Final = 64
# Upper bounds in seconds, each 25 % above the one before: from a minute to more than two years.
AGE_BOUNDS_S: Final[tuple[int, ...]] = tuple(int(_FIRST_BOUND_S * 1.25**step) for step in range(_BOUNDS))
# At this total, all counts are halved: old observations lose weight, and the record stays small.
AGES_MAX: Final = 1_000_000
# A p99 of fewer observations means nothing.
AGES_LEAST: Final = 200
_AUTO_PERCENT: Final = 99


@dataclass(frozen=True, slots=True)
class UpdateAges:
    """A histogram of the age of items when they changed; the last count is for ages beyond all bounds."""

    counts: tuple[int, ...] = (0,) * (_BOUNDS + 1)

    @property
    def total(self) -> int:
        """How many changes were seen (halved now and then)."""
        return sum(self.counts)

    def seen(self, age_s: float) -> "UpdateAges":
        """Count one more change. A negative age is a clock error and counts as zero."""
        counts = list(self.counts)
        counts[bisect_left(AGE_BOUNDS_S, max(0.0, age_s))] += 1
        if sum(counts) >= AGES_MAX:
            counts = [count // 2 for count in counts]
        return UpdateAges(tuple(counts))

    def percentile_s(self, percent: int) -> int | None:
        """An age that this share of all changes did not exceed; None while nothing was seen."""
        assert 0 < percent <= 100, f"the {percent}th percentile"
        total, below = self.total, 0
        if total == 0:
            return None
        for count, bound_s in zip(self.counts, AGE_BOUNDS_S, strict=False):
            below += count
            if below * 100 >= percent * total:
                return bound_s
        return AGE_BOUNDS_S[-1]


def ages_to_json(ages: UpdateAges) -> list[int]:
    """The durable form."""
    return [_AGES_SCHEMA, *ages.counts]


def ages_from_json(note: object) -> UpdateAges:
    """The stored histogram; an empty one if there is none or it cannot be read."""
    if not isinstance(note, list) or len(note) != len(UpdateAges().counts) + 1 or note[0] != _AGES_SCHEMA:
        return UpdateAges()
    counts = tuple(count for count in note[1:] if type(count) is int and 0 <= count <= AGES_MAX)
    return UpdateAges(counts) if len(counts) == len(note) - 1 else UpdateAges()


# ── the rescan ──────────────────────────────────────────────────────────────────────────────────────────────────────

WINDOW_MIN_NS: Final = DAY_NS
WINDOW_MAX_NS: Final = 14 * DAY_NS  # comments stay open for two weeks; later changes are rare
WINDOW_DEFAULT_NS: Final = 3 * DAY_NS


def suggested_window_ns(ages: UpdateAges) -> int | None:
    """How far back a rescan should look to find 99 percent of changes; None until enough changes were seen."""
    if ages.total < AGES_LEAST:
        return None
    age_s = ages.percentile_s(_AUTO_PERCENT)
    assert age_s is not None, "a histogram with counts has percentiles"
    return max(WINDOW_MIN_NS, min(WINDOW_MAX_NS, age_s * SECOND_NS))


def window_ns(configured_ns: int | None, ages: UpdateAges) -> int:
    """The horizon of the next pass. None means auto: the suggestion, or the default until there is one."""
    if configured_ns is not None:
        return configured_ns
    return suggested_window_ns(ages) or WINDOW_DEFAULT_NS


@dataclass(frozen=True, slots=True)
class RescanPass:
    """One pass over the window. `time_s` is the source's time when it started; None when the mirror was empty."""

    started_at_ns: int
    time_s: int | None
    processed: int = 0
    changed: int = 0
    ended_at_ns: int | None = None
    unread: int = 0  # how many of those processed are owed, because they got no usable answer

    @property
    def is_success(self) -> bool:
        """False if the pass read nothing because the source was down. A pass with nothing to read is a success."""
        return self.unread == 0 or self.unread < self.processed


def rescan_since_s(*, time_s: int, previous: RescanPass | None, horizon_ns: int) -> int:
    """From which time on, by the source's clock, items are read again.

    Never later than the previous pass minus the horizon, so it includes every item that could change during downtime.
    """
    seen_s = time_s if previous is None or previous.time_s is None else min(time_s, previous.time_s)
    return max(0, seen_s - horizon_ns // SECOND_NS)


def rescan_is_due(last: RescanPass | None, *, every_ns: int, now_ns: int) -> bool:
    """Whether the next pass should start now, also after the clock has stepped back."""
    return last is None or last.started_at_ns > now_ns or now_ns - last.started_at_ns >= every_ns


def pass_to_json(done: RescanPass) -> dict[str, int | None]:
    """The durable form."""
    return {
        "started_at_ns": done.started_at_ns,
        "time_s": done.time_s,
        "processed": done.processed,
        "changed": done.changed,
        "ended_at_ns": done.ended_at_ns,
        "unread": done.unread,
    }


def pass_from_json(note: object) -> RescanPass | None:
    """The stored value, or None if there is none or it cannot be read."""
    match note:
        case {
            "started_at_ns": int(started_at_ns),
            "time_s": int() | None as time_s,
            "processed": int(processed),
            "changed": int(changed),
            "ended_at_ns": int() | None as ended_at_ns,
            "unread": int(unread),
        }:
            return RescanPass(started_at_ns, time_s, processed, changed, ended_at_ns, unread)
        case _:
            return None
