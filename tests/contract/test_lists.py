"""Is every listed entry owed until its detail is held, and does the walk move only with its page?"""

import asyncio
from dataclasses import replace

import pytest

from remora.contracts import Observation, Outcome, OwedDetail, RunRecord, Store, WalkState
from remora.core.item import Document, Entry
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, FromGap, Kind, fingerprint
from remora.core.ledger.gap import GapState
from remora.core.units import SECOND_NS
from remora.core.verdict import Found
from remora.stores import common
from remora.stores.decisions import RUNS_KEPT
from tests.contract.answers import ARCHIVE, MISSING, TIMEOUT, at, keys, record_document

WALKING = WalkState(watermark="1", walking_from="9", seen_down_to="5", position="100")


async def page(store: Store, *entries: tuple[str, str | None], at_s: float = 0, state: WalkState = WALKING) -> int:
    listed = [Entry(key, mark) for key, mark in entries]
    return (await store.record_page(ARCHIVE, listed, state, now_ns=at(at_s))).owed


async def owed(store: Store) -> list[str]:
    details = [detail.key for detail in await store.owed_details(ARCHIVE, limit=100)]
    assert await store.count_owed_details(ARCHIVE) == len(details)
    return details


def document(key: str, *, mark: str | None = None, text: str = "hello") -> Document:
    return Document(key, f'{{"id":"{key}","text":"{text}"}}'.encode(), mark)


async def test_a_page_owes_its_entries_and_moves_the_walk(store: Store) -> None:
    assert await store.walk_state(ARCHIVE) == WalkState()
    assert await page(store, ("a", "3"), ("b", "2")) == 2
    assert await store.walk_state(ARCHIVE) == WALKING
    assert await store.owed_details(ARCHIVE, limit=10) == (OwedDetail("a", "3"), OwedDetail("b", "2"))


async def test_a_page_can_be_recorded_again_without_owing_more(store: Store) -> None:
    await page(store, ("a", "3"), ("b", "2"))
    assert await page(store, ("a", "3"), ("b", "2")) == 0
    assert await owed(store) == ["a", "b"]


async def test_entries_whose_marks_were_forgotten_are_owed_again_and_the_next_walk_reads_everything(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "MARKS_AT_ONCE", 2)  # four documents take two steps
    await page(store, ("a", "3"), ("b", "2"), ("c", None), ("d", "3"))
    for key in ("a", "b", "c", "d"):
        await record_document(store, key, document(key, mark="3"), at_s=1)
    await store.keep_note(ARCHIVE, "entry_mark one", "3")
    await store.keep_note(ARCHIVE, "entry_mark", "3")
    await store.keep_note(ARCHIVE, "full_walk", 7)
    await store.keep_note("other", "entry_mark one", "3")
    await store.forget_marks(ARCHIVE)
    assert await store.walk_state(ARCHIVE) == WalkState(walk=WALKING.walk)
    assert await store.note(ARCHIVE, "entry_mark one") is None
    assert await store.note(ARCHIVE, "full_walk") == 7
    assert await store.note("other", "entry_mark one") == "3"
    assert await owed(store) == []
    assert await page(store, ("a", "1"), ("c", None), ("d", "1"), at_s=2) == 2
    assert await owed(store) == ["a", "d"]


async def test_details_that_are_owed_anew_are_those_of_entries_that_are_still_listed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "MARKS_AT_ONCE", 2)
    await page(store, ("a", "3"), ("b", "2"), ("c", None), ("d", "3"))
    for key in ("a", "b", "c", "d"):
        await record_document(store, key, document(key, mark="3"), at_s=1)
    await store.record_vanished(ARCHIVE, ["b"], now_ns=at(2))
    for source in (ARCHIVE, "other"):
        await store.keep_note(source, "piece of one 0", "3")
    await store.owe_details(ARCHIVE)
    assert sorted(await owed(store)) == ["a", "c", "d"]
    assert await store.walk_state(ARCHIVE) == WALKING
    assert (await store.note(ARCHIVE, "piece of one 0"), await store.note("other", "piece of one 0")) == (None, "3")
    await record_document(store, "a", document("a", mark="3"), at_s=3)
    assert sorted(await owed(store)) == ["c", "d"]


async def test_every_known_document_is_counted_once_fetched_or_not(store: Store) -> None:
    assert await store.count_documents(ARCHIVE) == 0
    await page(store, ("a", "3"), ("b", "2"), ("c", "1"))
    await record_document(store, "a", document("a", mark="3"), at_s=1)
    await record_document(store, "b", TIMEOUT, at_s=1)
    await page(store, ("a", "4"), at_s=2)
    assert await store.count_documents(ARCHIVE) == 3
    assert await store.count_documents("other") == 0


async def test_an_empty_page_moves_the_walk(store: Store) -> None:
    assert await page(store) == 0
    assert await store.walk_state(ARCHIVE) == WALKING


async def test_a_newer_mark_owes_a_held_document_again_and_the_same_or_an_older_one_does_not(store: Store) -> None:
    await page(store, ("a", "9"), at_s=0)
    await record_document(store, "a", document("a", mark="9"), at_s=1)
    assert await owed(store) == []
    assert await page(store, ("a", "9"), at_s=2) == 0
    assert await page(store, ("a", "8"), at_s=2) == 0
    assert await page(store, ("a", None), at_s=2) == 0
    assert await owed(store) == []
    assert await page(store, ("a", "10"), at_s=3) == 1
    assert await owed(store) == ["a"]


async def test_an_entry_without_a_mark_is_owed_once(store: Store) -> None:
    assert await page(store, ("a", None)) == 1
    await record_document(store, "a", document("a"), at_s=1)
    assert await page(store, ("a", None), at_s=2) == 0
    assert await page(store, ("a", "1"), at_s=3) == 1


async def test_an_entry_that_stands_twice_on_a_page_is_owed_once_with_its_newest_mark(store: Store) -> None:
    assert await page(store, ("a", "9"), ("b", "5"), ("a", "10")) == 2
    assert await store.owed_details(ARCHIVE, limit=10) == (OwedDetail("a", "10"), OwedDetail("b", "5"))


async def test_details_are_owed_newest_mark_first_by_number_and_by_date(store: Store) -> None:
    await page(store, ("a", "9"), ("b", "10"), ("c", "9.5"), ("d", None))
    assert await owed(store) == ["b", "c", "a", "d"]
    assert [detail.key for detail in await store.owed_details(ARCHIVE, limit=2)] == ["b", "c"]


async def test_dates_in_different_zones_are_ordered_by_their_moment(store: Store) -> None:
    await page(store, ("a", "2026-01-01T12:00:00+02:00"), ("b", "2026-01-01T11:00:00Z"))
    assert await owed(store) == ["b", "a"]


async def test_a_found_document_is_held_and_no_longer_owed(store: Store) -> None:
    await page(store, ("a", "3"))
    held = await store.document(ARCHIVE, "a")
    assert held is not None
    assert (held.body, held.fetched_ns, held.updated_at) == (None, None, "3")
    assert await record_document(store, "a", document("a", mark="3"), at_s=5) is Outcome.NEW
    held = await store.document(ARCHIVE, "a")
    assert held is not None
    assert (held.body, held.fetched_ns, held.updated_at) == (document("a").body, at(5), "3")
    assert held.fingerprint == fingerprint(ARCHIVE, "a")
    assert await owed(store) == []


async def test_a_document_without_a_mark_of_its_own_takes_the_listed_one(store: Store) -> None:
    await page(store, ("a", "3"))
    await record_document(store, "a", document("a"), at_s=5)
    held = await store.document(ARCHIVE, "a")
    assert held is not None
    assert held.updated_at == "3"


async def test_a_document_is_unchanged_changed_or_stale_like_an_item(store: Store) -> None:
    await page(store, ("a", "3"))
    await record_document(store, "a", document("a"), at_s=5)
    before = await store.document(ARCHIVE, "a")
    assert before is not None
    assert await record_document(store, "a", document("a"), at_s=6) is Outcome.UNCHANGED
    assert await store.document(ARCHIVE, "a") == replace(before, fetched_ns=at(6))
    assert await record_document(store, "a", document("a", text="new"), at_s=7) is Outcome.CHANGED
    assert await record_document(store, "a", document("a", text="newer"), at_s=8) is Outcome.CHANGED
    asked = Discovery(Kind.DOCUMENT, "a", Lane.DETAIL)
    late = Observation(asked, Found(document("a", text="old")), at(7.5), at(9))
    assert await store.record(ARCHIVE, late) is Outcome.STALE
    held = await store.document(ARCHIVE, "a")
    assert held is not None
    assert held.body == document("a", text="newer").body


async def test_an_unchanged_document_is_no_longer_owed(store: Store) -> None:
    await page(store, ("a", "3"), at_s=0)
    await record_document(store, "a", document("a"), at_s=1)
    await page(store, ("a", "4"), at_s=2)
    assert await record_document(store, "a", document("a"), at_s=3) is Outcome.UNCHANGED
    assert await owed(store) == []


async def test_an_entry_listed_anew_during_its_fetch_stays_owed(store: Store) -> None:
    await page(store, ("a", "3"), at_s=0)
    await page(store, ("a", "4"), at_s=10)
    await record_document(store, "a", document("a", mark="3"), at_s=5)
    assert await owed(store) == ["a"]
    await record_document(store, "a", document("a", mark="4", text="new"), at_s=11)
    assert await owed(store) == []


async def test_a_fetch_that_already_brought_the_listed_mark_settles_it(store: Store) -> None:
    await page(store, ("a", "3"), at_s=0)
    await page(store, ("a", "4"), at_s=10)
    await record_document(store, "a", document("a", mark="4"), at_s=5)
    assert await owed(store) == []


async def test_a_detail_that_lags_behind_its_list_is_not_asked_for_ever(store: Store) -> None:
    await page(store, ("a", "9"), at_s=0)
    await record_document(store, "a", document("a", mark="8"), at_s=5)
    assert await owed(store) == []


async def test_a_failed_detail_becomes_a_gap_named_by_fingerprint_and_leaves_the_owed_details(store: Store) -> None:
    await page(store, ("secret title", "3"), ("b", "2"))
    assert await record_document(store, "secret title", TIMEOUT, at_s=1) is Outcome.OWED
    (gap,) = await store.gaps(ARCHIVE)
    assert (gap.kind, gap.key) == (Kind.DOCUMENT, fingerprint(ARCHIVE, "secret title"))
    assert await store.key_of(ARCHIVE, gap.key) == "secret title"
    assert await owed(store) == ["b"]


async def test_a_leased_document_gap_is_settled_by_its_find(store: Store) -> None:
    await page(store, ("a", "3"))
    await record_document(store, "a", TIMEOUT, at_s=1)
    leased = await store.lease_gaps(ARCHIVE, owner="one", limit=9, lease_ns=SECOND_NS, now_ns=at(100))
    assert keys(leased) == [fingerprint(ARCHIVE, "a")]
    await record_document(store, "a", document("a"), at_s=100, origin=FromGap("one"))
    assert await store.gaps(ARCHIVE) == ()
    assert await owed(store) == []


async def test_a_settled_gap_does_not_hide_a_newer_entry(store: Store) -> None:
    await page(store, ("a", "3"))
    await record_document(store, "a", TIMEOUT, at_s=1)
    await record_document(store, "a", document("a"), at_s=2)
    assert await page(store, ("a", "4"), at_s=3) == 1
    assert await owed(store) == ["a"]


async def test_a_missing_document_that_its_list_still_shows_dies_and_is_never_absent(store: Store) -> None:
    await page(store, ("a", "3"))
    outcomes = [await record_document(store, "a", MISSING, at_s=1 + 86_400 * day) for day in range(6)]
    assert outcomes == [Outcome.OWED] * 5 + [Outcome.DEAD]
    assert [gap.state for gap in await store.gaps(ARCHIVE)] == [GapState.DEAD]


async def test_a_document_that_was_never_listed_can_be_found_behind_its_gap(store: Store) -> None:
    await record_document(store, "stray", TIMEOUT, at_s=1)
    assert await store.key_of(ARCHIVE, fingerprint(ARCHIVE, "stray")) == "stray"
    assert await store.key_of(ARCHIVE, "0" * 16) is None
    assert await store.key_of("other", fingerprint(ARCHIVE, "stray")) is None


async def test_documents_with_a_body_come_by_key(store: Store) -> None:
    await page(store, ("c", "1"), ("a", "2"), ("b", "3"))
    for key in ("c", "a"):
        await record_document(store, key, document(key), at_s=1)
    assert [held.key async for held in store.documents(ARCHIVE)] == ["a", "c"]
    assert [held.key async for held in store.documents("other")] == []
    assert await store.document(ARCHIVE, "none") is None


@pytest.mark.slow
async def test_many_documents_are_paged_without_loss(store: Store) -> None:
    names = [f"{number:05}" for number in range(1_001)]
    await asyncio.gather(*(record_document(store, key, document(key), at_s=1) for key in names))
    assert [held.key async for held in store.documents(ARCHIVE)] == names


async def test_the_same_key_of_two_sources_is_two_documents(store: Store) -> None:
    await page(store, ("a", "3"))
    await store.record_page("other", [Entry("a", "5")], WalkState(), now_ns=at(0))
    await record_document(store, "a", document("a"), at_s=1)
    assert await store.count_owed_details("other") == 1
    assert (await store.walk_state("other"), await store.walk_state(ARCHIVE)) == (WalkState(), WALKING)


async def test_the_last_page_finishes_the_walk_in_the_same_step(store: Store) -> None:
    await page(store, ("a", "9"))
    assert await page(store, ("b", "5"), state=WalkState(watermark="9")) == 1
    assert await store.walk_state(ARCHIVE) == WalkState(watermark="9")
    assert await owed(store) == ["a", "b"]


@pytest.mark.slow
async def test_of_many_runs_the_latest_of_each_source_are_remembered(store: Store) -> None:
    other = await store.start_run("other", now_ns=at(1))
    started = [await store.start_run(ARCHIVE, now_ns=at(1)) for _ in range(RUNS_KEPT + 3)]
    await store.end_run(ARCHIVE, RunRecord(started[0], at(1), at(4), "complete", {}))  # it is forgotten already
    remembered = [run.run_id for run in await store.runs(ARCHIVE, limit=2 * RUNS_KEPT)]
    assert remembered == started[:2:-1]
    assert [run.run_id for run in await store.runs("other")] == [other]


async def test_runs_are_kept_with_why_they_ended_newest_first(store: Store) -> None:
    first = await store.start_run(ARCHIVE, now_ns=at(1))
    second = await store.start_run(ARCHIVE, now_ns=at(5))
    await store.end_run(ARCHIVE, RunRecord(first, at(1), at(4), "max_fetches", {"found": 3}))
    assert await store.runs(ARCHIVE) == (
        RunRecord(second, at(5)),
        RunRecord(first, at(1), at(4), "max_fetches", {"found": 3}),
    )
    assert [run.run_id for run in await store.runs(ARCHIVE, limit=1)] == [second]
    assert await store.runs("other") == ()
