"""Does whoever follows the change feed as docs/tables.md says miss nothing, whatever order transactions commit in?"""

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from remora.operate.jobs.following import NamedFeed
from remora.operate.jobs.keeping import housekeeping
from remora.read.mirror import MirrorReader
from remora.stores.postgres import PostgresStore, migrate
from tests.contract.answers import at
from tests.read.conftest import item, keep

pytestmark = pytest.mark.postgres

TABLES = Path(__file__).resolve().parent.parent.parent / "docs" / "tables.md"
Connection = psycopg.Connection[Any]


def documented_query() -> str:
    """The query a reader is told to use, with its two parameters."""
    blocks = re.findall(r"```sql\n(.*?)```", TABLES.read_text("utf-8"), re.DOTALL)
    (query,) = [block for block in blocks if "pg_snapshot_xmin" in block]
    return str(query).replace(":last_xid", "%(last_xid)s").replace(":last_seq", "%(last_seq)s")


def follow(reader: Connection, place: tuple[str, int]) -> tuple[list[str], tuple[str, int]]:
    """The keys beyond a place, and the place to go on from."""
    rows = reader.execute(documented_query(), {"last_xid": place[0], "last_seq": place[1]}).fetchall()
    return [row[4] for row in rows], ((str(rows[-1][0]), rows[-1][1]) if rows else place)


def change(writer: Connection, key: str) -> None:
    writer.execute(
        "INSERT INTO changes (source, kind, key, change, changed_at) VALUES ('s', 'item', %s, 'new', 1)", [key]
    )


async def test_a_change_that_commits_late_is_met_by_who_has_already_read_a_later_number(postgres_url: str) -> None:
    await migrate(postgres_url)
    with (
        psycopg.connect(postgres_url) as early,
        psycopg.connect(postgres_url) as late,
        psycopg.connect(postgres_url, autocommit=True) as reader,
    ):
        for writer in (early, late):
            writer.execute("SELECT pg_current_xact_id()")  # both have begun to write, in this order
        change(late, "low number, commits last")
        change(early, "high number, commits first")
        early.commit()
        first, place = follow(reader, ("0", 0))
        late.commit()
        second, place = follow(reader, place)
        assert first + second == ["high number, commits first", "low number, commits last"]
        assert follow(reader, place) == ([], place)


async def test_a_page_of_the_feed_is_found_by_an_index_however_long_the_feed_is(postgres_url: str) -> None:
    await migrate(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as reader:
        reader.execute(
            "INSERT INTO changes (source, kind, key, change, changed_at) "
            "SELECT 's', 'item', n::text, 'new', 1 FROM generate_series(1, 50000) AS n"
        )
        reader.execute("ANALYZE changes")
        lines = reader.execute("EXPLAIN " + documented_query(), {"last_xid": "1", "last_seq": 1}).fetchall()
    plan = "\n".join(line for (line,) in lines)
    assert "changes_by_transaction" in plan
    assert "Sort" not in plan


async def test_a_named_reader_goes_on_over_numbers_that_a_crash_of_the_server_skipped(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await store.open()
    await keep(store, item(1), item(2))
    async with housekeeping(postgres_url) as keeping, MirrorReader(postgres_url) as mirror:
        read = await mirror.newest_position()
        await keeping.keep_position("warehouse", read, now_ns=at(9))
        assert await keeping.forget_changes(before_ns=at(99), up_to=None, limit=100) == 2
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("SELECT nextval(pg_get_serial_sequence('changes', 'seq'))")
        await keep(store, item(3))
        async with NamedFeed(postgres_url, "warehouse") as feed:
            pages = [page async for page in feed.pages(mirror, follow=False)]
        assert [change.key for page in pages for change in page] == ["3"]
    await store.close()
