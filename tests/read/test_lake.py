"""Does a folder of Parquet files follow the mirror, keep what was edited, and show whole files only?"""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest

from remora.contracts import Observation, Store
from remora.core.errors import ConfigurationError
from remora.core.item import Document, Entry, Item
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.list_walk import WalkState
from remora.core.verdict import Found
from remora.operate.jobs.following import Patience
from remora.operate.jobs.keeping import housekeeping
from remora.operate.jobs.lake_following import follow_into
from remora.read import lake as lakes
from remora.read import mirror as mirrors
from remora.read import parquet
from remora.read.export import Wanted
from remora.read.lake import Lake
from remora.read.mirror import MirrorReader
from remora.read.parquet import LAKE_STATE, export_parquet
from tests.contract.answers import ARCHIVE, SOURCE, at, record_document
from tests.read.conftest import item, keep

NEWEST = """
SELECT id, title, score FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true)
QUALIFY row_number() OVER (PARTITION BY id ORDER BY revision DESC, changed_at DESC) = 1 ORDER BY id
"""


NEWEST_CHATS = """
SELECT key, title, revision, vanished_at IS NOT NULL FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true)
QUALIFY row_number() OVER (PARTITION BY key ORDER BY revision DESC, exported_at DESC) = 1 ORDER BY key
"""


def newest_chats(folder: Path) -> list[tuple[str, str, int, bool]]:
    """What DuckDB sees: the newest row of each document."""
    with duckdb.connect() as connection:
        return connection.execute(NEWEST_CHATS.format(folder=folder)).fetchall()


def newest(folder: Path) -> dict[int, tuple[str | None, int | None]]:
    """What DuckDB sees: the newest row of each item."""
    with duckdb.connect() as connection:
        rows = connection.execute(NEWEST.format(folder=folder)).fetchall()
    return {item_id: (title, score) for item_id, title, score in rows}


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def rows_of(folder: Path, item_id: int) -> list[Mapping[str, Any]]:
    tables = (pyarrow.parquet.ParquetFile(file).read().to_pylist() for file in files(folder))
    return [row for rows in tables for row in rows if row["id"] == item_id]


async def follow(mirror: MirrorReader, url: str, folder: Path) -> int:
    return await follow_into(
        mirror, url, Wanted(SOURCE, is_listed=False), folder, tell=lambda _: None, patience=Patience(print), once=True
    )


async def follow_chats(mirror: MirrorReader, url: str, folder: Path) -> int:
    return await follow_into(
        mirror, url, Wanted(ARCHIVE, is_listed=True), folder, tell=lambda _: None, patience=Patience(print), once=True
    )


async def test_a_lake_has_every_item_and_keeps_what_was_edited(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "lake"
    assert await follow(mirror, url, folder) == 0
    assert len(newest(folder)) == 9
    await keep(store, item(5, type="story", title="Deleted", text=""), item(60, type="story", title="New"), at_s=20)
    assert await follow(mirror, url, folder) == 2
    assert newest(folder)[5][0] == "Deleted"
    assert newest(folder)[60][0] == "New"
    assert {row["title"] for row in rows_of(folder, 5)} == {"Deleted", "After", "Before"}
    assert await follow(mirror, url, folder) == 0
    async with housekeeping(url) as keeping:
        (reader,) = await keeping.named_readers()
    assert reader.position == await mirror.newest_position()


async def test_an_export_replaces_no_lake(store: Store, mirror: MirrorReader, url: str, tmp_path: Path) -> None:
    """A lake may hold contents that the mirror has deleted since."""
    folder = tmp_path / "lake"
    await follow(mirror, url, folder)
    assert len(rows_of(folder, 5)) == 2
    with pytest.raises(ConfigurationError, match="kept fresh by remora export --follow"):
        await export_parquet(mirror, Wanted(SOURCE, is_listed=False), folder)
    assert len(rows_of(folder, 5)) == 2
    await keep(store, item(5, type="story", title="Later"), at_s=70)
    assert await follow(mirror, url, folder) == 1
    assert len(rows_of(folder, 5)) == 3


@pytest.mark.slow
async def test_many_small_files_become_one_and_no_revision_is_lost(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lakes, "REPLACED_KEPT_NS", 0)
    folder = tmp_path / "lake"
    await follow(mirror, url, folder)
    for turn in range(lakes.SMALL_FILES_MAX + 3):
        # A new score each time, and now and then a new title.
        await keep(store, item(30, type="story", title=f"Title {turn // 4}", score=turn), at_s=30 + turn)
        await follow(mirror, url, folder)
    assert len(files(folder)) <= 2 + lakes.SMALL_FILES_MAX
    last = lakes.SMALL_FILES_MAX + 2
    assert newest(folder)[30] == (f"Title {last // 4}", last)
    assert {row["title"] for row in rows_of(folder, 30)} == {"Fish swim", *(f"Title {n // 4}" for n in range(last + 1))}


async def test_a_kill_between_the_files_and_the_state_writes_again_and_loses_nothing(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "lake"
    await follow(mirror, url, folder)
    state = (folder / LAKE_STATE).read_bytes()
    await keep(store, item(60, type="story", title="New"), at_s=20)
    await follow(mirror, url, folder)
    restore(folder, state)
    assert await follow(mirror, url, folder) == 1
    assert newest(folder)[60][0] == "New"
    assert not list(folder.rglob("*.part"))


def restore(folder: Path, state: bytes) -> None:
    (folder / LAKE_STATE).write_bytes(state)


async def test_a_content_that_came_and_went_between_two_looks_is_kept(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "lake"
    await follow(mirror, url, folder)
    for turn in range(3):
        await keep(store, item(30, type="story", by=f"author {turn}", title=f"Edit {turn}"), at_s=20 + turn)
    await keep(store, Item(30, b'{"deleted":true,"id":30,"type":"story"}', type="story", deleted=True), at_s=30)
    await follow(mirror, url, folder)
    rows = {row["revision"]: row for row in rows_of(folder, 30)}
    assert [rows[number]["title"] for number in sorted(rows)] == ["Fish swim", "Edit 0", "Edit 1", "Edit 2", None]
    assert [rows[number]["by"] for number in sorted(rows)] == ["eve", "author 0", "author 1", "author 2", None]
    assert [rows[number]["deleted"] for number in sorted(rows)] == [False, False, False, False, True]


async def test_an_earlier_content_with_absurd_fields_stops_nothing(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    odd = b'{"id":30,"by":"\\ud800","score":%d,"time":-5,"parent":"x","title":7,"text":"odd"}' % 10**30
    await keep(store, Item(30, odd, content=b"odd"), at_s=20)
    await keep(store, item(30, title="Sane"), at_s=21)
    await follow(mirror, url, tmp_path / "lake")
    row = next(row for row in rows_of(tmp_path / "lake", 30) if row["revision"] == 2)
    assert (row["by"], row["score"], row["time"], row["parent"], row["text"]) == ("\ufffd", None, None, None, "odd")


async def test_edits_of_one_batch_are_kept_although_their_moments_differ(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "lake"
    await follow(mirror, url, folder)
    edits = [
        Observation(Discovery.item(item_id, via=Lane.LIVE), Found(item(item_id, title=title)), at(at_s), at(at_s))
        for item_id, title, at_s in ((30, "Early", 20), (60, "Another", 25))
    ]
    await store.record_many(SOURCE, edits)
    await keep(store, item(30, title="Late"), at_s=30)
    await follow(mirror, url, folder)
    assert {row["title"] for row in rows_of(folder, 30)} == {"Fish swim", "Early", "Late"}


async def test_a_lake_that_begins_late_has_every_earlier_content(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    await record_document(store, "chat-2", Document("chat-2", b'{"title":"Edited"}', "2026-01-04"), at_s=20)
    await follow(mirror, url, tmp_path / "lake")
    assert [(row["title"], row["revision"]) for row in rows_of(tmp_path / "lake", 5)] == [("Before", 1), ("After", 2)]
    await follow_chats(mirror, url, tmp_path / "chats")
    assert sorted(titles_of(tmp_path / "chats")) == ["About chat-1", "About chat-2", "Edited"]
    assert newest_chats(tmp_path / "chats")[1] == ("chat-2", "Edited", 2, False)


async def test_documents_that_changed_twice_between_two_looks_keep_both_contents_whatever_their_key(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    odd = "a/b\n\\ 'c' \N{SNOWMAN}"
    await follow_chats(mirror, url, tmp_path / "chats")
    for turn in range(3):
        edited = Document(odd, f'{{"title":"Edit {turn}"}}'.encode(), f"2026-02-0{turn + 1}")
        await record_document(store, odd, edited, at_s=30 + turn)
    await follow_chats(mirror, url, tmp_path / "chats")
    assert {f"Edit {turn}" for turn in range(3)} <= set(titles_of(tmp_path / "chats"))
    assert (odd, "Edit 2", 3, False) in newest_chats(tmp_path / "chats")


def titles_of(folder: Path) -> list[str]:
    return [row["title"] for file in files(folder) for row in pyarrow.parquet.ParquetFile(file).read().to_pylist()]


async def test_a_reader_can_open_the_files_of_its_list_after_a_merge_until_they_are_old(
    store: Store, mirror: MirrorReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lakes, "SMALL_FILES_MAX", 1)
    now_ns = [at(0)]
    lake = Lake(tmp_path / "lake", SOURCE, is_listed=False, now_ns=lambda: now_ns[0])
    await lake.open(mirror)
    await keep(store, item(30, title="One"), at_s=20)
    await lake.run_once(mirror)
    listed = files(tmp_path / "lake")
    await keep(store, item(30, title="Two"), at_s=21)
    await lake.run_once(mirror)
    assert set(listed) <= set(files(tmp_path / "lake"))
    now_ns[0] += lakes.REPLACED_KEPT_NS
    assert await lake.run_once(mirror) == 0
    assert not set(listed) <= set(files(tmp_path / "lake"))
    assert {row["title"] for row in rows_of(tmp_path / "lake", 30)} == {"Fish swim", "One", "Two"}
    lake.close()


async def test_a_second_process_may_not_follow_into_the_same_folder(mirror: MirrorReader, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("lake")
    first, second = (Lake(tmp_path / name, SOURCE, is_listed=False) for name in ("lake", "link"))
    await first.open(mirror)
    with pytest.raises(ConfigurationError, match="another process follows"):
        await second.open(mirror)
    first.close()
    await second.open(mirror)
    second.close()


class Killed(BaseException):
    """Nothing after this ran."""


@pytest.mark.slow
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_kill_at_any_file_operation_loses_no_content_and_leaves_only_whole_files(
    store: Store, mirror: MirrorReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lakes, "SMALL_FILES_MAX", 1)
    monkeypatch.setattr(lakes, "REPLACED_KEPT_NS", 0)
    lake = Lake(tmp_path / "lake", SOURCE, is_listed=False)
    await lake.open(mirror)
    titles = {"Fish swim"}
    for killed_at in range(7):
        for half in ("a", "b"):
            await keep(store, item(30, title=f"Edit {killed_at}{half}"), at_s=20 + killed_at)
            titles.add(f"Edit {killed_at}{half}")
        with monkeypatch.context() as patch:
            kill_at(patch, killed_at)
            with contextlib.suppress(Killed):
                await lake.run_once(mirror)
                await lake.run_once(mirror)
        lake.close()
        assert newest(tmp_path / "lake"), "every file can be read"
        lake = Lake(tmp_path / "lake", SOURCE, is_listed=False)
        await lake.open(mirror)
        await lake.run_once(mirror)
        assert {row["title"] for row in rows_of(tmp_path / "lake", 30)} == titles
        assert newest(tmp_path / "lake")[30][0] == f"Edit {killed_at}b"
    lake.close()
    assert unfinished(tmp_path) == []


async def test_what_changes_after_the_first_export_was_interrupted_is_in_the_lake(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "BULK_ROWS", 2)
    monkeypatch.setattr(parquet, "REMEMBER_EVERY_ROWS", 2)
    folder, wanted = tmp_path / "lake", Wanted(SOURCE, is_listed=False)

    def tell(rows: int) -> None:
        if rows >= 6:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await follow_into(mirror, url, wanted, folder, tell=tell, patience=Patience(print), once=True)
    await keep(store, item(1, type="story", title="Edited meanwhile"), at_s=50)
    told: list[int] = []
    await follow_into(mirror, url, wanted, folder, tell=told.append, patience=Patience(print), once=True)
    assert told[0] > 2, "the first export began anew"
    assert newest(folder)[1][0] == "Edited meanwhile"


def unfinished(folder: Path) -> list[Path]:
    return list(folder.rglob("*.part"))


def kill_at(patch: pytest.MonkeyPatch, number: int) -> None:
    """End at the operation of this number that makes a file appear or disappear."""
    left = [number]

    def dying(real: Callable[..., object]) -> Callable[..., object]:
        def operation(*words: Any, **named: Any) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(*words, **named)

        return operation

    for name in ("replace", "unlink"):
        patch.setattr(Path, name, dying(getattr(Path, name)))


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_folder_that_is_refused_keeps_no_changes(mirror: MirrorReader, url: str, tmp_path: Path) -> None:
    write_own(tmp_path / "mine")
    for folder in (tmp_path / "absent" / "lake", tmp_path / "mine"):
        with pytest.raises(ConfigurationError):
            await follow(mirror, url, folder)
    async with housekeeping(url) as keeping:
        assert not await keeping.named_readers()


def write_own(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")


async def test_a_folder_of_another_source_is_refused(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    await follow(mirror, url, tmp_path / "lake")
    with pytest.raises(ConfigurationError, match="follows"):
        await Lake(tmp_path / "lake", "other", is_listed=False).open(mirror)


async def test_a_lake_of_documents_keeps_edits_and_knows_what_vanished_and_came_back(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "chats"
    await follow_chats(mirror, url, folder)
    assert newest_chats(folder) == [("chat-1", "About chat-1", 1, False), ("chat-2", "About chat-2", 1, False)]

    await record_document(store, "chat-2", Document("chat-2", b'{"title":"Edited"}', "2026-01-04"), at_s=20)
    await list_chats(store, "chat-2", walk=1)
    missed = await store.unlisted(ARCHIVE, walk=1, limit=9)
    assert await store.record_vanished(ARCHIVE, missed, now_ns=at(21)) == 2
    assert await follow_chats(mirror, url, folder) == 2, "the edit, and the one that vanished with a content"
    assert newest_chats(folder) == [("chat-1", "About chat-1", 1, True), ("chat-2", "Edited", 2, False)]

    await list_chats(store, "chat-1", walk=2)
    await follow_chats(mirror, url, folder)
    assert newest_chats(folder)[0] == ("chat-1", "About chat-1", 1, False)
    titles = titles_of(folder)
    assert {"About chat-2", "Edited"} <= set(titles), "the earlier content stays"


async def list_chats(store: Store, *keys: str, walk: int) -> None:
    entries = [Entry(key, "2026-01-01") for key in keys]
    await store.record_page(ARCHIVE, entries, WalkState(walk=walk), now_ns=at(20 + walk))


async def test_many_small_files_of_documents_become_one_and_no_edit_is_lost(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lakes, "SMALL_FILES_MAX", 2)
    monkeypatch.setattr(lakes, "REPLACED_KEPT_NS", 0)
    folder = tmp_path / "chats"
    await follow_chats(mirror, url, folder)
    for turn in range(5):
        edited = Document("chat-1", f'{{"title":"Edit {turn}"}}'.encode(), f"2026-02-0{turn + 1}")
        await record_document(store, "chat-1", edited, at_s=30 + turn)
        await follow_chats(mirror, url, folder)
    assert len(files(folder)) <= 4
    titles = titles_of(folder)
    assert {f"Edit {turn}" for turn in range(5)} <= set(titles)
    assert newest_chats(folder)[0][1:3] == ("Edit 4", 6)
