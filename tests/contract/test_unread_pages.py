"""Is a page that a walk left behind owed like an item, in every store?"""

from remora.contracts import Observation, Outcome, Store
from remora.core.item import Page
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, FromGap, Kind
from remora.core.ledger.gap import ATTEMPTS_BEFORE_DEAD, GapState
from remora.core.reasons import GapReason
from remora.core.units import HOUR_NS
from remora.core.verdict import Deferred, Found, Missing, Refused, Trouble, Verdict
from tests.contract.answers import ARCHIVE, at

KEY = "0123456789abcdef"
FAULT = Trouble(GapReason.SERVER_ERROR)
READ = Found(Page(entries=(), next_position=None))


async def answered(store: Store, verdict: Verdict, *, at_s: float, owner: str | None = None) -> Outcome:
    origin = None if owner is None else FromGap(owner, GapReason.SERVER_ERROR)
    discovery = Discovery(Kind.UNREAD_PAGE, KEY, Lane.RECOVER, origin)
    return await store.record(ARCHIVE, Observation(discovery, verdict, at(at_s), at(at_s)))


async def test_it_is_a_gap_with_reason_attempts_and_a_next_time_beside_the_rest_of_the_list(store: Store) -> None:
    backlog = Discovery(Kind.PAGE, "backlog", Lane.WALK)
    await store.record(ARCHIVE, Observation(backlog, Deferred(GapReason.MAX_FETCHES), at(0), at(0)))
    assert await answered(store, FAULT, at_s=0) is Outcome.OWED
    assert await answered(store, FAULT, at_s=60) is Outcome.OWED
    gaps = {gap.kind: gap for gap in await store.gaps(ARCHIVE)}
    page = gaps[Kind.UNREAD_PAGE]
    assert (page.key, page.state, page.reason, page.attempts) == (KEY, GapState.OWED, GapReason.SERVER_ERROR, 2)
    assert (page.first_seen_ns, page.not_before_ns) == (at(0), at(60 + 30))
    assert {count.kind: count.count for count in await store.gap_counts(ARCHIVE)} == {
        Kind.PAGE: 1,
        Kind.UNREAD_PAGE: 1,
    }


async def test_it_is_leased_when_it_is_due_and_settled_when_it_is_read(store: Store) -> None:
    await answered(store, FAULT, at_s=0)
    assert await store.lease_gaps(ARCHIVE, owner="one", limit=9, lease_ns=HOUR_NS, now_ns=at(1)) == ()
    (leased,) = await store.lease_gaps(ARCHIVE, owner="one", limit=9, lease_ns=HOUR_NS, now_ns=at(5))
    assert (leased.kind, leased.key) == (Kind.UNREAD_PAGE, KEY)
    assert await answered(store, READ, at_s=6, owner="one") is Outcome.UNCHANGED
    assert await store.gap_counts(ARCHIVE) == ()
    assert await store.count_owed_details(ARCHIVE) == 0


async def test_a_page_that_is_missing_or_refused_is_never_absent_or_gone_but_dead_in_the_end(store: Store) -> None:
    for verdict in (Missing(GapReason.NOT_FOUND), Missing(GapReason.GONE), Refused(GapReason.FORBIDDEN)):
        for attempt in range(1, ATTEMPTS_BEFORE_DEAD):
            assert await answered(store, verdict, at_s=attempt) is Outcome.OWED
        assert await answered(store, verdict, at_s=10) is Outcome.DEAD
        assert await answered(store, READ, at_s=11) is Outcome.UNCHANGED


async def test_a_replay_makes_it_due_at_once(store: Store) -> None:
    await answered(store, FAULT, at_s=0)
    assert await store.replay_gaps(ARCHIVE, now_ns=at(1)) == 1
    (leased,) = await store.lease_gaps(ARCHIVE, owner="one", limit=9, lease_ns=HOUR_NS, now_ns=at(1))
    assert leased.kind is Kind.UNREAD_PAGE


async def test_it_is_found_by_its_kind_behind_any_number_of_older_gaps(store: Store) -> None:
    for number in range(3):
        document = Discovery(Kind.DOCUMENT, f"c{number}", Lane.DETAIL)
        await store.record(ARCHIVE, Observation(document, FAULT, at(0), at(0)))
    await answered(store, FAULT, at_s=60)
    (page,) = await store.gaps(ARCHIVE, kind=Kind.UNREAD_PAGE, limit=1)
    assert page.key == KEY
    await answered(store, READ, at_s=61)
    assert await store.gaps(ARCHIVE, kind=Kind.UNREAD_PAGE) == ()
    (settled,) = await store.gaps(ARCHIVE, kind=Kind.UNREAD_PAGE, state=GapState.SETTLED)
    assert settled.key == KEY
