"""Does a whole mirror move between SQLite and PostgreSQL, whatever happens on the way?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from remora.contracts import Json, Outcome, RunRecord, Store, WalkState
from remora.core.errors import ConfigurationError, StoreError, StoreForeign
from remora.core.item import Document, Entry, User
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import GapState
from remora.core.ledger.segment import SegmentKind
from remora.core.units import SECOND_NS
from remora.core.verdict import Found
from remora.stores import open_store
from remora.stores.copy import copy_store, open_portable
from remora.stores.tables import Key, Portable, Row, Table
from tests.contract.answers import (
    ARCHIVE,
    MISSING,
    SOURCE,
    TIMEOUT,
    at,
    observed,
    record,
    record_document,
    record_user,
    story,
)

pytestmark = pytest.mark.postgres

BACKFILL = SegmentKind.BACKFILL
OTHER = "another"
ITEMS = 2_500  # more than one page
ODD_KEY = "back\\slash nul\0 and more"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def both(source_url: str, target_url: str) -> AsyncIterator[tuple[Portable, Portable]]:
    source, target = open_portable(source_url, read_only=True), open_portable(target_url, read_only=False)
    await source.open()
    await target.open()
    try:
        yield source, target
    finally:
        await target.close()
        await source.close()


async def fill(store: Store) -> None:
    """Something of everything, with work under way."""
    await asyncio.gather(*(record(store, n, story(n), at_s=0) for n in range(1, ITEMS + 1)))
    await record(store, 7, story(7, text="second"), at_s=5)
    await record_user(store, "ada", User("ada", b'{"id":"ada"}'), at_s=0)
    await store.record(OTHER, observed(7, Found(story(7, text="another")), started_s=0))
    await record(store, 9_001, TIMEOUT, at_s=0)
    await record(store, 9_002, MISSING, at_s=0)
    await store.lease_gaps(SOURCE, owner="gone", limit=1, lease_ns=60 * SECOND_NS, now_ns=at(9_000))
    await store.plan(SOURCE, BACKFILL, [IdRange(1, 1_000), IdRange(1_001, 2_000)], now_ns=at(0))
    segment = await store.claim(SOURCE, [BACKFILL], owner="gone", lease_ns=60 * SECOND_NS, now_ns=at(0))
    assert segment is not None
    await store.advance(SOURCE, segment, 1_500, lease_ns=60 * SECOND_NS, now_ns=at(0))
    await store.cover(SOURCE, IdRange(5_000, 5_010))
    await store.announce(SOURCE, [(Kind.ITEM, "8000"), (Kind.USER, "grace")], now_ns=at(0))
    await store.save_pace(SOURCE, {"rate_per_s": 3.5, "edges_per_s": [4.0]})
    await store.keep_note(SOURCE, "newest", 9_999)
    walk = WalkState(walking_from="2026-01-02", seen_down_to="2026-01-01", position="2")
    await store.record_page(ARCHIVE, [Entry(ODD_KEY, "2026-01-02"), Entry("plain", None)], walk, now_ns=at(0))
    await record_document(store, ODD_KEY, Document(ODD_KEY, b'{"a":1}', "2026-01-02"), at_s=1)
    run_id = await store.start_run(ARCHIVE, now_ns=at(0))
    await store.end_run(ARCHIVE, RunRecord(run_id, at(0), at(9), "max_fetches", {"fetched": 3}))


async def check_arrived(store: Store) -> None:
    """Everything is there, and what a process had under way can be taken up at once."""
    assert [n async for n, _ in store.bodies(SOURCE)] == list(range(1, ITEMS + 1))
    item = await store.item(SOURCE, 7)
    assert item is not None
    assert (item.body, item.revision) == (story(7, text="second").body, 2)
    assert [kept.body for kept in await store.revisions(SOURCE, 7)] == [story(7).body]
    assert await store.user(SOURCE, "ada") == b'{"id":"ada"}'
    assert [pair async for pair in store.bodies(OTHER)] == [(7, story(7, text="another").body)]
    assert await store.user(OTHER, "ada") is None
    assert {gap.state for gap in await store.gaps(SOURCE)} == {GapState.OWED}
    segment = await store.claim(SOURCE, [BACKFILL], owner="new", lease_ns=SECOND_NS, now_ns=at(0))
    assert segment is not None
    assert (segment.ids, segment.cursor) == (IdRange(1_001, 2_000), 1_500)
    assert (await store.coverage(SOURCE)).ranges == (IdRange(1_001, 1_500), IdRange(5_000, 5_010))
    assert [entry.key for entry in await store.waiting(SOURCE, limit=9)] == ["8000", "grace"]
    assert await store.load_pace(SOURCE) == {"rate_per_s": 3.5, "edges_per_s": [4.0]}
    assert await store.note(SOURCE, "newest") == 9_999
    assert (await store.walk_state(ARCHIVE)).walking_from == "2026-01-02"
    document = await store.document(ARCHIVE, ODD_KEY)
    assert document is not None
    assert document.body == b'{"a":1}'
    assert [owed.key for owed in await store.owed_details(ARCHIVE, limit=9)] == ["plain"]
    assert [run.counts for run in await store.runs(ARCHIVE)] == [{"fetched": 3}]
    # The same body again is nothing new, and new numbers do not collide with the old ones.
    assert await record(store, 8, story(8), at_s=99) is Outcome.UNCHANGED
    assert await record(store, 70_000, story(70_000), at_s=99) is Outcome.NEW
    assert await store.plan(SOURCE, BACKFILL, [IdRange(90_000, 90_010)], now_ns=at(0)) == 1
    assert await store.announce(SOURCE, [(Kind.ITEM, "8001")], now_ns=at(0)) == 3
    assert [entry.key for entry in await store.waiting(SOURCE, limit=9)] == ["8000", "grace", "8001"]
    assert await store.start_run(ARCHIVE, now_ns=at(0)) > 1


@pytest.mark.slow
async def test_a_mirror_moves_from_sqlite_to_postgresql_and_back(postgres_url: str, tmp_path: Path) -> None:
    first, last = f"sqlite:///{tmp_path}/first.db", f"sqlite:///{tmp_path}/last.db"
    async with opened(first) as store:
        await fill(store)
    async with both(first, postgres_url) as (source, target):
        report = await copy_store(source, target)
    assert report.tables["items"].rows == ITEMS + 1
    assert report.tables["revisions"].rows == 1
    assert report.rows > ITEMS
    async with both(postgres_url, last) as (source, target):
        assert await copy_store(source, target) == report
    for url in (postgres_url, last):
        async with opened(url) as store:
            await check_arrived(store)


class Through:
    """A store behind another one, to be disturbed in one respect."""

    def __init__(self, store: Portable) -> None:
        self._store = store

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    async def export_rows(self, table: Table, *, after: Key, limit: int) -> list[Row]:
        return await self._store.export_rows(table, after=after, limit=limit)

    async def import_rows(self, table: Table, rows: list[Row]) -> None:
        await self._store.import_rows(table, rows)

    async def finish_import(self) -> None:
        await self._store.finish_import()

    async def note(self, source: str, name: str) -> Json:
        return await self._store.note(source, name)

    async def keep_note(self, source: str, name: str, value: Json) -> None:
        await self._store.keep_note(source, name, value)


class LostAfterTwoPages(Through):
    """A target that can be reached for two pages only: the sources and the first items."""

    pages = 2

    async def import_rows(self, table: Table, rows: list[Row]) -> None:
        self.pages -= 1
        if self.pages < 0:
            raise ConnectionError("gone")
        await super().import_rows(table, rows)


class Counted(Through):
    """A source that remembers which pages were asked for."""

    def __init__(self, store: Portable) -> None:
        super().__init__(store)
        self.asked: list[tuple[str, Key]] = []

    async def export_rows(self, table: Table, *, after: Key, limit: int) -> list[Row]:
        self.asked.append((table.name, after))
        return await super().export_rows(table, after=after, limit=limit)


class Damaged(Through):
    """A target whose items somebody changes before they are compared."""

    url = ""

    async def finish_import(self) -> None:
        await super().finish_import()
        with psycopg.connect(self.url, autocommit=True) as somebody:
            somebody.execute("UPDATE stored_items SET body = 'x'")


@pytest.mark.slow
async def test_a_copy_that_broke_off_goes_on_where_it_was(postgres_url: str, tmp_path: Path) -> None:
    first = f"sqlite:///{tmp_path}/first.db"
    async with opened(first) as store:
        await fill(store)
    async with both(first, postgres_url) as (source, target):
        with pytest.raises(ConnectionError):
            await copy_store(source, LostAfterTwoPages(target))
    async with both(first, postgres_url) as (source, target):
        counted = Counted(source)
        await copy_store(counted, target)
        assert counted.asked[0] == ("items", (1, 2_000))
    async with opened(postgres_url) as store:
        await check_arrived(store)


async def test_a_target_that_holds_something_else_is_refused(postgres_url: str, tmp_path: Path) -> None:
    first = f"sqlite:///{tmp_path}/first.db"
    for url in (first, postgres_url):
        async with opened(url) as store:
            await record(store, 1, story(1), at_s=0)
    async with both(first, postgres_url) as (source, target):
        with pytest.raises(StoreForeign, match="not empty"):
            await copy_store(source, target)


async def test_a_difference_is_found_by_the_contents_not_only_by_the_counts(postgres_url: str, tmp_path: Path) -> None:
    first = f"sqlite:///{tmp_path}/first.db"
    async with opened(first) as store:
        await record(store, 1, story(1), at_s=0)

    async with both(first, postgres_url) as (source, target):
        damaged = Damaged(target)
        damaged.url = postgres_url
        with pytest.raises(StoreError, match="items differ: 1 rows in the source, 1 in the target"):
            await copy_store(source, damaged)


def test_a_store_in_memory_cannot_be_copied() -> None:
    with pytest.raises(ConfigurationError):
        open_portable("memory://", read_only=True)
