"""Does a store of the first schema still open, and was that schema left as it was?"""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from remora.stores.postgres import PostgresStore, migrate
from remora.stores.sqlite import SqliteStore
from tests.fixtures import frozen


def test_the_first_schema_is_frozen() -> None:
    assert frozen.hashes() == frozen.known_hashes(), (
        "schema 0001 was edited: write a new migration instead (before the first release: python -m tests.fixtures.make)"
    )


async def test_a_sqlite_file_of_the_first_schema_opens_and_holds_what_it_held(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(frozen.SQLITE.read_text("utf-8"))
    store = SqliteStore(path)
    await store.open()
    await frozen.check(store)
    await store.close()


@pytest.mark.postgres
async def test_a_postgresql_database_of_the_first_schema_opens_and_holds_what_it_held(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(frozen.POSTGRES.read_text("utf-8").encode())
    await migrate(postgres_url)
    store = PostgresStore(postgres_url)
    await store.open()
    await frozen.check(store)
    await store.close()
