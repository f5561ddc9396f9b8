"""Does a person who browses find what the mirror holds, in bounded time, in each database?"""

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing

import psycopg
import pytest

from remora.contracts import Store
from remora.contracts.browsing import BrowsingReader, ReadTooSlow, StoryList
from remora.contracts.search import SearchOrder
from remora.core.errors import ConfigurationError
from remora.core.item import Document
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.segment import SegmentKind
from remora.core.units import MINUTE_NS
from remora.operate.jobs.search_index import build
from remora.read.ancestors import read_ancestors
from remora.read.browsing import WAITING_MAX, Browsing, TooManyReads
from remora.read.mirror import MirrorReader
from remora.stores import open_browsing
from tests.contract.answers import ARCHIVE, NOW_S, SOURCE, TIMEOUT, record, record_document
from tests.read.conftest import item, keep


@pytest.fixture
async def reader(store: Store, url: str) -> AsyncIterator[BrowsingReader]:
    """A reader with lists, beside the open writer."""
    opened = open_browsing(url, seconds_max=60.0)
    await opened.open()
    yield opened
    await opened.close()


def stories(*, by_score: bool = True, prefix: str | None = None, skip: int = 0) -> StoryList:
    return StoryList("story", NOW_S, NOW_S + 1_000, by_score, prefix, skip)


async def test_stories_come_by_score_by_time_and_by_the_beginning_of_their_title(reader: BrowsingReader) -> None:
    async def ids(wanted: StoryList) -> list[int]:
        return [found.id for found in await reader.stories(SOURCE, wanted)]

    assert await ids(stories()) == [1, 30, 5]
    assert await ids(stories(by_score=False)) == [30, 5, 1]
    assert await ids(stories(prefix="Show HN:")) == [1]
    assert await ids(stories(skip=1)) == [30, 5]


async def test_dead_stories_and_those_of_another_source_are_left_out(reader: BrowsingReader, store: Store) -> None:
    await keep(store, item(50, type="story", title="other", score=999), source="other")
    assert 50 not in [found.id for found in await reader.stories(SOURCE, stories())]


async def test_what_an_author_wrote_comes_in_two_lists(reader: BrowsingReader) -> None:
    told = await reader.items_by(SOURCE, "ada", comments=False, skip=0, limit=9)
    assert [found.id for found in told] == [5, 1]
    replies = await reader.items_by(SOURCE, "bob", comments=True, skip=1, limit=9)
    assert [found.id for found in replies] == [3]


@pytest.mark.parametrize("name", ["a\0b", "half \ud83d"])
async def test_an_author_is_found_whose_name_no_column_can_hold_as_it_is(
    reader: BrowsingReader, store: Store, mirror: MirrorReader, url: str, name: str
) -> None:
    await keep(store, item(60, type="story", by=name))
    (told,) = await reader.items_by(SOURCE, name, comments=False, skip=0, limit=9)
    assert told.id == 60
    await build(url, rebuild=False, tell=lambda _: None)
    assert [hit.key for hit in await mirror.search(f'by:"{told.by}"')] == ["60"]


@pytest.mark.parametrize("comments", [True, False])
async def test_what_an_author_wrote_at_an_unknown_time_comes_last(
    reader: BrowsingReader, store: Store, comments: bool
) -> None:
    kind = "comment" if comments else "story"
    await keep(store, *(item(each, by="zoe", type=kind, time=time) for each, time in ((60, 5), (61, 7), (62, 6))))
    await keep(store, *(item(each, by="zoe", type=kind, time=None) for each in (63, 64)))

    async def ids(skip: int) -> list[int]:
        return [found.id for found in await reader.items_by(SOURCE, "zoe", comments=comments, skip=skip, limit=2)]

    assert [await ids(0), await ids(2), await ids(4)] == [[61, 62], [60, 64], [63]]


async def test_the_beginning_of_a_title_is_found_in_capitals_and_small_letters(
    reader: BrowsingReader, store: Store
) -> None:
    await keep(store, item(60, type="story", title="SHOW hn: a fish", score=1))
    assert [found.id for found in await reader.stories(SOURCE, stories(prefix="Show HN:"))] == [1, 60]


async def test_the_newest_items_come_first_and_page_by_id(reader: BrowsingReader) -> None:
    assert [found.id for found in await reader.newest_items(SOURCE, before_id=21, limit=3)] == [20, 7, 5]


async def test_what_is_owed_is_listed_with_its_reason(reader: BrowsingReader, store: Store) -> None:
    await record(store, 99, TIMEOUT, at_s=9)
    (gap,) = await reader.gaps(SOURCE, kind=Kind.ITEM, state="owed", limit=9)
    assert (gap.key, gap.reason, gap.attempts, gap.document_key) == ("99", "timeout", 1, None)
    assert await reader.gaps(SOURCE, kind=Kind.ITEM, state="dead", limit=9) == ()


async def test_an_owed_document_is_listed_by_its_key(reader: BrowsingReader, store: Store) -> None:
    assert await reader.owed_documents(ARCHIVE, limit=9) == (("chat-3", "2026-01-03"),)
    await record_document(store, "chat-3", TIMEOUT, at_s=9)
    (gap,) = await reader.gaps(ARCHIVE, kind=Kind.DOCUMENT, state="owed", limit=9)
    assert gap.document_key == "chat-3"
    assert gap.key != "chat-3"


async def test_what_was_not_asked_for_yet_is_listed(reader: BrowsingReader, store: Store) -> None:
    assert await reader.waiting_ids(SOURCE, limit=9) == ()
    await store.plan(SOURCE, SegmentKind.BACKFILL, [IdRange(100, 149), IdRange(250, 299)], now_ns=0)
    newest = await store.claim(SOURCE, [SegmentKind.BACKFILL], owner="walker", lease_ns=MINUTE_NS, now_ns=0)
    assert newest is not None
    await store.advance(SOURCE, newest, 259, lease_ns=MINUTE_NS, now_ns=0)
    left = [(ids.kind, ids.first_id, ids.last_id) for ids in await reader.waiting_ids(SOURCE, limit=9)]
    assert left == [("backfill", 100, 149), ("backfill", 260, 299)]
    await store.announce(SOURCE, [(Kind.ITEM, "7"), (Kind.USER, "a\nb")], now_ns=5 * MINUTE_NS)
    announced = [(each.kind, each.key, each.announced_ns) for each in await reader.announced(SOURCE, limit=9)]
    assert announced == [("item", "7", 5 * MINUTE_NS), ("user", "a\nb", 5 * MINUTE_NS)]


async def test_the_latest_changes_come_first(reader: BrowsingReader) -> None:
    told = [(change.kind, change.key, change.change) for change in await reader.latest_changes(SOURCE, limit=3)]
    assert told == [("user", "ada", "new"), ("item", "5", "changed"), ("item", "5", "new")]


async def test_a_document_has_its_facts_and_its_earlier_contents(reader: BrowsingReader, store: Store) -> None:
    later = Document("chat-1", b'{"id":"chat-1","title":"Later"}', "2026-02-01")
    await record_document(store, "chat-1", later, at_s=9)
    facts = await reader.document_facts(ARCHIVE, "chat-1")
    assert facts is not None
    assert (facts.revision, facts.is_owed, facts.is_gone, facts.vanished_ns) == (2, False, False, None)
    (earlier,) = await reader.document_revisions(ARCHIVE, "chat-1")
    assert earlier.fields["title"] == "About chat-1"
    assert await reader.document_facts(ARCHIVE, "absent") is None


async def test_the_way_up_from_a_comment_leads_to_its_story_or_says_where_it_breaks(reader: BrowsingReader) -> None:
    async def above(item_id: int, items_max: int = 9) -> tuple[list[int], int | None, int | None, bool]:
        (found,) = await reader.items(SOURCE, [item_id])
        told = await read_ancestors(reader, found, items_max=items_max)
        return [one.id for one in told.items], told.missing, told.cycle, told.is_cut

    assert await above(3) == ([1, 2], None, None, False)
    assert await above(7) == ([], 6, None, False)
    assert await above(20) == ([21], None, 20, False)
    assert await above(3, items_max=1) == ([2], None, None, True)


IN_POSTGRES = """type, "by", time, parent, score, descendants, dead, deleted, first_seen_at, last_fetched_at, changed_at,
revision, hash, content_hash, body"""
IN_SQLITE = re.sub("(type|fetched|changed)(_at)?,", r"\1_mark,", IN_POSTGRES.replace("last_", ""))
COPIES = "INSERT INTO stored_items (source, id, {0}) SELECT source, n, {0} FROM stored_items, numbers WHERE id = 1"
MANY = "WITH RECURSIVE numbers(n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM numbers WHERE n < 21000)"


def copy_a_story_many_times(url: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute(f"{MANY} {COPIES.format(IN_SQLITE)}")
        return
    with psycopg.connect(url) as database:
        database.execute(f"{MANY} {COPIES.format(IN_POSTGRES)}")


async def test_a_comment_has_its_story_if_the_way_up_is_whole(reader: BrowsingReader) -> None:
    found = await reader.stories_of(SOURCE, [2, 3, 7, 20, 21, 999])
    assert {item_id: story.id for item_id, story in found.items()} == {2: 1, 3: 1}


@pytest.mark.slow
async def test_a_read_that_takes_too_long_is_stopped_and_the_reader_stays_usable(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_a_story_many_times(url)
    reader = open_browsing(url, seconds_max=0.002)
    await reader.open()
    with pytest.raises(ReadTooSlow, match=re.escape("took longer than 0.002 seconds")):
        await reader.stories(SOURCE, stories(prefix="absent"))
    monkeypatch.setattr(
        reader, "_seconds_max", 60.0
    )  # a busy machine may need more than two milliseconds for one item, too
    (item,) = await reader.items(SOURCE, [1])
    await reader.close()
    assert item.id == 1


async def test_a_search_has_pages_and_facets(store: Store, url: str) -> None:
    await build(url, rebuild=False, tell=lambda _: None)
    browsing = Browsing(url)
    found = await browsing.search("since:2020", source=None, order=SearchOrder.TIME, skip=1, limit=2)
    assert (len(found.hits), found.has_more, found.is_building) == (2, True, False)
    assert dict(found.facets.types) == {"story": 3, "comment": 6}
    assert dict(found.facets.domains) == {"example.com": 1, "fish.example": 1}
    assert found.facets.authors[0] == ("ada", 6)
    assert sum(count for _, count in found.facets.years) == found.counted
    await browsing.close()


async def test_a_search_without_an_index_says_how_to_build_it(store: Store, url: str) -> None:
    browsing = Browsing(url)
    with pytest.raises(ConfigurationError, match="no search index"):
        await browsing.search("fish", source=None, order=SearchOrder.RELEVANCE, skip=0, limit=2)
    await browsing.close()


async def test_more_reads_than_may_wait_are_refused(store: Store, url: str) -> None:
    browsing = Browsing(url)
    browsing._waiting = WAITING_MAX
    with pytest.raises(TooManyReads):
        async with browsing.reader():
            pass
    await browsing.close()


async def test_gaps_of_one_moment_come_in_one_order_however_many_are_asked_for(
    reader: BrowsingReader, store: Store
) -> None:
    numbers = [500 + step * 37 % 101 for step in range(100)]
    for number in numbers:
        await record(store, number, TIMEOUT, at_s=50)
    told = await reader.gaps(SOURCE, kind="item", state="owed", limit=200)
    held = [gap for gap in told if gap.key in set(map(str, numbers))]
    assert len(held) == len(numbers)
    assert held == sorted(held, key=lambda gap: (gap.not_before_ns, gap.key))
    some = await reader.gaps(SOURCE, kind="item", state="owed", limit=20)
    assert some == told[:20]
