"""What does an observation change in a store? The decisions that are the same in every store, without any I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from remora.contracts import Observation, Outcome
from remora.core.item import Document, Entry, Item, Thing, User
from remora.core.ledger import gap as gaps
from remora.core.ledger import marks
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Discovery, FromGap, Kind, fingerprint
from remora.core.ledger.gap import Gap, GapEvent, GapState, Listing
from remora.core.ledger.segment import SegmentKind
from remora.core.texts import storable
from remora.core.units import MINUTE_NS
from remora.core.verdict import Found, Verdict

HASH_BYTES: Final = 16
# A shorter body of an item is stored without hashes: the body itself is compared with the next one.
HASHED_FROM_BYTES: Final = 4_096
# If a fetch seems to have been sent further in the future than this, the clock has been set back since.
CLOCK_SLACK_NS: Final = MINUTE_NS
# How many recent departures are remembered exactly; more than can be in flight at once.
RECENT_FETCHES_MAX: Final = 20_000
# How many silent processes with the same role are remembered, on the same machine and on all: each container is a machine of
# its own. Those with a heartbeat in the last minute may be alive and are all kept.
HEARTBEATS_KEPT: Final = 20
HEARTBEATS_KEPT_OF_ALL: Final = 100
HEARTBEAT_ALIVE_NS: Final = MINUTE_NS
# How many runs over a list are remembered: about ten days of one every quarter of an hour.
RUNS_KEPT: Final = 1_000
# How many old rows of the ledger one transaction deletes at most: the writer waits for it.
FORGOTTEN_AT_ONCE: Final = 10_000
# What the change feed says of a document that the list shows again.
LISTED_AGAIN: Final = "listed"
INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1

# Called after each durable batch with the seconds it took.
OnBatch = Callable[[float], None]

OUTCOME_OF_GAP: Final = {
    GapState.OWED: Outcome.OWED,
    GapState.ABSENT: Outcome.ABSENT,
    GapState.GONE: Outcome.GONE,
    GapState.DEAD: Outcome.DEAD,
}


class Held(msgspec.Struct, frozen=True, gc=False):
    """What must be known about a stored thing to judge the next observation of it."""

    hash: bytes  # empty for a short item: `body` is compared instead
    content_hash: bytes  # empty also where the content can be found in `body`
    revision: int
    fetched_ns: int  # departure of the newest fetch known to have confirmed or changed it
    body: bytes = b""  # what is stored, where `hash` is empty


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What to do: write `held` and the observed thing when the outcome is new or changed, and `gap` when there is one."""

    outcome: Outcome
    held: Held | None = None
    keeps_earlier: bool = False  # the content changed: the stored content becomes a revision
    gap: Gap | None = None


def gap_key(source: str, discovery: Discovery) -> str:
    """The key of a thing in the gap ledger. Documents are named by their fingerprint only."""
    kind = discovery.kind
    if kind is Kind.DOCUMENT:
        return fingerprint(source, discovery.key)
    # A page is never stored, but the rest of a list after a run is owed as one gap, and an unread page as one of its own.
    assert kind is not Kind.NEWEST, f"a {kind} is never recorded"
    return discovery.key


def decide(
    observation: Observation,
    *,
    gap_key: str,
    held: Held | None,
    gap: Gap | None,
    listing: Listing = Listing.UNKNOWN,
    clocks_differ_ns: int = 0,
) -> Decision:
    """The one decision behind `record`: outcome, revision and gap, from what is stored and what was observed.

    `listing` is what its list says about a document. `clocks_differ_ns` is how far the clocks of the processes on this
    store may differ.
    """
    if held is not None and is_stale(observation, held.fetched_ns, clocks_differ_ns=clocks_differ_ns):
        return Decision(Outcome.STALE, held, gap=_given_back(gap, observation.discovery))
    kind, verdict = observation.discovery.kind, observation.verdict
    moved = None
    if gap is not None or gaps.owed_reason(verdict) is not None:
        moved = gaps.after(gap, verdict, kind=kind, key=gap_key, now_ns=observation.now_ns, listing=listing)
    if not isinstance(verdict, Found):
        assert moved is not None, "a failure always leaves a gap"
        return Decision(OUTCOME_OF_GAP[moved.state], held, gap=moved)
    if gap is not None and gap.state is GapState.SETTLED and moved is not None and moved.state is GapState.SETTLED:
        moved = None  # a settled gap stays settled: no row changes
    if kind is Kind.PAGE or kind is Kind.UNREAD_PAGE:
        return Decision(Outcome.UNCHANGED, gap=moved)
    return _found(_checked(verdict.thing, kind), observation.started_at_ns, held, moved)


def is_stale(observation: Observation, fetched_ns: int, *, clocks_differ_ns: int) -> bool:
    """Whether a newer fetch was recorded first. A departure in the future only proves that the clock was set back."""
    return observation.started_at_ns < fetched_ns <= observation.now_ns + clocks_differ_ns


def _found(thing: Item | User | Document, started_at_ns: int, held: Held | None, gap: Gap | None) -> Decision:
    if held is None:
        return Decision(Outcome.NEW, Held(*_hashes(thing), 1, started_at_ns, thing.body), False, gap)
    is_same = digest(thing.body) == held.hash if held.hash else thing.body == held.body
    if is_same:
        # This also holds after the clock was set back: the newest fetch is the one recorded last.
        confirmed = Held(held.hash, held.content_hash, held.revision, started_at_ns, held.body)
        return Decision(Outcome.UNCHANGED, confirmed, False, gap)
    keeps = _has_new_content(thing, held)
    after = Held(*_hashes(thing), held.revision + int(keeps), started_at_ns, thing.body)
    return Decision(Outcome.CHANGED, after, keeps, gap)


def _has_new_content(thing: Item | User | Document, held: Held) -> bool:
    """Whether another body has other content. What cannot be compared differs: one revision too many loses nothing."""
    if not isinstance(thing, Item):
        return isinstance(thing, Document)  # all of a document counts; profiles have no revisions
    content = thing.content_in(thing.body)
    if held.content_hash:
        return content is None or digest(content) != held.content_hash
    # Both are read in the same way, so a later version that calls something else the content makes no revisions.
    earlier = thing.content_in(held.body)
    return earlier is None or earlier != content


def _hashes(thing: Item | User | Document) -> tuple[bytes, bytes]:
    """What is stored to recognize this body, and its content."""
    if not isinstance(thing, Item):
        body_hash = digest(thing.body)
        return body_hash, body_hash if isinstance(thing, Document) else b""
    if len(thing.body) < HASHED_FROM_BYTES:
        return b"", b"" if thing.content_of is not None else digest(thing.content)
    return digest(thing.body), digest(thing.content_in(thing.body) or b"")


def settled_item(verdict: Verdict) -> Item | None:
    """The item that was found, if nothing of it stays owed."""
    if isinstance(verdict, Found) and isinstance(verdict.thing, Item) and not verdict.thing.delayed:
        return verdict.thing
    return None


def new_item(item: Item, *, started_at_ns: int) -> Held:
    """What is held of a settled item that was never seen nor owed before: `decide` says the same, and `NEW`."""
    return Held(*_hashes(item), 1, started_at_ns, item.body)


def _checked(thing: Thing, kind: Kind) -> Item | User | Document:
    if isinstance(thing, Item) and kind is Kind.ITEM:
        return thing
    if isinstance(thing, User) and kind is Kind.USER:
        return thing
    if isinstance(thing, Document) and kind is Kind.DOCUMENT:
        return thing
    raise AssertionError(f"a {type(thing).__name__} was recorded for a {kind}")


def _given_back(gap: Gap | None, discovery: Discovery) -> Gap | None:
    """A stale answer says nothing about a gap, but its lease ends."""
    if gap is None or gap.state is not GapState.LEASED or not isinstance(discovery.origin, FromGap):
        return None
    return gaps.moved(gap, GapEvent.RELEASE)


def digest(body: bytes) -> bytes:
    """A hash that shows whether a body changed."""
    return blake2b(body, digest_size=HASH_BYTES).digest()


class RecentFetches:
    """The exact departures of one source's recent fetches, including those that changed no row. Bounded.

    Keys are plain strings: this runs for every item, and hashing an enum member is slow.
    """

    def __init__(self, *, most: int = RECENT_FETCHES_MAX) -> None:
        self._half = most // 2
        # Two generations: the older one is dropped as a whole, which costs nothing per fetch.
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}

    def of(self, name: str) -> int | None:
        """When the newest recorded fetch of this thing was sent; None if it is not remembered."""
        departed_ns = self._young.get(name)
        return self._old.get(name) if departed_ns is None else departed_ns

    def remember(self, departed_ns: Mapping[str, int]) -> None:
        """Remember these fetches, which are durable now."""
        if len(self._young) >= self._half:
            self._young, self._old = {}, self._young
        self._young.update(departed_ns)


def unplanned(pieces: Iterable[IdRange], unfinished: Iterable[IdRange]) -> list[IdRange]:
    """The parts of `pieces` that are in no unfinished segment's remaining ids, each id once, in the order of the pieces.

    One walk over both: after an import there may be a hundred thousand pieces.
    """
    taken = Coverage.of(unfinished).ranges
    added: list[tuple[int, IdRange]] = []
    index = next_id = 0
    for order, piece in sorted(enumerate(pieces), key=lambda numbered: numbered[1].start):
        next_id = max(next_id, piece.start)
        while index < len(taken) and taken[index].start <= piece.end:
            if taken[index].start > next_id:
                added.append((order, IdRange(next_id, taken[index].start - 1)))
            next_id = max(next_id, taken[index].end + 1)
            index += 1
        if next_id <= piece.end:
            added.append((order, IdRange(next_id, piece.end)))
            next_id = piece.end + 1
    return [hole for _, hole in sorted(added, key=lambda numbered: numbered[0])]


def adds_coverage(kind: SegmentKind) -> bool:
    """Whether walking a segment of this kind adds coverage. A rescan reads ids that are already covered."""
    match kind:
        case SegmentKind.BACKFILL | SegmentKind.BLIND_WINDOW | SegmentKind.REPLAY:
            return True
        case SegmentKind.RESCAN:
            return False


def is_lease_over(lease_until_ns: int, *, lease_ns: int, now_ns: int) -> bool:
    """Whether a lease has ended. One that ends later than a new lease would counts, too: the clock was set back."""
    return lease_until_ns <= now_ns or lease_until_ns > now_ns + lease_ns + CLOCK_SLACK_NS


def alike(runtime: str) -> tuple[tuple[str, str, int], tuple[str, str, int]]:
    """The names of processes with the same role, on the same machine and on all: a range, end excluded, and how many are kept.

    A name ends with the machine and the process id, each after a colon.
    """
    machine = runtime.rpartition(":")[0]
    role = machine.rpartition(":")[0]
    return (f"{machine}:", f"{machine};", HEARTBEATS_KEPT), (f"{role}:", f"{role};", HEARTBEATS_KEPT_OF_ALL)


def is_durable(results: Sequence[object]) -> bool:
    """Whether anything in a batch was committed, judging by its results."""
    return not all(isinstance(result, Exception) for result in results)


def is_newly_gone(decision: Decision, gap: Gap | None) -> bool:
    """Whether this answer is the first to say that a thing was deleted upstream."""
    return decision.outcome is Outcome.GONE and (gap is None or gap.state is not GapState.GONE)


def is_back(decision: Decision, gap: Gap | None) -> bool:
    """Whether a thing is there again as it was, after the provider called it missing. Readers may know it as gone."""
    was_missing = gap is not None and gap.state is not GapState.SETTLED and gap.null_count > 0
    return was_missing and decision.held is not None and decision.outcome is Outcome.UNCHANGED


class Known(NamedTuple):
    """What a store knows about a listed entry when a page shows it again."""

    mark: str | None
    has_vanished: bool
    is_gone: bool


def is_owed_anew(entry: Entry, known: Known | None) -> bool:
    """Whether this entry's detail becomes owed: it is new, newer, back after it was gone, or has no mark to compare.

    A provider may begin to write its marks in another way, or use texts that do not sort. Then nobody knows whether the
    entry is newer.
    """
    if known is None or marks.may_be_newer(entry.updated_at, known.mark):
        return True
    return known.has_vanished and (known.is_gone or entry.updated_at is None)


def has_returned(entry: Entry, known: Mapping[str, Known]) -> bool:
    """Whether the list shows an entry again that it had stopped to show."""
    return entry.key in known and known[entry.key].has_vanished


def listing_of(*, listed_ns: int | None, vanished_ns: int | None, started_at_ns: int) -> Listing:
    """What a document's list says about it when the answer to a request sent at `started_at_ns` is recorded."""
    if vanished_ns is not None:
        return Listing.VANISHED
    return Listing.SHOWN_SINCE if listed_ns is not None and listed_ns > started_at_ns else Listing.UNKNOWN


def is_still_owed(*, listed_mark: str | None, listed_ns: int | None, document: Document, started_at_ns: int) -> bool:
    """Whether a detail is still owed after this document: its entry was listed again after the fetch was sent.

    A document with the listed mark settles it anyway. A fetch sent later settles it whatever its mark is: a provider
    whose details always lag behind its list must not be asked for ever.
    """
    if listed_ns is None or listed_ns <= started_at_ns:
        return False
    return document.updated_at is None or marks.may_be_newer(listed_mark, document.updated_at)


def item_row(number: int, item: Item, held: Held, *, now: int, fetched: int) -> tuple[Any, ...]:
    """The columns of `stored_items` in their order; times are milliseconds."""
    time, parent, score, descendants = item.time, item.parent, item.score, item.descendants
    return (
        number,
        item.item_id,
        storable(item.type),
        storable(item.by),
        # As `clean_integer`, without a call for each: this runs for every item.
        time if time is None or INTEGER_MIN <= time <= INTEGER_MAX else None,
        parent if parent is None or INTEGER_MIN <= parent <= INTEGER_MAX else None,
        score if score is None or INTEGER_MIN <= score <= INTEGER_MAX else None,
        descendants if descendants is None or INTEGER_MIN <= descendants <= INTEGER_MAX else None,
        item.dead,
        item.deleted,
        now,
        fetched,
        now,
        held.revision,
        held.hash,
        held.content_hash,
        item.body,
    )


def clean_integer(number: int | None) -> int | None:
    """The number of a derived column, or None if it is too large for a database."""
    return number if number is None or INTEGER_MIN <= number <= INTEGER_MAX else None
