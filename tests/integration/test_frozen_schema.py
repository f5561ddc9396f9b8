"""Does a store of an older schema still open, and were those schemas left as they were?"""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from remora.stores.postgres import PostgresStore, migrate
from remora.stores.postgres.statements import NEWEST_VERSION
from remora.stores.sqlite import SqliteStore
from tests.fixtures import frozen


def test_released_schemas_are_frozen() -> None:
    assert frozen.hashes() == frozen.known_hashes(), (
        "schema 0001 or 0002 was edited: write a new migration instead (before the first release: python -m tests.fixtures.make)"
    )


async def test_a_sqlite_file_of_the_first_schema_opens_and_holds_what_it_held(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(frozen.SQLITE.read_text("utf-8"))
    store = SqliteStore(path)
    await store.open()
    await frozen.check(store)
    await store.close()


# A large table is read and indexed by several processes at once; with these limits a small one is, too.
IN_PARALLEL = ("min_parallel_table_scan_size", "parallel_setup_cost", "parallel_tuple_cost")
READS_TITLES = "SELECT count(title), count(domain) FROM item_fields"


@pytest.mark.postgres
@pytest.mark.parametrize("version", [1, 2])
async def test_a_postgresql_database_of_an_older_schema_opens_and_holds_what_it_held(
    postgres_url: str, version: int
) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(frozen.POSTGRES.read_text("utf-8").encode())
        if version == 2:
            connection.execute(frozen.POSTGRES_SECOND.read_text("utf-8").encode())
            connection.execute("INSERT INTO migrations (number, name) VALUES (2, 'for_readers')")
        for name in IN_PARALLEL:
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {name} = 0".encode())
    assert await migrate(postgres_url) == NEWEST_VERSION - version
    store = PostgresStore(postgres_url)
    await store.open()
    await frozen.check(store)
    await store.close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("ANALYZE")
        plan = connection.execute("EXPLAIN SELECT count(*) FROM stored_items WHERE score > 0").fetchall()
        assert any("Parallel" in line for (line,) in plan), "this server reads a table in parallel"
        assert connection.execute(READS_TITLES).fetchone() == (0, 0)
