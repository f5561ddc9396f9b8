"""Does every list of the reader come from an index, however large the mirror is? The plans of its statements in SQLite."""

import re
import sqlite3
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from remora.stores import open_store
from remora.stores.statements import named

STATEMENTS = named((files("remora.stores.sqlite") / "browsing.sql").read_text("utf-8"))
# The ids that were asked for, and the way up from each.
WHAT_WAS_ASKED = ("SCAN json_each", "SCAN CONSTANT ROW", "SCAN up")
INDEXES = {
    "browse_by_score": "items_by_type_and_time (type=? AND time>? AND time<?)",
    "browse_by_time": "items_by_type_and_time (type=? AND time>? AND time<?)",
    "browse_newest": "items_by_key (source=? AND id<?)",
    "browse_comments_by": "items_by_author",
    "browse_stories_by": "items_by_author",
    "browse_roots": "items_by_key (source=? AND id=?)",
    "browse_gaps": "gaps_open (source=? AND kind=? AND state=?)",
    "browse_owed_documents": "documents_owed (source=?)",
    "browse_waiting_ids": "segments_unfinished (source=?)",
    "browse_announced": "sqlite_autoindex_inbox_1 (source=?)",
    "browse_document": "sqlite_autoindex_documents_1 (source=? AND key=?)",
    "browse_document_revisions": "sqlite_autoindex_document_revisions_1 (source=? AND key=?)",
}


@pytest.fixture
async def mirror(tmp_path: Path) -> Path:
    store = open_store(f"sqlite:///{tmp_path}/hn.db")
    await store.open()
    await store.close()
    return tmp_path / "hn.db"


async def test_every_list_is_read_through_its_index(mirror: Path) -> None:
    with closing(sqlite3.connect(mirror)) as connection:
        for name, index in INDEXES.items():
            values = dict.fromkeys(re.findall(r":([a-z]+)", STATEMENTS[name]), 1)
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {STATEMENTS[name]}", values)]
            assert any(index in line for line in plan), (name, plan)
            scans = [line for line in plan if line.startswith("SCAN") and not line.startswith(WHAT_WAS_ASKED)]
            assert not scans, (name, plan)


async def test_only_the_end_of_the_change_feed_is_read_as_a_whole() -> None:
    assert set(STATEMENTS) - set(INDEXES) == {"browse_changes"}
    assert "ORDER BY seq DESC LIMIT 10000" in STATEMENTS["browse_changes"]
