"""Do the statements that run most often find their rows by an index, however large the tables are?"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from remora.stores.postgres import migrate
from remora.stores.postgres.statements import SQL
from tests.read.test_lookups import thread_in_the_docs

pytestmark = pytest.mark.postgres

SEGMENT = {
    "source": "s",
    "kind": "backfill",
    "owner": "o",
    "lease": 60_000,
    "slack": 60_000,
    "now": None,
    "size": 1_000,
}
HOT: dict[str, dict[str, Any]] = {
    "held_items": {"source": "s", "number": 1, "ids": ",".join(map(str, range(5, 500, 5)))},
    "claim": SEGMENT,
    "reap_segments": SEGMENT,
    "advance": {**SEGMENT, "segment_id": 5, "fence": 1, "cursor": 7, "covers": True},
    "held_gaps": {"source": "s", "kind": "item", "keys": ["7", "8"]},
    "lease_gaps": {**SEGMENT, "limit": 100, "without": [], "due": 1, "not_before_max": 10**9},
    "reap_gaps": {"source": "s", "lease": 60_000, "slack": 60_000, "now": None},
    "waiting": {"source": "s", "after": 10, "limit": 100},
    "bodies": {"source": "s", "first": 100, "last": 200, "limit": 50, "bytes": 10_000},
    "block": {"source": "s", "last": 500, "limit": 15},
    "cover": {"source": "s", "first_id": 70, "last_id": 71},
    "remove_from_inbox": {"source": ["s"], "kind": ["item"], "key": ["7"], "ticket": [7]},
}


@pytest.fixture
async def reader(postgres_url: str) -> Any:
    await migrate(postgres_url)
    return _filled(postgres_url)


def _filled(url: str) -> "psycopg.Connection[Any]":
    connection = psycopg.connect(url, autocommit=True)
    connection.execute("INSERT INTO sources (name) VALUES ('s'), ('t')")
    connection.execute(
        "INSERT INTO stored_items "
        "SELECT n, n, nullif(n, n / 10 * 10), 1, 1, 1, 1, 1, 1, source, false, false, 'story', 'u' || n % 2000, 'h', 'c', "
        'convert_to(format(\'{"url":"https://www.d%s.org/","x":"%s"}\', n % 7000, repeat(\'x\', 200)), \'UTF8\') '
        "FROM generate_series(1, 20000) AS n, generate_series(1, 2) AS source"
    )
    connection.execute(
        "INSERT INTO segments (source, kind, state, first_id, last_id, cursor, lease_until, created_at, moved_at) "
        "SELECT 's', 'backfill', (ARRAY['done', 'pending', 'claimed'])[1 + n % 3], n, n, n, "
        "(extract(epoch FROM now()) * 1000)::bigint + 60000, 1, 1 FROM generate_series(1, 20000) AS n"
    )
    connection.execute(
        "INSERT INTO gaps SELECT 's', 'item', n::text, (ARRAY['settled', 'owed'])[1 + n % 2], 'timeout', 1, 1, false, 1, 1, 1, n "
        "FROM generate_series(1, 20000) AS n"
    )
    connection.execute(
        "INSERT INTO inbox (source, kind, key, announced_at) SELECT 's', 'item', n, 1 FROM generate_series(1, 5000) AS n"
    )
    connection.execute("INSERT INTO fetches SELECT n, 1, n::text FROM generate_series(1, 200000) AS n")
    connection.execute("INSERT INTO coverage SELECT 's', 2 * n, 2 * n FROM generate_series(1, 20000) AS n")
    connection.execute("ANALYZE")
    return connection


def _scans(plan: dict[str, Any]) -> Iterator[str]:
    # There are a few sources, and one page holds them all.
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] != "sources":
        yield plan["Relation Name"]
    for part in plan.get("Plans", ()):
        yield from _scans(part)


@pytest.mark.slow
def test_no_hot_statement_reads_a_whole_table(reader: "psycopg.Connection[Any]") -> None:
    found: dict[str, list[str]] = {}
    for name, values in HOT.items():
        row = reader.execute(b"EXPLAIN (FORMAT JSON) " + SQL[name], values).fetchone()
        assert row is not None
        found[name] = list(_scans(row[0][0]["Plan"]))
    reader.close()
    assert {name: tables for name, tables in found.items() if tables} == {}


BY_HAND = (
    "SELECT title FROM item_fields WHERE id = 7",
    "SELECT body FROM items WHERE source = 's' AND id = 7",
    "SELECT body FROM items WHERE source = 's' AND id > 19900 ORDER BY id DESC LIMIT 20",
    "SELECT body FROM items WHERE source = 's' AND type = 'story' AND time > 19900",
    "SELECT body FROM items WHERE parent = 7",
    "SELECT body FROM items WHERE \"by\" = 'u7' ORDER BY time DESC LIMIT 50",
    "SELECT title FROM item_fields WHERE source = 's' AND domain = 'd70.org' ORDER BY id DESC LIMIT 50",
    "SELECT root FROM threads WHERE source = 's' AND id = 7",
    thread_in_the_docs(),
)


@pytest.mark.slow
def test_a_query_by_hand_finds_its_rows_by_an_index(reader: "psycopg.Connection[Any]") -> None:
    found: dict[str, list[str]] = {}
    for query in BY_HAND:
        row = reader.execute(f"EXPLAIN (FORMAT JSON) {query}".encode()).fetchone()
        assert row is not None
        found[query] = list(_scans(row[0][0]["Plan"]))
    reader.close()
    assert {query: tables for query, tables in found.items() if tables} == {}


STORIES_AND_REPLIES = """INSERT INTO stored_items
SELECT n, n, CASE WHEN n > 7 THEN 1 END, 1, 1, 1, 1, 1, 1, 1, false, false, 'story', 'u', 'h', 'c', '{"url":"https://x.org/"}'
FROM generate_series(1, 20) AS n"""
DERIVED = "SELECT calls FROM pg_stat_xact_user_functions WHERE funcname = 'url_domain'"


async def test_the_domain_of_a_new_story_is_derived_once_and_that_of_a_reply_never(postgres_url: str) -> None:
    await migrate(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("SET track_functions = 'pl'")
        connection.execute(STORIES_AND_REPLIES)
        assert connection.execute(DERIVED).fetchone() == (7,)
