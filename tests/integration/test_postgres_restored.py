"""Does a dump that is restored on another server lose anybody a change? Its transactions have other numbers there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import psycopg
import pytest

from remora.contracts import Store
from remora.core.errors import PositionLost, StoreForeign
from remora.operate.jobs.keeping import housekeeping
from remora.operate.jobs.search_index import build
from remora.read.mirror import MirrorReader
from remora.stores import open_store
from remora.stores.postgres import migrate
from remora.stores.postgres.statements import SQL
from tests.contract.answers import at
from tests.integration.named_reader import read_on
from tests.read.conftest import item, keep

pytestmark = pytest.mark.postgres

# What a dump brings from a server that has begun a thousand million transactions more than this one.
RESTORED = """
UPDATE changes SET xid = (xid::text::bigint + 1000000000)::text::xid8;
UPDATE change_readers SET
  position = (split_part(position, ':', 1)::bigint + 1000000000)::text || ':' || split_part(position, ':', 2)
WHERE position <> '0';
UPDATE search_progress SET
  value = replace(value, '"position":"', '"position":"1000')
WHERE value NOT LIKE '%"position":"0"%';
"""


def restore(url: str) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(RESTORED)


@asynccontextmanager
async def collecting(url: str, *ids: int) -> AsyncIterator[Store]:
    """The store of a service that has recorded these items."""
    store = open_store(url)
    await store.open()
    try:
        await keep(store, *map(item, ids))
        yield store
    finally:
        await store.close()


async def index(url: str) -> int:
    """Bring the search index up to date; how many entries it has."""
    return (await build(url, rebuild=False, tell=lambda _: None)).size.entries


async def test_named_readers_go_on_where_they_were_after_a_dump_is_restored_on_another_server(
    postgres_url: str,
) -> None:
    async with collecting(postgres_url, 1, 2, 3, 4):
        assert await read_on(postgres_url, "half", most=2) == ["1", "2"]
        assert await read_on(postgres_url, "whole") == ["1", "2", "3", "4"]
        await index(postgres_url)
    restore(postgres_url)
    async with collecting(postgres_url, 5):
        assert await read_on(postgres_url, "half") == ["3", "4", "5"]
        assert await read_on(postgres_url, "whole") == ["5"]
        assert await read_on(postgres_url, "new") == ["1", "2", "3", "4", "5"]


async def test_a_reader_whose_changes_were_deleted_goes_on_after_a_dump_is_restored_on_another_server(
    postgres_url: str,
) -> None:
    async with collecting(postgres_url, 1, 2, 3), housekeeping(postgres_url) as keeping:
        await read_on(postgres_url, "whole")
        assert await keeping.forget_changes(before_ns=at(99), up_to=None, limit=100) == 3
        await index(postgres_url)
    restore(postgres_url)
    async with collecting(postgres_url, 4):
        assert await read_on(postgres_url, "whole") == ["4"]


async def test_a_restored_feed_is_refused_until_it_is_numbered_anew(postgres_url: str) -> None:
    async with collecting(postgres_url, 1, 2, 3) as connected_all_the_time:
        await index(postgres_url)
        restore(postgres_url)
        await keep(connected_all_the_time, item(4))
        with pytest.raises(StoreForeign, match="restored from a dump"):
            await read_on(postgres_url, "early")
        await migrate(postgres_url)
        assert await read_on(postgres_url, "early") == ["1", "2", "3", "4"]


async def test_a_position_and_a_search_index_of_another_server_begin_again(postgres_url: str) -> None:
    async with collecting(postgres_url, 1, 2, 3) as store, MirrorReader(postgres_url) as mirror:
        assert await index(postgres_url) == 3
        xid, _, seq = (await mirror.newest_position()).partition(":")
        restore(postgres_url)
        await migrate(postgres_url)
        await keep(store, item(4))
        with pytest.raises(PositionLost, match="restored from a dump"):
            _ = [change async for change in mirror.changes(since=f"1000{xid}:{seq}")]
        assert await index(postgres_url) == 4


async def test_a_search_index_misses_nothing_that_came_before_the_server_reached_the_numbers_of_the_dump(
    postgres_url: str,
) -> None:
    ahead = 50
    async with collecting(postgres_url, 1, 2, 3):
        assert await index(postgres_url) == 3
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        connection.execute(f"UPDATE changes SET xid = (xid::text::bigint + {ahead})::text::xid8")
        connection.execute(
            "UPDATE search_progress SET value = jsonb_set(value::jsonb, '{position}', to_jsonb(p.position))::text FROM "
            "(SELECT xid::text || ':' || seq::text AS position FROM changes ORDER BY seq DESC LIMIT 1) AS p"
        )
        await migrate(postgres_url)
        async with collecting(postgres_url, 4):
            pass
        for _ in range(ahead):
            connection.execute("SELECT pg_current_xact_id()")
    assert await index(postgres_url) == 4


async def test_whether_a_feed_was_restored_is_read_from_its_end_before_anybody_has_analyzed_it(
    postgres_url: str,
) -> None:
    await migrate(postgres_url)
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        connection.execute(
            "INSERT INTO changes (source, kind, key, change, changed_at, xid) "
            "SELECT 'hackernews', 'item', n::text, 'new', 1, '3' FROM generate_series(1, 20000) AS n"
        )
        plan = "\n".join(row[0] for row in connection.execute(b"EXPLAIN " + SQL["is_feed_restored"]))
    assert "Seq Scan on changes " not in plan
    assert "changes_by_transaction" in plan
