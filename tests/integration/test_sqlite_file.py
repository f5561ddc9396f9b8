"""Is the SQLite file opened only when it is ours, by one writer at a time, and read by anyone?"""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from remora.contracts import Outcome
from remora.core.errors import ConfigurationError, Exit, StoreBusy, StoreError, StoreForeign, StoreUnavailable
from remora.core.rate.pace_record import Damaged, record_from_json
from remora.stores import open_store
from remora.stores.memory import MemoryStore
from remora.stores.sqlite import InPlace, SqliteStore
from remora.stores.sqlite.database import LOG_BYTES_MAX, PAGE_BYTES, explained
from remora.stores.sqlite.statements import migrations, queries
from tests.contract.answers import SOURCE, TIMEOUT, at, lease, record, story


async def filled(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await record(store, 1, story(1), at_s=1)
    await store.close()


def contents(folder: Path) -> dict[str, bytes]:
    files = [file for file in folder.iterdir() if file.is_file()] if folder.is_dir() else []
    return {file.name: file.read_bytes() for file in files}


async def refusal(path: Path, *, read_only: bool = False) -> Exception:
    """Why the store cannot be opened; whatever lay there before must lie there unchanged."""
    before = contents(path.parent)
    store = SqliteStore(path, read_only=read_only)
    with pytest.raises((StoreError, ConfigurationError)) as refused:
        await store.open()
    assert contents(path.parent) == before
    return refused.value


async def test_a_text_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my diary")
    assert isinstance(await refusal(path), StoreForeign)


async def test_another_programs_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE items (id INTEGER)")
    connection.close()
    error = await refusal(path)
    assert isinstance(error, StoreForeign)
    assert error.exit_code == Exit.USAGE
    assert "another program" in str(error)


async def test_a_newer_schema_is_refused_for_writing_and_for_reading(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    await filled(path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(migrations()) + 1}")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    for read_only in (False, True):
        store = SqliteStore(path, read_only=read_only)
        with pytest.raises(StoreForeign, match="newer version"):
            await store.open()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(migrations()) + 1,)
    connection.close()


async def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    path.touch()
    await filled(path)
    assert path.read_bytes()[68:72] == b"REMR"


@pytest.mark.parametrize("place", ["missing/remora.db", "file.txt/remora.db", "."])
async def test_a_place_that_cannot_hold_a_store_is_refused_with_a_hint(tmp_path: Path, place: str) -> None:
    (tmp_path / "file.txt").write_text("not a folder")
    error = await refusal(tmp_path / place)
    assert isinstance(error, ConfigurationError)
    assert error.hint


async def test_reading_a_store_that_does_not_exist_makes_none(tmp_path: Path) -> None:
    assert isinstance(await refusal(tmp_path / "remora.db", read_only=True), ConfigurationError)


async def test_a_second_writer_is_refused_with_a_hint_until_the_first_closes(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    first, second = SqliteStore(path), SqliteStore(path)
    await first.open()
    with pytest.raises(StoreBusy, match=r"remora\.db.*PostgreSQL"):
        await second.open()
    await record(first, 1, story(1), at_s=1)
    await first.close()
    await second.open()
    assert await second.item(SOURCE, 1) is not None
    await second.close()


async def test_readers_see_what_is_durable_while_a_writer_writes_and_after_it_has_gone(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    writer, reader = SqliteStore(path), SqliteStore(path, read_only=True)
    await writer.open()
    await reader.open()
    await record(writer, 1, story(1), at_s=1)
    assert await reader.item(SOURCE, 1) is not None
    await writer.close()
    assert await reader.item(SOURCE, 1) is not None
    await reader.close()
    await reader.open()
    assert await reader.item(SOURCE, 1) is not None
    await reader.close()


async def test_a_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    await filled(path)
    reader = SqliteStore(path, read_only=True)
    await reader.open()
    with pytest.raises(StoreUnavailable, match="not open for writing"):
        await record(reader, 2, story(2), at_s=2)
    with pytest.raises(StoreUnavailable):
        await reader.keep_note(SOURCE, "fact", 1)
    await reader.close()


async def test_a_store_that_is_not_open_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "remora.db")
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.item(SOURCE, 1)
    with pytest.raises(StoreUnavailable, match="not open"):
        await record(store, 1, story(1), at_s=1)
    await store.close()


async def test_leases_of_a_process_that_died_end_when_the_next_one_opens(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    first = SqliteStore(path)
    await first.open()
    await record(first, 1, TIMEOUT, at_s=0)
    assert await lease(first, at_s=10) == ["1"]
    await first.close()  # without giving anything back
    second = SqliteStore(path)
    await second.open()
    assert await lease(second, at_s=11) == ["1"]
    await second.close()


async def test_a_damaged_pace_is_loaded_as_what_it_is_and_judged_damaged(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    store = SqliteStore(path)
    await store.open()
    await store.save_pace(SOURCE, {"rate_per_s": 1.0})
    await store.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE pace SET record = '{\"rate_per_s\": 1.'")
    connection.commit()
    connection.close()
    await store.open()
    assert isinstance(record_from_json(await store.load_pace(SOURCE)), Damaged)
    await store.close()


async def test_every_field_can_be_read_from_the_view_even_beside_an_unreadable_body(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    store = SqliteStore(path)
    await store.open()
    await record(store, 1, story(1, text="hello"), at_s=1)
    odd = story(2)
    await record(store, 2, type(odd)(2, b"not json", content=b"x"), at_s=1)
    await store.close()
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT id, type, text, first_seen_at FROM item_fields ORDER BY id").fetchall()
    connection.close()
    assert rows == [(1, "story", "hello", "2026-09-21 14:13:21.000"), (2, None, None, "2026-09-21 14:13:21.000")]


async def test_the_change_feed_names_what_is_new_and_what_changed_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    store = SqliteStore(path)
    await store.open()
    for moment, text in enumerate(("first", "first", "second")):
        await record(store, 1, story(1, text=text), at_s=moment)
    await record(store, 2, TIMEOUT, at_s=9)
    await store.close()
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT seq, source, kind, key, change, changed_at FROM changes").fetchall()
    connection.close()
    assert rows == [
        (1, SOURCE, "item", "1", "new", at(0) // 1_000_000),
        (2, SOURCE, "item", "1", "changed", at(2) // 1_000_000),
    ]


async def test_who_follows_the_feed_misses_nothing_after_its_old_lines_were_deleted(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    for moment, text in enumerate(("first", "second")):
        store = SqliteStore(path)
        await store.open()
        await record(store, 1, story(1, text=text), at_s=moment)
        await store.close()
        connection = sqlite3.connect(path)
        numbers = connection.execute("SELECT seq FROM changes").fetchall()
        connection.execute("DELETE FROM stored_changes")
        connection.commit()
        connection.close()
        assert numbers == [(moment + 1,)]


async def test_hot_queries_use_their_indexes(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    await filled(path)
    connection = sqlite3.connect(path)
    for name, index in {
        "due_gaps": "gaps_due",
        "gap_counts": "gaps_open",
        "free_segment": "segments_unfinished",
        "owed_details": "documents_owed",
        "coverage_below": "PRIMARY KEY",
        "held_gaps": "PRIMARY KEY",
    }.items():
        statement = queries()[name]
        wanted = {word.strip(",();"): 0 for word in statement.replace(":", " :").split() if word.startswith(":")}
        plan = connection.execute(
            f"EXPLAIN QUERY PLAN {statement}", {word.removeprefix(":"): "[]" for word in wanted}
        ).fetchall()
        text = " | ".join(row[3] for row in plan)
        assert index in text, (name, text)
        assert "SCAN gaps" not in text
    connection.close()


@pytest.mark.parametrize(
    "url", ["remora.db", "sqlite:remora.db", "sqlite://", "sqlite:///", "sqlite:///folder/", "mysql://x", "memory://x"]
)
def test_an_address_that_names_no_store_is_refused_with_what_to_write(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_store(url)
    assert "sqlite:///remora.db" in refused.value.hint


def test_the_scheme_chooses_the_store(tmp_path: Path) -> None:
    assert isinstance(open_store(f"sqlite:///{tmp_path}/remora.db"), SqliteStore)
    assert isinstance(open_store("memory://"), MemoryStore)


def test_choosing_a_file_imports_no_other_database() -> None:
    code = (
        "import sys; from remora.stores import open_store; open_store('sqlite:///x.db');"
        "print([name for name in ('psycopg', 'remora.stores.postgres', 'remora.stores.memory') if name in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


async def test_the_log_grows_while_a_foreign_reader_reads_and_shrinks_afterwards(tmp_path: Path) -> None:
    """SQLite cannot shorten its log while a read transaction is open. Without a limit it would stay that large."""
    path = tmp_path / "remora.db"
    store = SqliteStore(path, offload=InPlace)
    await store.open()
    log, body = path.with_name(f"{path.name}-wal"), 2_000_000
    reader = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM items").fetchone() == (0,)
    for number in range(1, 13):
        await record(store, number, story(number, text="x" * body), at_s=number)
    assert log.stat().st_size > 12 * body
    assert reader.execute("SELECT count(*) FROM items").fetchone() == (0,)
    reader.execute("COMMIT")
    for number in range(13, 17):
        await record(store, number, story(number), at_s=number)
    assert log.stat().st_size <= LOG_BYTES_MAX
    assert reader.execute("SELECT count(*) FROM items").fetchone() == (16,)
    reader.close()
    await store.close()


async def test_a_new_file_has_large_pages_and_an_earlier_one_keeps_its_own(tmp_path: Path) -> None:
    new, earlier = tmp_path / "new.db", tmp_path / "earlier.db"
    await filled(new)
    with sqlite3.connect(new) as connection:
        assert connection.execute("PRAGMA page_size").fetchone() == (PAGE_BYTES,)
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA page_size = 4096")
        connection.execute("VACUUM INTO ?", (str(earlier),))
    connection.close()
    store = SqliteStore(earlier)
    await store.open()
    await record(store, 2, story(2), at_s=2)
    await store.close()
    with sqlite3.connect(earlier) as connection:
        assert connection.execute("PRAGMA page_size").fetchone() == (4_096,)
        assert connection.execute("SELECT count(*) FROM items").fetchone() == (2,)
    connection.close()


async def test_the_disk_to_which_a_link_leads_is_the_one_that_must_have_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, roomy = tmp_path / "full", tmp_path / "roomy"
    full.mkdir()
    roomy.mkdir()
    await filled(roomy / "remora.db")
    (full / "remora.db").symlink_to(roomy / "remora.db")
    usual = os.statvfs(tmp_path)

    def statvfs(path: Path) -> SimpleNamespace:
        is_full = path.resolve().is_relative_to(full)
        return SimpleNamespace(f_bavail=0 if is_full else usual.f_bavail, f_frsize=usual.f_frsize)

    monkeypatch.setattr(os, "statvfs", statvfs)
    store = SqliteStore(full / "remora.db")
    await store.open()
    assert await record(store, 2, story(2), at_s=2) is Outcome.NEW
    await store.close()


def test_a_full_disk_is_told_with_both_places_that_may_lack_room(tmp_path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(sqlite3.OperationalError) as full:
            connection.execute("CREATE TABLE grows (value)")
    told = explained(full.value, tmp_path / "remora.db")
    assert told.message.endswith("remora.db cannot be used now: database or disk is full")
    assert told.hint.startswith("make room on its disk, or where SQLite has its temporary files")
