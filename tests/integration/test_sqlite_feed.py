"""Is the change feed of a SQLite file, whose lines are kept short, what every reader of it expects?"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from remora.core.item import Document, User
from remora.stores.sqlite import SqliteStore
from remora.stores.sqlite.portable import PortableSqliteStore
from remora.stores.tables import TABLES
from tests.contract.answers import record, record_document, record_user, story

CHANGES = next(table for table in TABLES if table.name == "changes")
ODD = ("123", "007", "-0", "9223372036854775808", " 5", "1.0", "\n", "é")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "remora.db"


@pytest.fixture
def reader(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection:
        yield connection


async def test_a_key_that_looks_like_a_number_comes_back_as_it_was(path: Path, reader: sqlite3.Connection) -> None:
    store = SqliteStore(path)
    await store.open()
    for place, key in enumerate(ODD):
        await record_document(store, key, Document(key, b"{}"), at_s=place)
    await record_user(store, "42", User("42", b"{}"), at_s=50)
    await record(store, 42, story(42), at_s=60)
    await store.close()
    told = reader.execute("SELECT kind, key, typeof(key) FROM changes ORDER BY seq").fetchall()
    assert told == [*(("document", key, "text") for key in ODD), ("user", "42", "text"), ("item", "42", "text")]
    assert reader.execute("SELECT typeof(key) FROM stored_changes WHERE seq = ?", [len(told)]).fetchone() == (
        "integer",
    )


async def test_imported_lines_replace_their_number_and_nothing_else(path: Path, reader: sqlite3.Connection) -> None:
    store = PortableSqliteStore(path)
    await store.open()
    rows = [
        (3, "a", "item", "8", "new", 100),
        (4, "a", "item", "1", "new", 100),
        (5, "a", "item", "007", "changed", 200),
        (9, "b", "document", "12", "vanished", 300),
    ]
    for _ in range(2):
        await store.import_rows(CHANGES, rows)
        assert await store.export_rows(CHANGES, after=CHANGES.below_first, limit=9) == rows
    await store.import_rows(CHANGES, [(5, "b", "user", "x", "new", 400)])
    assert await store.export_rows(CHANGES, after=(4,), limit=9) == [(5, "b", "user", "x", "new", 400), rows[3]]
    await record(store, 77, story(77), at_s=1)
    await store.close()
    assert reader.execute("SELECT seq FROM changes").fetchall() == [(3,), (4,), (5,), (9,), (10,)]


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT * FROM changes WHERE seq > 500 ORDER BY seq LIMIT 10",
        "SELECT * FROM changes WHERE seq > 500 AND source = 'a' ORDER BY seq LIMIT 10",
        "SELECT * FROM changes WHERE source = 'a' AND kind = 'item' AND change = 'new' ORDER BY seq DESC LIMIT 10",
        "SELECT c.key FROM json_each('[1,2]') AS b CROSS JOIN changes AS c ON c.seq >= b.value AND c.seq < b.value + 9",
        "SELECT max(seq) FROM changes",
    ],
)
async def test_lines_are_found_by_their_numbers_and_come_in_their_order(
    path: Path, reader: sqlite3.Connection, asked: str
) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()
    plan = [row[3] for row in reader.execute(f"EXPLAIN QUERY PLAN {asked}").fetchall()]
    first, *_, last = (step for step in plan if " b " not in step)
    assert first.startswith("SEARCH c") or ("DESC" in asked and first == "SCAN c")  # until there are enough
    assert last == "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)"
