"""Are the estimates of `remora store stats` near the truth, and does a large store take no longer?"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from remora.contracts import Store
from remora.operate.jobs.keeping import housekeeping
from remora.stores import change_sample
from remora.stores.change_sample import recent_changes
from remora.stores.sqlite.page_sample import estimated_sizes
from tests.contract.answers import at
from tests.read.conftest import item, keep

ROWS = 8_000
LONG = 9_000  # takes pages of its own
NOW = {"item new": 9, "item changed": 1, "user new": 1, "document new": 2}


def measured(path: Path) -> dict[str, tuple[int, int]]:
    """By table its bytes as SQLite counts them and as estimated."""
    with closing(sqlite3.connect(path)) as connection:
        trees = connection.execute("SELECT name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0").fetchall()
        counted = dict(
            connection.execute(
                "SELECT s.tbl_name, sum(d.pgsize) FROM dbstat AS d JOIN sqlite_schema AS s ON s.name = d.name "
                "WHERE d.aggregate = TRUE GROUP BY 1"
            )
        )
    page_bytes, found = estimated_sizes(path, trees)
    return {name: (counted[name], round(size.pages) * page_bytes) for name, size in found.items()}


def test_sampled_pages_tell_the_size_of_tables_with_indexes_and_long_values(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE wide (id INTEGER PRIMARY KEY, name TEXT, body TEXT)")
        connection.execute("CREATE TABLE keyed (name TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID")
        connection.execute("CREATE TABLE empty (id INTEGER)")
        rows = [(n, f"name {n * 7919 % ROWS}", "x" * (LONG if n % 50 == 0 else n % 300)) for n in range(ROWS)]
        connection.executemany("INSERT INTO wide VALUES (?, ?, ?)", rows)
        connection.executemany("INSERT INTO keyed VALUES (?, ?)", [row[1:] for row in rows])
        connection.execute("CREATE INDEX by_name ON wide (name)")
        connection.commit()
    found = measured(path)
    assert found["empty"] == (4096, 4096)
    for table in ("wide", "keyed"):
        counted, estimated = found[table]
        assert estimated == pytest.approx(counted, rel=0.1), table


def test_rows_are_told_of_the_table_and_not_of_its_indexes(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("CREATE INDEX some_names ON things (name) WHERE id < 10")
        connection.executemany("INSERT INTO things VALUES (?, ?)", [(n, "name") for n in range(ROWS)])
        connection.commit()
        trees = connection.execute("SELECT name, tbl_name, rootpage FROM sqlite_schema").fetchall()
    _, found = estimated_sizes(path, trees)
    assert found["things"].entries == pytest.approx(ROWS, rel=0.1)


def test_a_page_that_is_no_tree_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE things (id INTEGER)")
        connection.commit()
    with path.open("r+b") as file:  # as if it were being written
        file.seek(4096)
        file.write(bytes(4096))
    assert estimated_sizes(path, [("things", "things", 2), ("beyond", "beyond", 99)])[1] == {}


async def test_estimates_of_a_small_store_are_exact(store: Store, url: str) -> None:
    async with housekeeping(url) as keeping:
        exact = {size.name: size for size in await keeping.table_sizes(seconds_max=10)}
        estimated = {size.name: size for size in await keeping.estimated_sizes()}
        assert estimated["stored_items"].bytes == exact["stored_items"].bytes
        assert exact["stored_items"].rows == 9
        assert estimated["stored_items"].rows in {9, None}, "a server that has not looked yet does not know"
        assert await recent_changes(keeping, 0) == await keeping.changes_since(0) == NOW


async def test_changes_of_a_day_are_found_by_their_numbers(store: Store, url: str) -> None:
    await keep(store, item(50), item(51), at_s=100)
    async with housekeeping(url) as keeping:
        assert await recent_changes(keeping, at(100)) == {"item new": 2}
        assert await recent_changes(keeping, at(101)) == {}
        ends = await keeping.change_ends()
        assert ends is not None
        assert await keeping.forget_changes(before_ns=at(999), up_to=None, limit=100) > 0
        assert await keeping.change_ends() is None
        assert await recent_changes(keeping, 0) == {}


async def test_of_very_many_changes_the_newest_are_counted_and_the_others_estimated(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep(store, *(item(n) for n in range(100, 183)), at_s=100)
    await keep(store, item(100, text="edited"), at_s=101)
    for name, value in (("COUNTED_MAX", 4), ("BLOCKS", 8), ("BLOCK_CHANGES", 2)):
        monkeypatch.setattr(change_sample, name, value)
    async with housekeeping(url) as keeping:
        assert await recent_changes(keeping, at(100)) == {"item new": 83, "item changed": 1}
