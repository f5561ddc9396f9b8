"""Can any number of processes share one PostgreSQL? Nothing is done twice, nothing is lost, nobody resets the others."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

import psycopg
import pytest

from remora.contracts import Observation, Outcome
from remora.core.errors import StoreError, StoreForeign, StoreRefused
from remora.core.item import Item
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.segment import SegmentKind
from remora.core.units import HOUR_NS, MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Found
from remora.operate.jobs.search_index import build
from remora.stores.postgres import PostgresStore, migrate
from remora.stores.postgres.segments import LOOSE_RANGES_MAX
from remora.stores.postgres.statements import NEWEST_VERSION
from remora.stores.postgres.writer import BATCH_MAX
from tests.contract.answers import SOURCE, TIMEOUT, at, observed, record, story

pytestmark = pytest.mark.postgres

BACKFILL = SegmentKind.BACKFILL


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def several(url: str, count: int) -> AsyncIterator[list[PostgresStore]]:
    """As many stores as there would be processes, each with its own connections."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(opened(url)) for _ in range(count)]


@pytest.mark.slow
async def test_a_thousand_segments_and_32_claimants_give_each_segment_exactly_one_owner(postgres_url: str) -> None:
    owners: Counter[int] = Counter()

    async def claim_until_empty(store: PostgresStore, name: str) -> None:
        while segment := await store.claim(SOURCE, [BACKFILL], owner=name, lease_ns=60 * SECOND_NS, now_ns=at(0)):
            owners[segment.segment_id] += 1
            assert await store.advance(SOURCE, segment, segment.ids.end, lease_ns=60 * SECOND_NS, now_ns=at(0))

    async with several(postgres_url, 4) as stores:
        pieces = [IdRange(start, start + 9) for start in range(0, 10_000, 10)]
        assert await stores[0].plan(SOURCE, BACKFILL, pieces, now_ns=at(0)) == 1_000
        await asyncio.gather(*(claim_until_empty(stores[n % 4], f"claimant-{n}") for n in range(32)))
        assert len(owners) == 1_000
        assert set(owners.values()) == {1}
        coverage = await stores[0].coverage(SOURCE)
        assert coverage.ranges == (IdRange(0, 9_999),)
        # Reading it put the rows together; the ids are the same.
        assert (await stores[1].coverage(SOURCE)).ranges == (IdRange(0, 9_999),)


async def test_a_live_lease_is_not_stolen_by_a_caller_whose_clock_is_hours_ahead(postgres_url: str) -> None:
    async with several(postgres_url, 2) as (one, two):
        await one.plan(SOURCE, BACKFILL, [IdRange(1, 10)], now_ns=at(0))
        held = await one.claim(SOURCE, [BACKFILL], owner="one", lease_ns=60 * SECOND_NS, now_ns=at(0))
        later = await two.claim(SOURCE, [BACKFILL], owner="two", lease_ns=60 * SECOND_NS, now_ns=at(0) + 9 * HOUR_NS)
        assert held is not None
        assert later is None
        assert await one.advance(SOURCE, held, 10, lease_ns=60 * SECOND_NS, now_ns=at(0))


async def test_an_expired_lease_is_taken_whatever_the_callers_clock_says_and_its_old_fence_is_refused(
    postgres_url: str,
) -> None:
    async with several(postgres_url, 2) as (one, two):
        await one.plan(SOURCE, BACKFILL, [IdRange(1, 10)], now_ns=at(0))
        held = await one.claim(SOURCE, [BACKFILL], owner="one", lease_ns=20 * MILLISECOND_NS, now_ns=at(0))
        assert held is not None
        await asyncio.sleep(0.1)  # the database's clock cannot be simulated
        taken = await two.claim(SOURCE, [BACKFILL], owner="two", lease_ns=60 * SECOND_NS, now_ns=at(0) - 9 * HOUR_NS)
        assert taken is not None
        assert (taken.segment_id, taken.owner) == (held.segment_id, "two")
        assert not await one.advance(SOURCE, held, 10, lease_ns=60 * SECOND_NS, now_ns=at(0))
        assert not await one.release(SOURCE, held)


async def test_a_new_process_never_resets_the_work_of_others(postgres_url: str) -> None:
    async with opened(postgres_url) as one:
        await one.plan(SOURCE, BACKFILL, [IdRange(1, 10)], now_ns=at(0))
        held = await one.claim(SOURCE, [BACKFILL], owner="one", lease_ns=60 * SECOND_NS, now_ns=at(0))
        await record(one, 77, TIMEOUT, at_s=0)
        leased = await one.lease_gaps(SOURCE, owner="one", limit=9, lease_ns=60 * SECOND_NS, now_ns=at(9_000))
        async with opened(postgres_url) as two:
            assert await two.claim(SOURCE, [BACKFILL], owner="two", lease_ns=SECOND_NS, now_ns=at(0)) is None
            assert await two.lease_gaps(SOURCE, owner="two", limit=9, lease_ns=SECOND_NS, now_ns=at(9_000)) == ()
        assert held is not None
        assert [gap.key for gap in leased] == ["77"]
        assert await one.advance(SOURCE, held, 5, lease_ns=60 * SECOND_NS, now_ns=at(0))


async def test_one_plan_made_by_four_processes_at_once_is_planned_once(postgres_url: str) -> None:
    async with several(postgres_url, 4) as stores:
        pieces = [IdRange(start, start + 999) for start in range(0, 20_000, 1_000)]
        added = await asyncio.gather(*(store.plan(SOURCE, BACKFILL, pieces, now_ns=at(0)) for store in stores))
        assert sorted(added) == [0, 0, 0, 20]
        assert await stores[0].open_segments(SOURCE) == {BACKFILL: 20_000}


async def test_overlapping_writes_of_four_processes_neither_block_each_other_nor_lose_anything(
    postgres_url: str,
) -> None:
    ids = range(1, 301)

    async def write_all(store: PostgresStore, writer: int) -> list[Outcome]:
        order = ids if writer % 2 else reversed(ids)
        answers = [observed(n, Found(story(n, text=f"by {writer}")), started_s=writer) for n in order]
        return await asyncio.gather(*(store.record(SOURCE, answer) for answer in answers))

    async with several(postgres_url, 4) as stores:
        outcomes = await asyncio.gather(*(write_all(store, writer) for writer, store in enumerate(stores)))
        counts = Counter(outcome for some in outcomes for outcome in some)
        assert counts[Outcome.NEW] == len(ids)
        assert counts.total() == 4 * len(ids)
        # The fetch that left last wins, and every content that was once stored is still there.
        for item_id in (1, 150, 300):
            item = await stores[0].item(SOURCE, item_id)
            assert item is not None
            assert item.body == story(item_id, text="by 3").body
            assert item.revision == 1 + len(await stores[0].revisions(SOURCE, item_id))


async def test_tickets_of_several_processes_are_read_in_order_without_missing_one(postgres_url: str) -> None:
    async with several(postgres_url, 3) as stores:

        async def announce(store: PostgresStore, first: int) -> None:
            for n in range(first, first + 30):
                await store.announce(SOURCE, [(Kind.ITEM, str(n))], now_ns=at(0))

        seen: list[str] = []
        announcing = asyncio.gather(*(announce(store, 100 * n) for n, store in enumerate(stores)))
        ticket = 0
        while len(seen) < 90:
            for entry in await stores[0].waiting(SOURCE, limit=7, after_ticket=ticket):
                seen.append(entry.key)
                ticket = entry.ticket
        await announcing
        assert len(set(seen)) == 90


async def test_a_value_the_server_refuses_does_not_take_its_neighbours_with_it(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        answers = [observed(n, Found(story(n)), started_s=0) for n in (1, 2, 2**70, 3, 4)]
        results = await asyncio.gather(*(store.record(SOURCE, answer) for answer in answers), return_exceptions=True)
        assert [result for result in results if result is Outcome.NEW] == [Outcome.NEW] * 4
        assert [type(result) for result in results if isinstance(result, BaseException)] != []
        assert all(isinstance(result, StoreError | Outcome) for result in results)


async def test_our_own_mistake_is_told_to_whoever_made_it_and_to_nobody_else(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        mistaken = Observation(Discovery.newest(), Found(story(3)), at(0), at(0))
        answers = [observed(1, Found(story(1)), started_s=0), mistaken, observed(2, Found(story(2)), started_s=0)]
        results = await asyncio.gather(*(store.record(SOURCE, answer) for answer in answers), return_exceptions=True)
        assert results[0] is Outcome.NEW
        assert isinstance(results[1], AssertionError)
        assert results[2] is Outcome.NEW


async def test_a_mistake_that_nobody_thought_of_hurts_only_itself_and_nobody_waits_for_ever(postgres_url: str) -> None:
    things = [story(n) for n in range(0, 2 * BATCH_MAX + 10, 2)]  # even ids share a lane
    things[3] = Item(6, b"{}", content=cast("bytes", "text"))  # hashing it raises what no store expects
    async with opened(postgres_url) as store, asyncio.timeout(20):
        answers = [observed(thing.item_id, Found(thing), started_s=0) for thing in things]
        results = await asyncio.gather(*(store.record(SOURCE, answer) for answer in answers), return_exceptions=True)
    assert isinstance(results.pop(3), TypeError)
    assert results == [Outcome.NEW] * len(results)


async def test_six_processes_that_open_an_empty_database_at_once_migrate_it_once(empty_postgres_url: str) -> None:
    steps = await asyncio.gather(*(migrate(empty_postgres_url) for _ in range(6)))
    assert sorted(steps) == [0, 0, 0, 0, 0, NEWEST_VERSION]


@pytest.fixture
def smaller_url(empty_postgres_url: str) -> Iterator[str]:
    """The address of the database for a role that may not create anything."""
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS smaller")
        owner.execute("CREATE ROLE smaller LOGIN")
        owner.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        yield empty_postgres_url.replace("remora@", "smaller@")
        owner.execute("DROP OWNED BY smaller")
        owner.execute("DROP ROLE smaller")


async def test_the_service_needs_no_right_to_create_once_the_owner_has_migrated(
    empty_postgres_url: str, smaller_url: str
) -> None:
    with pytest.raises(StoreForeign, match="remora store migrate"):
        await PostgresStore(smaller_url).open()
    await migrate(empty_postgres_url, grant_to="smaller")
    async with opened(smaller_url) as store:
        assert await record(store, 1, story(1), at_s=0) is Outcome.NEW
        assert await record(store, 2, TIMEOUT, at_s=0) is Outcome.OWED
        await store.plan(SOURCE, BACKFILL, [IdRange(1, 10)], now_ns=at(0))
        assert await store.claim(SOURCE, [BACKFILL], owner="one", lease_ns=SECOND_NS, now_ns=at(0)) is not None
    with psycopg.connect(smaller_url) as smaller, pytest.raises(psycopg.errors.InsufficientPrivilege):
        smaller.execute("CREATE TABLE mine (n integer)")


async def test_the_service_keeps_the_search_index_fresh_that_the_owner_has_built(
    empty_postgres_url: str, smaller_url: str
) -> None:
    await migrate(empty_postgres_url, grant_to="smaller")
    async with opened(smaller_url) as store:
        await record(store, 1, story(1), at_s=0)
        with pytest.raises(StoreRefused, match="may not create the search index"):
            await build(smaller_url, rebuild=False, tell=lambda _: None)
        assert (await build(empty_postgres_url, rebuild=False, tell=lambda _: None)).size.entries == 1
        await migrate(empty_postgres_url, grant_to="smaller")
        await record(store, 2, story(2), at_s=0)
        assert (await build(smaller_url, rebuild=False, tell=lambda _: None)).size.entries == 2


async def test_a_schema_of_a_newer_program_and_foreign_tables_are_refused(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("CREATE TABLE items (somebody text)")
    with pytest.raises(StoreForeign, match="did not make"):
        await PostgresStore(empty_postgres_url).open()
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("DROP TABLE items")
    await migrate(empty_postgres_url)
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("INSERT INTO migrations (number, name) VALUES (999, 'from_the_future')")
    with pytest.raises(StoreForeign, match="newer"):
        await PostgresStore(empty_postgres_url).open()


async def test_the_friendly_view_reads_every_body_that_can_be_stored(postgres_url: str) -> None:
    bodies = {
        1: b'{"id":1,"title":"plain","kids":[3,2],"type":"story"}',
        2: b'{"id":2,"title":"nul \\u0000 and half \\ud800 pair","type":"story"}',
        3: b"not json at all",
        4: b"\xff\xfe not even text",
        5: b'{"id":5,"title":"whole \\ud83d\\ude00 pair","type":"story"}',
    }
    async with opened(postgres_url) as store:
        for item_id, body in bodies.items():
            await record(store, item_id, Item(item_id, body, time=2**62), at_s=0)
    with psycopg.connect(postgres_url) as reader:
        rows = reader.execute("SELECT id, title, kids, body FROM item_fields ORDER BY id").fetchall()
    assert [bytes(row[3]) for row in rows] == list(bodies.values())
    replaced = "nul \N{REPLACEMENT CHARACTER} and half \N{REPLACEMENT CHARACTER} pair"
    assert [row[1] for row in rows] == ["plain", replaced, None, None, "whole \N{GRINNING FACE} pair"]
    assert rows[0][2] == [3, 2]


async def test_a_reader_adds_up_what_many_workers_covered_and_a_writer_also_merges_it(postgres_url: str) -> None:
    last = LOOSE_RANGES_MAX + 5
    whole = Coverage.of([IdRange(1, last)])
    reader = PostgresStore(postgres_url, read_only=True)
    async with several(postgres_url, 1) as (writer,), await psycopg.AsyncConnection.connect(postgres_url) as connection:
        ranges = "INSERT INTO coverage (source, first_id, last_id) SELECT %s, n, n FROM generate_series(1, %s) AS n"
        await connection.execute(ranges, (SOURCE, last))
        await connection.commit()
        await reader.open()
        assert await reader.coverage(SOURCE) == whole
        await reader.close()
        assert await writer.coverage(SOURCE) == whole
        assert (await connection.execute("SELECT FROM coverage")).rowcount == 1
