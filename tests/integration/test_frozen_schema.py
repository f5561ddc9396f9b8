"""Does a store of an older schema still open, and were those schemas left as they were?"""

import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import product
from pathlib import Path

import psycopg
import pytest

from remora.contracts import Store
from remora.core.errors import StoreUnavailable
from remora.stores.postgres import PostgresStore, migrate
from remora.stores.sqlite import SqliteStore
from remora.stores.sqlite.database import connect_reader, connect_writer, size_with_log
from tests.contract.answers import record, story
from tests.fixtures import frozen

SQLITE_STEPS, POSTGRES_STEPS = frozen.steps("sqlite"), frozen.steps("postgres")
# What the fixture has none of: an earlier content of a document.
EARLIER = """INSERT INTO document_revisions (source, key, revision, updated_at, fetched_at, changed_at, body)
VALUES ('letters', 'a', 1, '1', 1790000009000, 1790000009000, '{"of":"once"}');
UPDATE documents SET revision = 2 WHERE source = 'letters' AND key = 'a';"""
FEED = "SELECT seq, source, kind, key, change, changed_at FROM changes ORDER BY seq"
ADDRESSES = ("HTTPS://WWW.X.ORG", "no address", "ftp://é.org", "http://a\\u0000b", "http://a\\ud800b", "http:\\/\\/x.y")
PIECES = ("http://", "www.", "a.b", "@", ":", "/", "?#")
# From this schema on `changes` is a view of a SQLite file.
SHORT_CHANGES = 4


def test_released_schemas_are_frozen() -> None:
    assert frozen.hashes() == frozen.known_hashes(), (
        "a released schema was edited: write a new migration instead, and add its hash to frozen.json"
    )


async def check(store: Store) -> None:
    await store.open()
    assert [kept.body for kept in await store.document_revisions("letters", "a")] == [b'{"of":"once"}']
    await frozen.check(store)
    await store.close()


@pytest.mark.parametrize("version", range(1, len(SQLITE_STEPS)))
async def test_a_sqlite_file_of_an_older_schema_opens_and_holds_what_it_held(tmp_path: Path, version: int) -> None:
    path = tmp_path / "remora.db"
    with closing(sqlite3.connect(path)) as connection:
        frozen.bring_to(connection, version)
        connection.executescript(EARLIER)
        estimates = connection.execute("SELECT idx, stat FROM sqlite_stat1 ORDER BY 1").fetchall()
        feed = connection.execute(FEED).fetchall()
    await check(SqliteStore(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(FEED).fetchall()[: len(feed)] == feed
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert set(estimates) <= set(connection.execute("SELECT idx, stat FROM sqlite_stat1").fetchall())


@pytest.mark.parametrize("version", range(1, len(SQLITE_STEPS)))
def test_an_owners_own_views_of_the_mirror_keep_no_file_from_opening(tmp_path: Path, version: int) -> None:
    path = tmp_path / "remora.db"
    with closing(sqlite3.connect(path)) as connection:
        frozen.bring_to(connection, version)
        connection.execute("CREATE VIEW mine AS SELECT source, id, type, body FROM items")
        before = connection.execute("SELECT * FROM mine ORDER BY source, id").fetchall()
    with closing(connect_writer(path)) as connection:
        assert connection.execute("SELECT * FROM mine ORDER BY source, id").fetchall() == before != []
        assert connection.execute("PRAGMA writable_schema").fetchone() == (0,)


@pytest.mark.parametrize("version", range(1, len(SQLITE_STEPS)))
async def test_the_number_of_a_change_is_never_used_again_after_an_older_schema_was_left(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "remora.db"
    with closing(sqlite3.connect(path)) as connection:
        frozen.bring_to(connection, version)
        (last,) = connection.execute("SELECT max(seq) FROM changes").fetchone()
        connection.execute("DELETE FROM stored_changes" if version >= SHORT_CHANGES else "DELETE FROM changes")
        connection.commit()
    store = SqliteStore(path)
    await store.open()
    await record(store, 77, story(77), at_s=1)
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT seq, key FROM changes").fetchall() == [(last + 1, "77")]


# A large table is read and indexed by several processes at once; with these limits a small one is, too.
IN_PARALLEL = ("min_parallel_table_scan_size", "parallel_setup_cost", "parallel_tuple_cost")
READS_TITLES = "SELECT count(title), count(domain) FROM item_fields"


@pytest.mark.postgres
@pytest.mark.parametrize("version", range(1, len(POSTGRES_STEPS)))
async def test_a_postgresql_database_of_an_older_schema_opens_and_holds_what_it_held(
    empty_postgres_url: str, version: int
) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute(frozen.POSTGRES.read_text("utf-8").encode())
        for number, step in enumerate(POSTGRES_STEPS[1:version], start=2):
            connection.execute(step.read_bytes())
            connection.execute("INSERT INTO migrations (number, name) VALUES (%s, %s)", (number, step.stem))
        connection.execute(EARLIER.encode())
        for name in IN_PARALLEL:
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {name} = 0".encode())
    assert await migrate(empty_postgres_url) == len(POSTGRES_STEPS) - version
    await check(PostgresStore(empty_postgres_url))
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("ANALYZE")
        plan = connection.execute("EXPLAIN SELECT count(*) FROM stored_items WHERE score > 0").fetchall()
        assert any("Parallel" in line for (line,) in plan), "this server reads a table in parallel"
        assert connection.execute(READS_TITLES).fetchone() == (0, 0)


# What a provider could send, as bytes: not all of it is JSON, or has an address.
ODD_BODIES = [
    *(f'{{"url":"{address}"}}'.encode() for address in ADDRESSES),
    *(f'{{"url":"http://{"".join(parts)}"}}'.encode() for parts in product(PIECES, repeat=4)),
    *(b"", b"\xff", b"nonsense", b"[]", b"5", b'"url"', b'{"url":null}', b'{"url":5}', b'{"url":["http://x.y"]}'),
    *(
        b'{"url":{"a":"http://x.y/"}}',
        b'{"url":"http://a.b","url":"http://c.d"}',
        b'{"url":"http://a.b"' + b"[" * 50_000,
    ),
]


@pytest.mark.postgres
def test_a_database_of_an_older_schema_derives_the_same_domains_as_this_one(empty_postgres_url: str) -> None:
    found = []
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute(frozen.POSTGRES.read_text("utf-8").encode())
        for step in POSTGRES_STEPS[1:]:
            connection.execute(step.read_bytes())
            derived = connection.execute("SELECT url_domain(body) FROM unnest(%b::bytea[]) AS b (body)", (ODD_BODIES,))
            found.append(derived.fetchall())
    assert found == [found[0]] * len(found)
    assert 0 < found[0].count((None,)) < 2 * len(ODD_BODIES) // 3


# Enough lines of the change feed that a migration writes to the disk long before it commits.
MANY_CHANGES = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO changes (source, kind, key, change, changed_at) SELECT 'left', 'item', i, 'new', 1790000000000 FROM n;"""
WRITTEN_BEFORE_THE_KILL = 3_000_000


@pytest.mark.slow
def test_a_restored_backup_that_is_killed_while_it_is_migrated_can_be_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    with closing(sqlite3.connect(path)) as connection:  # without a log, as `remora store backup` writes it
        connection.executescript(frozen.SQLITE.read_text("utf-8") + MANY_CHANGES)
        feed = connection.execute(FEED).fetchall()
    words = [sys.executable, "-m", "remora", "store", "migrate", "--store", f"sqlite:///{path}"]
    until = size_with_log(path) + WRITTEN_BEFORE_THE_KILL
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while size_with_log(path) < until:
            assert process.poll() is None, "the migration was not slow enough to be killed"
        process.kill()
    with pytest.raises(StoreUnavailable, match=r"has schema .*`remora store migrate` brings it up to date"):
        connect_reader(path)
    subprocess.run(words, cwd=tmp_path, capture_output=True, check=True)
    with closing(connect_reader(path)) as connection:
        assert connection.execute(FEED).fetchall() == feed
