"""What do we owe, and when do we ask again? A gap is one owed item; it ends settled, absent, gone or dead."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from remora.core.item import Item
from remora.core.ledger.discovery import Kind
from remora.core.reasons import GapFamily, GapReason
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import Deferred, Found, Malformed, Missing, NotYet, Pressure, Refused, Trouble, Verdict


class GapState(StrEnum):
    """The state of an owed item."""

    OWED = "owed"
    LEASED = "leased"  # being fetched right now; a lease is not an attempt
    SETTLED = "settled"
    ABSENT = "absent"  # confirmed: the provider has no such item
    GONE = "gone"  # deleted upstream: the last content is kept, and the item is not requested again
    DEAD = "dead"  # we gave up for now; replayed by command and, slowly, by itself


class GapEvent(StrEnum):
    """What can happen to an owed item."""

    LEASE = "lease"
    RELEASE = "release"
    FAILED = "failed"
    FOUND = "found"
    CONFIRMED = "confirmed"  # missing, and checked often enough
    DELETED = "deleted"  # the provider says it was deleted, or its list no longer shows it and its detail is missing
    GAVE_UP = "gave_up"
    REPLAY = "replay"


# Other pairs cannot happen. A settled gap that fails again is owed again; an absent or gone item may still appear.
TRANSITIONS: Final[dict[tuple[GapState, GapEvent], GapState]] = {
    (GapState.OWED, GapEvent.LEASE): GapState.LEASED,
    (GapState.OWED, GapEvent.FAILED): GapState.OWED,
    (GapState.OWED, GapEvent.FOUND): GapState.SETTLED,
    (GapState.OWED, GapEvent.CONFIRMED): GapState.ABSENT,
    (GapState.OWED, GapEvent.DELETED): GapState.GONE,
    (GapState.OWED, GapEvent.GAVE_UP): GapState.DEAD,
    (GapState.OWED, GapEvent.REPLAY): GapState.OWED,
    (GapState.LEASED, GapEvent.LEASE): GapState.LEASED,  # an expired lease is taken over
    (GapState.LEASED, GapEvent.RELEASE): GapState.OWED,
    (GapState.LEASED, GapEvent.FAILED): GapState.OWED,
    (GapState.LEASED, GapEvent.FOUND): GapState.SETTLED,
    (GapState.LEASED, GapEvent.CONFIRMED): GapState.ABSENT,
    (GapState.LEASED, GapEvent.DELETED): GapState.GONE,
    (GapState.LEASED, GapEvent.GAVE_UP): GapState.DEAD,
    (GapState.SETTLED, GapEvent.FAILED): GapState.OWED,
    (GapState.SETTLED, GapEvent.FOUND): GapState.SETTLED,
    (GapState.SETTLED, GapEvent.CONFIRMED): GapState.ABSENT,
    (GapState.SETTLED, GapEvent.DELETED): GapState.GONE,
    (GapState.ABSENT, GapEvent.FAILED): GapState.OWED,
    (GapState.ABSENT, GapEvent.FOUND): GapState.SETTLED,
    (GapState.ABSENT, GapEvent.CONFIRMED): GapState.ABSENT,
    (GapState.ABSENT, GapEvent.DELETED): GapState.GONE,
    (GapState.ABSENT, GapEvent.REPLAY): GapState.OWED,
    (GapState.GONE, GapEvent.FAILED): GapState.OWED,
    (GapState.GONE, GapEvent.FOUND): GapState.SETTLED,
    (GapState.GONE, GapEvent.DELETED): GapState.GONE,
    (GapState.GONE, GapEvent.REPLAY): GapState.OWED,
    (GapState.DEAD, GapEvent.LEASE): GapState.LEASED,
    (GapState.DEAD, GapEvent.FAILED): GapState.OWED,  # pressure and faults never keep an item dead
    (GapState.DEAD, GapEvent.FOUND): GapState.SETTLED,
    (GapState.DEAD, GapEvent.CONFIRMED): GapState.ABSENT,
    (GapState.DEAD, GapEvent.DELETED): GapState.GONE,
    (GapState.DEAD, GapEvent.GAVE_UP): GapState.DEAD,
    (GapState.DEAD, GapEvent.REPLAY): GapState.OWED,
}

# Providers assign ids before the items can be read, in batches, some of them minutes before.
LOOKS_AT_A_NEW_ID: Final = 12
YOUNG_FOR_NS: Final = HOUR_NS
# A lagging replica answers null for an item that it does not have yet.
LOOKS_AT_AN_OLD_ID: Final = 3
# After this many answers a document is final as gone, even if its list still shows it.
LOOKS_AT_A_LISTED_GONE: Final = 3
# Refusals of single items do happen and end within hours; after this many attempts only the slow schedule continues.
ATTEMPTS_BEFORE_DEAD: Final = 6
DEAD_LETTER_RETRY_NS: Final = 7 * DAY_NS
# For a missing detail whose entry the list may still show. A full walk comes within a day (`list_walk`) and
# distinguishes a deleted entry from a broken one, so we do not give up earlier.
DOUBTED_FOR_NS: Final = 2 * DAY_NS

_SECONDS: Final = tuple(seconds * SECOND_NS for seconds in (2, 3, 5, 10, 20, 40))
_MINUTES: Final = tuple(minutes * MINUTE_NS for minutes in (1, 2, 5, 10, 15))
# When to ask again after the n-th attempt; the last delay repeats. Every request still passes the gate.
SCHEDULE: Final[dict[GapFamily, tuple[int, ...]]] = {
    GapFamily.YOUNG: (*_SECONDS, *_MINUTES, 30 * MINUTE_NS),
    GapFamily.PRESSURE: (30 * SECOND_NS, *_MINUTES, 30 * MINUTE_NS, HOUR_NS, 3 * HOUR_NS, 6 * HOUR_NS),
    GapFamily.TRANSPORT: (5 * SECOND_NS, 30 * SECOND_NS, *_MINUTES, HOUR_NS),
    GapFamily.ITEM: (MINUTE_NS, 10 * MINUTE_NS, HOUR_NS, 3 * HOUR_NS, 6 * HOUR_NS, 12 * HOUR_NS),
    GapFamily.RUN_CAP: (0,),
}
# A not-before further in the future than this was written before the clock stepped back: the gap is due.
NOT_BEFORE_MAX_NS: Final = DEAD_LETTER_RETRY_NS + HOUR_NS
# A gap whose last attempt is in the future is due too; the clocks of two machines may differ by this much.
CLOCK_SLACK_NS: Final = MINUTE_NS


class Listing(StrEnum):
    """What the list says about a document whose detail is missing."""

    UNKNOWN = "unknown"  # the list showed it before the detail was asked for, or there is no list
    SHOWN_SINCE = "shown_since"  # the list showed it after the request was sent: the answer is older than the list
    VANISHED = "vanished"  # the list no longer shows it


@dataclass(frozen=True, slots=True)
class Gap:
    """One owed item. Times are wall clock. Never holds a token, a title or a full URL."""

    kind: Kind
    key: str
    state: GapState
    reason: GapReason
    attempts: int
    null_count: int  # how often the provider said "no such item" since it last returned anything for it
    near_newest: bool  # its id was near the newest id when the gap was opened
    not_before_ns: int
    first_seen_ns: int
    last_seen_ns: int


def is_due(gap: Gap, *, now_ns: int) -> bool:
    """Whether it may be requested again, even after the clock stepped back."""
    stepped_back = gap.last_seen_ns > now_ns + CLOCK_SLACK_NS or gap.not_before_ns > now_ns + NOT_BEFORE_MAX_NS
    return stepped_back or gap.not_before_ns <= now_ns


def is_too_soon(gap: Gap, *, asked_ago_ns: int) -> bool:
    """Whether the process that asked for it so long ago (monotonic) must wait, although the wall clock says it is due.

    The clocks of two processes may differ by hours after a step. Then each finds due what the other has just put off.
    Half of the delay is enough, so that a clock that is being adjusted changes nothing. A replay by an operator counts.
    """
    delay_ns = retry_delay_ns(gap.reason, gap.attempts)
    was_replayed = gap.not_before_ns - gap.last_seen_ns < delay_ns - MILLISECOND_NS
    return asked_ago_ns < delay_ns // 2 and not was_replayed


def retry_delay_ns(reason: GapReason, attempts: int) -> int:
    """How long to wait after the n-th attempt (from 1)."""
    delays_ns = SCHEDULE[reason.family]
    return delays_ns[min(attempts, len(delays_ns)) - 1]


def moved(gap: Gap, event: GapEvent) -> Gap:
    """The gap in its next state. An impossible pair is a bug."""
    return replace(gap, state=TRANSITIONS[gap.state, event])


def after(
    gap: Gap | None,
    verdict: Verdict,
    *,
    kind: Kind,
    key: str,
    now_ns: int,
    listing: Listing = Listing.UNKNOWN,
) -> Gap | None:
    """The gap after one more answer; None when there was no gap and none is needed."""
    reason = owed_reason(verdict)
    if reason is None:
        return None if gap is None else replace(moved(gap, GapEvent.FOUND), last_seen_ns=now_ns)
    tried = _one_more_attempt(gap, verdict, reason, kind=kind, key=key, now_ns=now_ns)
    event = _event(tried, verdict, listing, now_ns=now_ns)
    if event is GapEvent.FOUND:  # a placeholder that never went away: we have everything there is
        return moved(tried, event)
    ended = moved(tried, event)
    delay_ns = DEAD_LETTER_RETRY_NS if ended.state is GapState.DEAD else retry_delay_ns(reason, tried.attempts)
    return replace(ended, not_before_ns=now_ns + delay_ns)


def owed_reason(verdict: Verdict) -> GapReason | None:
    """Why the item is still owed after this verdict, or None when it is settled."""
    if isinstance(verdict, Found):  # by far the most
        return GapReason.NOT_YET if isinstance(verdict.thing, Item) and verdict.thing.delayed else None
    match verdict:
        case NotYet():
            return GapReason.NOT_YET
        case Missing(reason) | Trouble(reason) | Refused(reason) | Malformed(reason) | Deferred(reason):
            return reason
        case Pressure(reason):
            return reason


def _one_more_attempt(
    gap: Gap | None, verdict: Verdict, reason: GapReason, *, kind: Kind, key: str, now_ns: int
) -> Gap:
    is_look = isinstance(verdict, NotYet | Missing)
    young = isinstance(verdict, NotYet)
    if gap is None or gap.state is GapState.SETTLED:
        return Gap(
            kind=kind,
            key=key,
            state=GapState.OWED if gap is None else gap.state,
            reason=reason,
            attempts=1,
            null_count=int(is_look),
            near_newest=young,
            not_before_ns=now_ns,
            first_seen_ns=now_ns,
            last_seen_ns=now_ns,
        )
    if isinstance(verdict, Found):
        # The item was returned, so earlier nulls came from a lagging replica; placeholders are counted separately.
        attempts = gap.attempts + 1 if gap.null_count == 0 and reason.family is gap.reason.family else 1
        return replace(gap, reason=reason, attempts=attempts, null_count=0, last_seen_ns=now_ns)
    return replace(
        gap,
        reason=reason,
        attempts=gap.attempts + 1 if reason.family is gap.reason.family else 1,
        null_count=gap.null_count + int(is_look),
        near_newest=gap.near_newest or young,
        last_seen_ns=now_ns,
    )


def _event(gap: Gap, verdict: Verdict, listing: Listing, *, now_ns: int) -> GapEvent:
    match verdict:
        case Missing(reason) if _is_gone(gap, reason, listing):
            return GapEvent.DELETED
        case Missing() if gap.kind is not Kind.DOCUMENT and gap.kind is not Kind.UNREAD_PAGE:
            return GapEvent.CONFIRMED if _is_confirmed(gap, now_ns=now_ns) else GapEvent.FAILED
        case Missing(GapReason.NOT_FOUND) if gap.kind is Kind.DOCUMENT and now_ns - gap.first_seen_ns < DOUBTED_FOR_NS:
            return GapEvent.FAILED
        case Missing() | Refused() | Malformed():
            may_die = gap.state not in {GapState.ABSENT, GapState.GONE}
            return GapEvent.GAVE_UP if may_die and gap.attempts >= ATTEMPTS_BEFORE_DEAD else GapEvent.FAILED
        case Found():
            return GapEvent.FOUND if gap.attempts >= LOOKS_AT_A_NEW_ID else GapEvent.FAILED
        case NotYet() | Pressure() | Trouble() | Deferred():
            return GapEvent.FAILED


def _is_gone(gap: Gap, reason: GapReason, listing: Listing) -> bool:
    """Whether a missing thing was deleted. "Gone" is enough; "not found" also needs a list that no longer shows it.

    Nothing can contradict a stray answer about a numbered item, so it needs as many answers as an absent one.
    """
    if gap.kind is Kind.UNREAD_PAGE:
        return False  # the entries of a page that a list does not show any more are somewhere else in it
    if listing is Listing.SHOWN_SINCE and gap.kind is Kind.DOCUMENT:  # nothing else is listed
        return False
    if gap.state is GapState.GONE or listing is Listing.VANISHED:
        return True
    return reason is GapReason.GONE and (gap.kind is Kind.DOCUMENT or gap.null_count >= LOOKS_AT_AN_OLD_ID)


def _is_confirmed(gap: Gap, *, now_ns: int) -> bool:
    if gap.near_newest:
        return gap.null_count >= LOOKS_AT_A_NEW_ID and now_ns - gap.first_seen_ns >= YOUNG_FOR_NS
    return gap.null_count >= LOOKS_AT_AN_OLD_ID
