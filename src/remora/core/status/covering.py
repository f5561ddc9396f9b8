"""How much of a source is here? Every id is counted in exactly one state; what was never requested is pending."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import GapState
from remora.core.reasons import GapFamily, GapReason
from remora.core.status.model import Covered, CoveredList, Unknown
from remora.core.status.snapshot import GapTally, LedgerFacts, SourceFacts

OPEN_STATES: Final = (GapState.OWED, GapState.LEASED)


def coverage_of(ledger: LedgerFacts, facts: SourceFacts | None) -> Covered | CoveredList | Unknown:
    """The coverage of a source, numbered or listed."""
    kind = Kind.ITEM if ledger.owed_details is None else Kind.DOCUMENT
    gaps = [tally for tally in ledger.gaps if tally.kind is kind]
    count = Tallies(
        owed=_count(gaps, OPEN_STATES),
        absent=_count(gaps, (GapState.ABSENT,)),
        gone=_count(gaps, (GapState.GONE,)),
        dead=_count(gaps, (GapState.DEAD,)),
        awaited=sum(tally.count for tally in gaps if _is_awaited(tally)),
        unconfirmed=sum(tally.count for tally in gaps if _is_unconfirmed(tally)),
    )
    if ledger.owed_details is not None:
        return _cover_list(ledger.documents, ledger.owed_details, count)
    known_ids = [known for known in (ledger.newest_id, facts.newest_id if facts else None) if known is not None]
    if ledger.coverage is None or not known_ids:
        return Unknown(no_newest_id(facts))
    return cover(ledger.coverage, first_id=ledger.first_id, newest_id=max(known_ids), count=count)


def no_newest_id(facts: SourceFacts | None) -> str:
    """Why no newest id is known: the source names none, or one that nothing confirms."""
    if facts is None or facts.newest_refused is None:
        return "the source has not reported its newest id yet"
    return unconfirmed(facts.newest_refused)


def unconfirmed(newest_id: int) -> str:
    """A newest id that the source reports and that nothing confirms."""
    return f"the source reports a newest id of {newest_id:,}, but no item near it can be read"


class Tallies(NamedTuple):
    """How many things are not settled, by state; `awaited` and `unconfirmed` are parts of `owed`."""

    owed: int = 0
    absent: int = 0
    gone: int = 0
    dead: int = 0
    awaited: int = 0
    unconfirmed: int = 0

    @property
    def unsettled(self) -> int:
        """All of them."""
        return self.owed + self.absent + self.gone + self.dead


def cover(coverage: Coverage, *, first_id: int, newest_id: int, count: Tallies) -> Covered | Unknown:
    """Every id from the first to the newest, counted in exactly one of six states.

    A gap may lie in a range that is not covered yet (a walk in progress). It counts as owed, and another id as pending,
    so that the settled count is never too high.
    """
    max_id = max(newest_id, coverage.ranges[-1].end if coverage.ranges else newest_id)
    if max_id < first_id:
        return Unknown(f"the newest id is {max_id:,}, before the first id {first_id:,}")
    wanted = IdRange(first_id, max_id)
    if count.unsettled > len(wanted):
        return Unknown("the ledger holds more gaps than the source has ids")
    settled = max(0, len(coverage.within(wanted)) - count.unsettled)
    frontier = coverage.frontier(first_id=first_id)
    return Covered(
        first_id=first_id,
        frontier=frontier,
        max_id=max_id,
        lag=max(0, max_id - frontier),
        settled=settled,
        pending=len(wanted) - settled - count.unsettled,
        owed=count.owed,
        absent=count.absent,
        gone=count.gone,
        dead=count.dead,
        awaited=min(count.awaited, count.owed),
        unconfirmed=min(count.unconfirmed, count.owed - min(count.awaited, count.owed)),
    )


def _cover_list(documents: int | None, pending: int, count: Tallies) -> CoveredList:
    """Every known document, counted in exactly one state. What was recorded between two counts is not settled yet."""
    settled = None if documents is None else max(0, documents - pending - count.unsettled)
    return CoveredList(
        settled=settled,
        pending=pending,
        owed=count.owed,
        absent=count.absent,
        gone=count.gone,
        dead=count.dead,
        listed=None if settled is None else settled + pending + count.owed + count.dead,
    )


def _is_awaited(tally: GapTally) -> bool:
    return tally.state in OPEN_STATES and tally.reason.family is GapFamily.YOUNG


def _is_unconfirmed(tally: GapTally) -> bool:
    """Whether the provider answered an old id with nothing, and will be asked again before that is believed."""
    return tally.kind is Kind.ITEM and tally.state in OPEN_STATES and tally.reason is GapReason.NOT_FOUND


def _count(gaps: Iterable[GapTally], states: tuple[GapState, ...]) -> int:
    return sum(tally.count for tally in gaps if tally.state in states)
