"""Is a deleted document kept as gone, does a list that shows it again owe it again, and are earlier contents kept?"""

import pytest

from remora.contracts import Outcome, PageRecorded, Store, WalkState
from remora.core.item import Document, Entry
from remora.core.ledger.discovery import fingerprint
from remora.core.ledger.gap import GapState
from remora.core.reasons import GapReason
from remora.core.verdict import Missing
from tests.contract.answers import ARCHIVE, MISSING, REFUSED, SOURCE, TIMEOUT, at, record, record_document, story

GONE = Missing(GapReason.GONE)


async def page(store: Store, *entries: tuple[str, str | None], walk: int, at_s: float) -> int:
    listed = [Entry(key, mark) for key, mark in entries]
    return (await store.record_page(ARCHIVE, listed, WalkState(walk=walk), now_ns=at(at_s))).owed


def document(key: str, text: str = "hello", mark: str | None = None) -> Document:
    return Document(key, f'{{"id":"{key}","text":"{text}"}}'.encode(), mark)


async def owed(store: Store) -> list[str]:
    return [detail.key for detail in await store.owed_details(ARCHIVE, limit=100)]


async def states(store: Store) -> list[GapState]:
    return [gap.state for gap in await store.gaps(ARCHIVE)]


async def vanished(store: Store, *, walk: int, at_s: float, newer_than: str | None = None) -> int:
    missed = await store.unlisted(ARCHIVE, walk=walk, newer_than=newer_than, limit=100)
    return await store.record_vanished(ARCHIVE, missed, now_ns=at(at_s))


async def test_a_document_that_its_list_no_longer_shows_is_gone_when_its_detail_is_missing(store: Store) -> None:
    await page(store, ("a", "2"), ("b", "1"), walk=1, at_s=0)
    await record_document(store, "a", document("a"), at_s=1)
    assert await record_document(store, "b", MISSING, at_s=1) is Outcome.OWED
    await page(store, ("a", "2"), walk=2, at_s=2)
    assert await store.unlisted(ARCHIVE, walk=2, limit=9) == ["b"]
    assert await vanished(store, walk=2, at_s=3) == 1
    assert await vanished(store, walk=2, at_s=4) == 0
    assert await store.unlisted(ARCHIVE, walk=2, limit=9) == []
    assert await record_document(store, "b", MISSING, at_s=5) is Outcome.GONE
    held = await store.document(ARCHIVE, "b")
    assert held is not None
    assert (held.vanished_ns, held.owed, held.body) == (at(3), False, None)
    assert (await states(store), await owed(store)) == ([GapState.GONE], [])
    counts = [(count.state, count.count) for count in await store.gap_counts(ARCHIVE)]
    assert counts == [(GapState.GONE, 1)]


async def test_a_gone_document_keeps_its_last_content_and_is_never_leased(store: Store) -> None:
    await page(store, ("a", "2"), walk=1, at_s=0)
    await record_document(store, "a", document("a"), at_s=1)
    assert await record_document(store, "a", GONE, at_s=2) is Outcome.GONE
    held = await store.document(ARCHIVE, "a")
    assert held is not None
    assert (held.body, held.owed, held.vanished_ns) == (document("a").body, False, None)
    assert [one.key async for one in store.documents(ARCHIVE)] == ["a"]
    leased = await store.lease_gaps(ARCHIVE, owner="one", limit=9, lease_ns=10**9, now_ns=at(90 * 86_400))
    assert leased == ()


async def test_a_gone_document_that_is_listed_again_is_owed_again(store: Store) -> None:
    await page(store, ("a", "2"), walk=1, at_s=0)
    await vanished(store, walk=2, at_s=1)
    assert await record_document(store, "a", MISSING, at_s=2) is Outcome.GONE
    assert await page(store, ("a", "2"), walk=3, at_s=3) == 1
    assert (await owed(store), await states(store)) == (["a"], [])
    held = await store.document(ARCHIVE, "a")
    assert held is not None
    assert (held.vanished_ns, held.owed) == (None, True)
    assert await record_document(store, "a", document("a"), at_s=4) is Outcome.NEW
    assert (await owed(store), await states(store)) == ([], [])


async def test_a_gone_document_with_a_newer_mark_is_owed_again(store: Store) -> None:
    await page(store, ("a", "2"), walk=1, at_s=0)
    await record_document(store, "a", GONE, at_s=1)
    assert await page(store, ("a", "2"), walk=2, at_s=2) == 0
    assert await states(store) == [GapState.GONE]
    assert await page(store, ("a", "3"), walk=3, at_s=3) == 1
    assert (await owed(store), await states(store)) == (["a"], [])


async def test_a_held_document_that_is_back_in_the_list_is_fetched_again_only_if_it_may_have_changed(
    store: Store,
) -> None:
    await page(store, ("marked", "2"), ("plain", None), walk=1, at_s=0)
    for key in ("marked", "plain"):
        await record_document(store, key, document(key), at_s=1)
    assert await vanished(store, walk=2, at_s=2) == 2
    assert await owed(store) == []
    assert await page(store, ("marked", "2"), ("plain", None), walk=3, at_s=3) == 1
    assert await owed(store) == ["plain"]
    for key in ("marked", "plain"):
        held = await store.document(ARCHIVE, key)
        assert held is not None
        assert held.vanished_ns is None


async def test_an_answer_that_is_older_than_the_list_never_makes_a_document_gone(store: Store) -> None:
    await page(store, ("a", "2"), walk=1, at_s=0)
    await page(store, ("a", "3"), walk=2, at_s=10)
    assert await record_document(store, "a", GONE, at_s=5) is Outcome.OWED
    assert await record_document(store, "a", GONE, at_s=11) is Outcome.GONE


async def test_what_is_owed_of_a_vanished_document_is_due_at_once(store: Store) -> None:
    await page(store, ("a", "3"), ("b", "2"), ("c", "1"), walk=1, at_s=0)
    for attempt in range(6):
        await record_document(store, "a", REFUSED, at_s=1 + attempt)
    await record_document(store, "b", TIMEOUT, at_s=1)
    await page(store, ("c", "1"), walk=2, at_s=8)
    assert await vanished(store, walk=2, at_s=9) == 2
    leased = await store.lease_gaps(ARCHIVE, owner="one", limit=9, lease_ns=10**9, now_ns=at(9))
    assert {gap.key for gap in leased} == {fingerprint(ARCHIVE, key) for key in ("a", "b")}


@pytest.mark.parametrize("mark", ["1700000000", "1700000000123", "1700000000123456", "1700000000123456789"])
async def test_the_size_of_a_mark_tells_its_unit(store: Store, mark: str) -> None:
    await page(store, ("a", mark), walk=1, at_s=0)
    assert await store.is_listed_from(ARCHIVE, 1_700_000_000)
    assert not await store.is_listed_from(ARCHIVE, 1_700_000_001)


async def test_a_walk_that_went_no_further_judges_only_missing_details_above_its_end(store: Store) -> None:
    await page(store, *((key, str(mark)) for mark, key in enumerate("abcd", start=1)), walk=1, at_s=0)
    for key, answer in (("a", MISSING), ("b", MISSING), ("c", MISSING), ("d", TIMEOUT)):
        await record_document(store, key, answer, at_s=1)
    await page(store, ("c", "3"), walk=2, at_s=2)
    assert await vanished(store, walk=2, at_s=3, newer_than="1") == 1
    kept = {key: await store.document(ARCHIVE, key) for key in "abcd"}
    assert {key for key, one in kept.items() if one is not None and one.vanished_ns is not None} == {"b"}
    assert await vanished(store, walk=2, at_s=3, newer_than="no number and no date") == 0


async def test_a_mark_is_known_to_be_a_time_at_or_after_a_second(store: Store) -> None:
    marks = {"a": "100", "b": "1700000000123", "c": "2030-01-01T00:00:00Z", "d": "no time", "e": None}
    await page(store, *marks.items(), walk=1, at_s=0)
    seconds = (100, 1_700_000_000, 1_893_456_000, 1_893_456_001)
    assert [await store.is_listed_from(ARCHIVE, second) for second in seconds] == [True, True, True, False]
    await page(store, *((key, marks[key]) for key in "abde"), walk=2, at_s=1)
    assert await vanished(store, walk=2, at_s=2) == 1
    assert not await store.is_listed_from(ARCHIVE, 1_700_000_001)
    assert not await store.is_listed_from(SOURCE, 0)


async def test_the_number_of_a_walk_and_a_full_walk_that_is_not_judged_are_kept(store: Store) -> None:
    state = WalkState(watermark="9", walk=7, full_walk=7)
    await store.record_page(ARCHIVE, (), state, now_ns=at(0))
    assert await store.walk_state(ARCHIVE) == state


async def test_vanishing_stays_within_its_source(store: Store) -> None:
    await page(store, ("a", "1"), walk=1, at_s=0)
    assert await store.record_vanished("other", ["a"], now_ns=at(1)) == 0
    assert await store.unlisted("other", walk=9, limit=9) == []
    held = await store.document(ARCHIVE, "a")
    assert held is not None
    assert held.vanished_ns is None


async def test_a_changed_document_keeps_its_earlier_contents_like_an_item(store: Store) -> None:
    await page(store, ("a", "1"), walk=1, at_s=0)
    texts = ("first", "first", "second", "third")
    for number, text in enumerate(texts, start=1):
        await record_document(store, "a", document("a", text, mark=str(number)), at_s=number)
    held = await store.document(ARCHIVE, "a")
    assert held is not None
    assert (held.revision, held.first_seen_ns, held.changed_ns, held.fetched_ns) == (3, at(0), at(4), at(4))
    earlier = await store.document_revisions(ARCHIVE, "a")
    assert [(one.revision, one.body, one.updated_at) for one in earlier] == [
        (1, document("a", "first").body, "2"),
        (2, document("a", "second").body, "3"),
    ]
    assert [(one.changed_ns, one.fetched_ns, one.first_seen_ns) for one in earlier] == [
        (at(1), at(2), at(0)),
        (at(3), at(3), at(0)),
    ]
    assert await store.document_revisions(ARCHIVE, "none") == ()
    assert await store.document_revisions("other", "a") == ()


async def test_a_document_without_a_body_has_no_revision(store: Store) -> None:
    await page(store, ("a", "1"), walk=1, at_s=5)
    held = await store.document(ARCHIVE, "a")
    assert held is not None
    assert (held.revision, held.first_seen_ns, held.changed_ns, held.owed) == (0, at(5), None, True)


async def test_an_item_that_is_gone_keeps_its_content_and_can_be_replayed(store: Store) -> None:
    await record(store, 7, story(7), at_s=1)
    outcomes = [await record(store, 7, GONE, at_s=100 * look) for look in range(1, 4)]
    assert outcomes == [Outcome.OWED, Outcome.OWED, Outcome.GONE]
    held = await store.item(SOURCE, 7)
    assert held is not None
    assert held.body == story(7).body
    assert [gap.state for gap in await store.gaps(SOURCE)] == [GapState.GONE]
    assert await store.replay_gaps(SOURCE, now_ns=at(400)) == 1
    assert await record(store, 7, story(7), at_s=500) is Outcome.UNCHANGED
    assert await store.gaps(SOURCE) == ()


async def test_an_entry_that_exists_although_no_page_showed_it_counts_as_seen_in_the_walk(store: Store) -> None:
    await page(store, ("a", "2"), ("b", "1"), ("c", "0"), walk=1, at_s=0)
    assert await store.unlisted(ARCHIVE, walk=2, limit=2) == ["a", "b"]
    await store.record_existing(ARCHIVE, ["a", "c", "unknown"], walk=2)
    assert await store.unlisted(ARCHIVE, walk=2, limit=9) == ["b"]
    assert await store.unlisted(ARCHIVE, walk=3, limit=9) == ["a", "b", "c"]
    assert await store.document(ARCHIVE, "unknown") is None


async def test_a_page_tells_how_many_of_its_entries_are_back(store: Store) -> None:
    await page(store, ("a", "1"), ("b", "2"), walk=1, at_s=0)
    await store.record_vanished(ARCHIVE, ["a", "b"], now_ns=at(1))
    entries, state = [Entry("a", "1"), Entry("c", "3")], WalkState(walk=2)
    assert await store.record_page(ARCHIVE, entries, state, now_ns=at(2)) == PageRecorded(owed=1, back=1)
    assert await store.record_page(ARCHIVE, entries, state, now_ns=at(3)) == PageRecorded(owed=0, back=0)
