"""Is the rest of a list owed as one gap in every store, however often a run leaves one?"""

from remora.contracts import Observation, Outcome, Store
from remora.core.item import Page
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.gap import GapState
from remora.core.reasons import GapReason
from remora.core.units import HOUR_NS, SECOND_NS
from remora.core.verdict import Deferred, Found, Verdict
from tests.contract.answers import ARCHIVE, at

BACKLOG = Discovery(Kind.PAGE, "backlog", Lane.WALK)
NOTHING_LEFT = Found(Page(entries=(), next_position=None))
PRESSED = Deferred(GapReason.UPSTREAM_PRESSURE)
CAPPED = Deferred(GapReason.MAX_FETCHES)


async def leave(store: Store, verdict: Verdict, *, at_s: float) -> Outcome:
    return await store.record(ARCHIVE, Observation(BACKLOG, verdict, at(at_s), at(at_s)))


async def test_what_a_run_leaves_is_one_gap_that_is_counted_by_its_kind(store: Store) -> None:
    assert await leave(store, CAPPED, at_s=0) is Outcome.OWED
    assert await leave(store, CAPPED, at_s=10) is Outcome.OWED
    (count,) = await store.gap_counts(ARCHIVE)
    assert (count.kind, count.state, count.reason, count.count) == (
        Kind.PAGE,
        GapState.OWED,
        GapReason.MAX_FETCHES,
        1,
    )
    (gap,) = await store.gaps(ARCHIVE)
    assert (gap.kind, gap.key, gap.first_seen_ns) == (Kind.PAGE, "backlog", at(0))


async def test_a_stop_of_our_own_is_due_at_once_and_pressure_waits_longer_each_time(store: Store) -> None:
    await leave(store, CAPPED, at_s=0)
    (count,) = await store.gap_counts(ARCHIVE)
    assert count.next_ns == at(0)
    waits_s: list[float] = []
    for run in range(12):
        now_s = 100_000 * (run + 1)
        await leave(store, PRESSED, at_s=now_s)
        (count,) = await store.gap_counts(ARCHIVE)
        waits_s.append((count.next_ns - at(now_s)) / SECOND_NS)
    assert waits_s == sorted(waits_s)
    assert (waits_s[0], waits_s[-1]) == (30, 6 * HOUR_NS / SECOND_NS)


async def test_a_run_that_leaves_nothing_settles_it_and_the_next_rest_opens_it_again(store: Store) -> None:
    await leave(store, PRESSED, at_s=0)
    await leave(store, PRESSED, at_s=10)
    assert await leave(store, NOTHING_LEFT, at_s=20) is Outcome.UNCHANGED
    assert await store.gap_counts(ARCHIVE) == ()
    assert await leave(store, PRESSED, at_s=30) is Outcome.OWED
    (gap,) = await store.gaps(ARCHIVE)
    assert (gap.attempts, gap.not_before_ns) == (1, at(60))


async def test_it_is_no_document_and_owes_no_detail(store: Store) -> None:
    await leave(store, NOTHING_LEFT, at_s=0)
    await leave(store, PRESSED, at_s=1)
    assert await store.count_owed_details(ARCHIVE) == 0
    assert [document async for document in store.documents(ARCHIVE)] == []


async def test_a_leased_one_can_be_left_again(store: Store) -> None:
    await leave(store, CAPPED, at_s=0)
    await store.lease_gaps(ARCHIVE, owner="one", limit=1, lease_ns=HOUR_NS, now_ns=at(1))
    assert await leave(store, PRESSED, at_s=2) is Outcome.OWED
    (gap,) = await store.gaps(ARCHIVE)
    assert (gap.state, gap.reason) == (GapState.OWED, GapReason.UPSTREAM_PRESSURE)


async def test_a_replay_of_everything_does_not_end_its_cool_down(store: Store) -> None:
    await leave(store, PRESSED, at_s=0)
    assert await store.replay_gaps(ARCHIVE, now_ns=at(1)) == 0
    (gap,) = await store.gaps(ARCHIVE)
    assert gap.not_before_ns == at(30)
