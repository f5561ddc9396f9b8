"""Does what the loops ask every second stay cheap, however many ids were confirmed absent or settled long ago?"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from remora.stores.sqlite import SqliteStore
from remora.stores.sqlite.statements import queries

pytestmark = pytest.mark.slow

SOURCE = "hackernews"
NOW = 1_790_000_000_000
PAST_GAPS = 20_000
# Steps of SQLite's machine: a row that is read costs about ten.
STEPS_MAX = 3_000
GAPS = {"source": SOURCE, "now": NOW, "lease_until": NOW + 1, "slack": 1, "not_before_max": 10**9, "limit": 100}
EVERY_SECOND: dict[str, Mapping[str, object]] = {
    "due_gaps": {**GAPS, "without": "[]"},
    "last_turn": {"source": SOURCE},
    "release_gaps": {"source": SOURCE, "owner": "one"},
    "open_segments": {"source": SOURCE},
    "free_segment": {**GAPS, "kind": "rescan"},
}


@pytest.fixture
async def grown(tmp_path: Path) -> sqlite3.Connection:
    """A store after years: nearly everything that was ever owed or walked is over."""
    store = SqliteStore(tmp_path / "remora.db")
    await store.open()
    await store.close()
    connection = sqlite3.connect(tmp_path / "remora.db")
    states = ["absent", "settled"] * (PAST_GAPS // 2) + ["owed"] * 20
    connection.executemany(
        "INSERT INTO gaps VALUES (?, 'item', ?, ?, 'not_found', 3, 3, 0, ?, 1, 1, ?, NULL, 0)",
        [(SOURCE, str(key), state, NOW + 1_000, key) for key, state in enumerate(states)],
    )
    connection.executemany(
        "INSERT INTO segments (source, kind, state, first_id, last_id, cursor, created_at, moved_at) "
        "VALUES (?, 'rescan', 'done', ?, ?, ?, 1, 1)",
        [(SOURCE, n, n, n) for n in range(PAST_GAPS)],
    )
    return connection


@pytest.mark.parametrize("name", EVERY_SECOND)
def test_what_is_over_costs_nothing_any_more(grown: sqlite3.Connection, name: str) -> None:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 100
        return 0

    grown.set_progress_handler(count, 100)
    grown.execute(queries()[name], EVERY_SECOND[name]).fetchall()
    grown.close()
    assert steps <= STEPS_MAX


# What people write by hand, with and without a source.
BY_HAND = (
    "SELECT title FROM item_fields WHERE id = 7",
    "SELECT body FROM items WHERE source = 'hackernews' AND id = 7",
    "SELECT body FROM items WHERE source = 'hackernews' ORDER BY id DESC LIMIT 20",
    "SELECT body FROM items WHERE type = 'story' AND time > 1700000000",
    "SELECT body FROM items WHERE source = 'hackernews' AND type = 'story' AND time > 1700000000",
    "SELECT body FROM items WHERE parent = 7",
    "SELECT body FROM revisions WHERE item_id = 7",
    "SELECT body FROM users WHERE name = 'ada'",
)


@pytest.mark.parametrize("query", BY_HAND)
def test_a_query_by_hand_finds_its_rows_by_an_index_and_sorts_none(grown: sqlite3.Connection, query: str) -> None:
    steps = [str(row[3]) for row in grown.execute(f"EXPLAIN QUERY PLAN {query}")]
    grown.close()
    assert [step for step in steps if step.startswith(("SCAN i", "SCAN r", "SCAN u", "USE TEMP B-TREE"))] == []
