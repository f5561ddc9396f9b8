"""Does every earlier content belong to something that the mirror holds, and do both databases say so?"""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from remora.stores.postgres import migrate
from remora.stores.sqlite.database import connect_writer

# What people expect and what is not true: a parent may be missing, so a reply has no key to its parent.
KEYS = {
    ("document_revisions", "documents", ("source", "key"), ("source", "key")),
    ("stored_revisions", "stored_items", ("source", "item_id"), ("source", "id")),
}
OF_NO_ITEM = "INSERT INTO stored_revisions VALUES (1, 7, 1, 0, 0, '{}')"
OF_NO_DOCUMENT = "INSERT INTO document_revisions VALUES ('papers', 'a', 1, NULL, 0, 0, '{}')"


def test_a_sqlite_file_refuses_an_earlier_content_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    path.touch()
    with closing(connect_writer(path)) as connection:
        for orphan in (OF_NO_ITEM, OF_NO_DOCUMENT):
            with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
                connection.execute(orphan)


def test_a_sqlite_file_tells_other_programs_what_leads_where(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    path.touch()
    connect_writer(path).close()
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            'SELECT t.name, k.id, k."table", k."from", k."to" FROM pragma_table_list AS t '
            "JOIN pragma_foreign_key_list(t.name) AS k ORDER BY t.name, k.id, k.seq"
        ).fetchall()
    found: dict[tuple[str, int, str], list[tuple[str, str]]] = {}
    for table, number, target, column, there in rows:
        found.setdefault((table, number, target), []).append((column, there))
    assert {(table, target, *zip(*pairs, strict=True)) for (table, _, target), pairs in found.items()} == KEYS


@pytest.mark.postgres
async def test_postgresql_has_the_same_keys_and_refuses_an_earlier_content_of_nothing(postgres_url: str) -> None:
    await migrate(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for orphan in (OF_NO_ITEM, OF_NO_DOCUMENT):
            with pytest.raises(psycopg.errors.ForeignKeyViolation):
                connection.execute(orphan.encode())
        rows = connection.execute(
            "SELECT conrelid::regclass::text, confrelid::regclass::text, "
            "array(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS k (n, place) "
            "JOIN pg_attribute ON attrelid = conrelid AND attnum = k.n ORDER BY place), "
            "array(SELECT attname::text FROM unnest(confkey) WITH ORDINALITY AS k (n, place) "
            "JOIN pg_attribute ON attrelid = confrelid AND attnum = k.n ORDER BY place) "
            "FROM pg_constraint WHERE contype = 'f' AND convalidated"
        ).fetchall()
    assert {(table, target, tuple(own), tuple(there)) for table, target, own, there in rows} == KEYS
