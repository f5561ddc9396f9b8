"""What does an observation do to what a store holds? The decisions that are the same in every store, without any I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from remora.contracts import Observation, Outcome
from remora.core.item import Document, Entry, Item, Thing, User
from remora.core.ledger import gap as gaps
from remora.core.ledger import marks
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Discovery, FromGap, Kind, fingerprint
from remora.core.ledger.gap import Gap, GapEvent, GapState, Listing
from remora.core.ledger.segment import SegmentKind
from remora.core.units import MINUTE_NS
from remora.core.verdict import Found

HASH_BYTES: Final = 16
# A fetch that seems to have left later than this from now was written by a clock that has since stepped back.
CLOCK_SLACK_NS: Final = MINUTE_NS
# Departures of recent fetches that are remembered exactly; more than can be in flight at once.
RECENT_FETCHES_MAX: Final = 20_000
# Of runtimes with the same role on the same machine: as many silent ones are remembered. One that beat within the last
# minute may be alive, however many they are.
HEARTBEATS_KEPT: Final = 20
HEARTBEAT_ALIVE_NS: Final = MINUTE_NS
INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1

# Told how many seconds it took, after each batch that became durable.
OnBatch = Callable[[float], None]

OUTCOME_OF_GAP: Final = {
    GapState.OWED: Outcome.OWED,
    GapState.ABSENT: Outcome.ABSENT,
    GapState.GONE: Outcome.GONE,
    GapState.DEAD: Outcome.DEAD,
}


class Held(NamedTuple):
    """What must be known of a stored thing to judge the next observation of it."""

    hash: bytes
    content_hash: bytes
    revision: int
    fetched_ns: int  # departure of the newest fetch that is known to have confirmed or brought it


class Decision(NamedTuple):
    """What to do: write `held` and the observed thing when the outcome is new or changed, and `gap` when there is one."""

    outcome: Outcome
    held: Held | None = None
    keeps_earlier: bool = False  # the content changed: what is stored now becomes an earlier revision
    gap: Gap | None = None


def gap_key(source: str, discovery: Discovery) -> str:
    """How the ledger of gaps names a thing: documents by fingerprint only."""
    kind = discovery.kind
    if kind is Kind.DOCUMENT:
        return fingerprint(source, discovery.key)
    # A page is never kept, but what a run leaves of a list is owed as one gap.
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
    """The one decision behind `record`: outcome, revision and gap, from what is held and what was observed.

    `listing` is what its list says about a document, `clocks_differ_ns` by how much the clocks of those who share the
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
        moved = None  # settled stays settled: no row changes
    if kind is Kind.PAGE:
        return Decision(Outcome.UNCHANGED, gap=moved)
    return _found(_checked(verdict.thing, kind), observation.started_at_ns, held, moved)


def is_stale(observation: Observation, fetched_ns: int, *, clocks_differ_ns: int) -> bool:
    """Whether a newer fetch was recorded first. A departure from the future proves only that the clock stepped back."""
    return observation.started_at_ns < fetched_ns <= observation.now_ns + clocks_differ_ns


def _found(thing: Item | User | Document, started_at_ns: int, held: Held | None, gap: Gap | None) -> Decision:
    body_hash = digest(thing.body)
    if held is not None and held.hash == body_hash:
        # In step with a clock that stepped back, too: the newest fetch is the one recorded last.
        confirmed = Held(body_hash, held.content_hash, held.revision, started_at_ns)
        return Decision(Outcome.UNCHANGED, confirmed, False, gap)
    content_hash = _content_hash(thing, body_hash)
    if held is None:
        return Decision(Outcome.NEW, Held(body_hash, content_hash, 1, started_at_ns), False, gap)
    keeps = held.content_hash != content_hash
    after = Held(body_hash, content_hash, held.revision + int(keeps), started_at_ns)
    return Decision(Outcome.CHANGED, after, keeps, gap)


def _content_hash(thing: Item | User | Document, body_hash: bytes) -> bytes:
    """What decides about revisions: a document is all content, and profiles have no revisions."""
    match thing:
        case Item(content=content):
            return digest(content)
        case Document():
            return body_hash
        case User():
            return b""


def _checked(thing: Thing, kind: Kind) -> Item | User | Document:
    if isinstance(thing, Item) and kind is Kind.ITEM:
        return thing
    if isinstance(thing, User) and kind is Kind.USER:
        return thing
    if isinstance(thing, Document) and kind is Kind.DOCUMENT:
        return thing
    raise AssertionError(f"a {type(thing).__name__} was recorded for a {kind}")


def _given_back(gap: Gap | None, discovery: Discovery) -> Gap | None:
    """A stale answer says nothing about a gap, but whoever served it is done with it."""
    if gap is None or gap.state is not GapState.LEASED or not isinstance(discovery.origin, FromGap):
        return None
    return gaps.moved(gap, GapEvent.RELEASE)


def digest(body: bytes) -> bytes:
    """What tells a changed body from an unchanged one."""
    return blake2b(body, digest_size=HASH_BYTES).digest()


class RecentFetches:
    """The exact departures of one source's recent fetches, also of those that changed no row. Bounded.

    Things go by plain text: this is asked for every item, and hashing an enumeration is slow.
    """

    def __init__(self, *, most: int = RECENT_FETCHES_MAX) -> None:
        self._half = most // 2
        # Two generations: the older one is forgotten as a whole, which costs nothing per fetch.
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}

    def of(self, name: str) -> int | None:
        """When the newest recorded fetch of this thing was sent, if it is remembered."""
        departed_ns = self._young.get(name)
        return self._old.get(name) if departed_ns is None else departed_ns

    def remember(self, departed_ns: Mapping[str, int]) -> None:
        """These fetches are durable."""
        if len(self._young) >= self._half:
            self._young, self._old = {}, self._young
        self._young.update(departed_ns)


def unplanned(pieces: Iterable[IdRange], unfinished: Iterable[IdRange]) -> list[IdRange]:
    """The parts of `pieces` that no unfinished segment still has to walk, nor an earlier piece."""
    taken = Coverage.of(unfinished)
    added: list[IdRange] = []
    for piece in pieces:
        holes = taken.uncovered(piece)
        added.extend(holes)
        for hole in holes:
            taken = taken.with_range(hole)
    return added


def adds_coverage(kind: SegmentKind) -> bool:
    """Whether walking a segment of this kind covers ids: a rescan looks again at what is covered already."""
    match kind:
        case SegmentKind.BACKFILL | SegmentKind.BLIND_WINDOW | SegmentKind.REPLAY:
            return True
        case SegmentKind.RESCAN:
            return False


def is_lease_over(lease_until_ns: int, *, lease_ns: int, now_ns: int) -> bool:
    """Whether a lease has ended. One that ends later than any given now was given by a clock that has stepped back."""
    return lease_until_ns <= now_ns or lease_until_ns > now_ns + lease_ns + CLOCK_SLACK_NS


def alike(runtime: str) -> tuple[str, str]:
    """Between which names, the second one excluded, the runtimes lie that are named alike up to the last colon."""
    family = runtime.rpartition(":")[0]
    return f"{family}:", f"{family};"


def is_durable(results: Sequence[object]) -> bool:
    """Whether anything of a batch was committed, by what its callers will be told."""
    return not all(isinstance(result, Exception) for result in results)


def newest_of_each(entries: Sequence[Entry]) -> list[Entry]:
    """One entry per key, with its newest mark, in the order of the page."""
    newest: dict[str, Entry] = {}
    for entry in entries:
        known = newest.get(entry.key)
        if known is None or marks.is_newer(entry.updated_at, known.updated_at):
            newest[entry.key] = entry
    return list(newest.values())


def is_newly_gone(decision: Decision, gap: Gap | None) -> bool:
    """Whether this answer tells for the first time that a thing was deleted upstream."""
    return decision.outcome is Outcome.GONE and (gap is None or gap.state is not GapState.GONE)


class Known(NamedTuple):
    """What a store knows of a listed entry when a page shows it again."""

    mark: str | None
    has_vanished: bool
    is_gone: bool


def is_owed_anew(entry: Entry, known: Known | None) -> bool:
    """Whether a page owes this entry's detail: it is new, newer, or back after it was gone or without a mark to compare."""
    if known is None or marks.is_newer(entry.updated_at, known.mark):
        return True
    return known.has_vanished and (known.is_gone or entry.updated_at is None)


def listing_of(*, listed_ns: int | None, vanished_ns: int | None, started_at_ns: int) -> Listing:
    """What a document's list says about it when an answer to a request that left at `started_at_ns` is recorded."""
    if vanished_ns is not None:
        return Listing.VANISHED
    return Listing.SHOWN_SINCE if listed_ns is not None and listed_ns > started_at_ns else Listing.UNKNOWN


def is_still_owed(*, listed_mark: str | None, listed_ns: int | None, document: Document, started_at_ns: int) -> bool:
    """Whether a detail is owed even after this document: its entry was listed anew after the fetch had left.

    A document that carries the listed mark settles it all the same. A fetch that left later settles it whatever mark
    it carries: a provider whose details always lag behind its list must not be asked for ever.
    """
    if listed_ns is None or listed_ns <= started_at_ns:
        return False
    return document.updated_at is None or marks.is_newer(listed_mark, document.updated_at)


def clean_text(text: str | None) -> str | None:
    """A derived column's text without what databases refuse: NUL, and halves of surrogate pairs. Bodies stay as they are."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def clean_integer(number: int | None) -> int | None:
    """A derived column's number, or None when it is absurd beyond what a database holds."""
    return number if number is not None and INTEGER_MIN <= number <= INTEGER_MAX else None
