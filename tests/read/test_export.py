"""Does an export hold everything, typed and whole, and does nobody ever see half of it?"""

import asyncio
import csv
import io
import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet
import pytest

from remora.contracts import Store
from remora.contracts.reader import is_cut_by_size
from remora.core.errors import ConfigurationError
from remora.core.item import Document, Entry
from remora.core.ledger.list_walk import WalkState
from remora.read import mirror as mirrors
from remora.read import parquet, resumable
from remora.read.arrow import by_month, load_pyarrow
from remora.read.export import Wanted, export_csv, export_ndjson
from remora.read.export_rows import DOCUMENT_COLUMNS, ITEM_COLUMNS
from remora.read.mirror import MirrorReader
from remora.read.parquet import export_parquet
from remora.read.resumable import Target, resumable_file
from remora.read.singer import export_singer
from remora.read.tables import as_csv_text
from remora.stores import open_reader
from tests.contract.answers import ARCHIVE, NOW_S, SOURCE, at, record_document
from tests.read.conftest import item, keep

T = TypeVar("T")
ITEMS = Wanted(SOURCE, is_listed=False)
CHATS = Wanted(ARCHIVE, is_listed=True)


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """Every row of a folder of Parquet files."""
    files = sorted(folder.rglob("*.parquet"))
    return [row for file in files for row in pyarrow.parquet.ParquetFile(file).read().to_pylist()]


async def test_ndjson_is_byte_for_byte_what_was_recorded(mirror: MirrorReader) -> None:
    file = io.BytesIO()
    assert await export_ndjson(mirror, ITEMS, Target(file)) == 9
    held = [found.body async for found in mirror.items()]
    assert file.getvalue().splitlines() == held


async def test_csv_has_a_header_and_every_column(mirror: MirrorReader) -> None:
    file = io.BytesIO()
    assert await export_csv(mirror, ITEMS, Target(file)) == 9
    header, first, *_ = csv.reader(io.StringIO(file.getvalue().decode()))
    assert tuple(header) == ITEM_COLUMNS
    found = dict(zip(header, first, strict=True))
    assert (found["id"], found["title"], found["kids"], found["parent"]) == (
        "1",
        "Show HN: Remora &amp; friends",
        "4 2 9 7",
        "",
    )
    assert found["time"] == datetime.fromtimestamp(NOW_S + 1, UTC).isoformat()
    assert json.loads(found["body"])["id"] == 1
    chats = io.BytesIO()
    assert await export_csv(mirror, CHATS, Target(chats)) == 2
    assert chats.getvalue().decode().splitlines()[0] == ",".join(DOCUMENT_COLUMNS)


async def test_any_line_break_in_a_cell_stays_in_its_cell(mirror: MirrorReader, store: Store) -> None:
    await keep(store, item(200, title="a\rb", text="c\r\nd\ne", by="f\r"))
    file = io.BytesIO()
    await export_csv(mirror, Wanted(SOURCE, is_listed=False, first_id=200), Target(file))
    header, *rows = csv.reader(io.StringIO(file.getvalue().decode(), newline=""))
    (found,) = (dict(zip(header, row, strict=True)) for row in rows)
    assert (found["title"], found["text"], found["by"]) == ("a\rb", "c\r\nd\ne", "f\r")
    asked = as_csv_text(await mirror.query("SELECT 'a\rb' AS cell"))
    assert list(csv.reader(io.StringIO(asked, newline=""))) == [["cell"], ["a\rb"]]


async def test_parquet_is_typed_and_has_a_folder_per_month(mirror: MirrorReader, store: Store, tmp_path: Path) -> None:
    await keep(store, item(100, time=0), item(101, time=None), item(102, time=10**14), item(103, time=-5))
    folder = tmp_path / "lake"
    assert await export_parquet(mirror, ITEMS, folder) == 13
    assert names(folder) == ["_remora.json", "month=1970-01", "month=2026-09", "month=unknown"]
    rows = {row["id"]: row for row in rows_in(folder)}
    assert len(rows) == 13
    story = rows[1]
    assert story["time"] == datetime.fromtimestamp(NOW_S + 1, UTC)
    assert (story["kids"], story["dead"], story["score"], story["by"]) == ([4, 2, 9, 7], False, 120, "ada")
    assert story["changed_at"].timestamp() == at(1) / 10**9
    assert rows[102]["time"] is None
    assert json.loads(rows[102]["body"])["time"] == 10**14


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_documents_become_parquet_by_the_month_they_were_fetched(mirror: MirrorReader, tmp_path: Path) -> None:
    assert await export_parquet(mirror, CHATS, tmp_path / "chats") == 2
    assert [row["key"] for row in rows_in(tmp_path / "chats")] == ["chat-1", "chat-2"]


async def test_only_what_changed_since_a_moment_is_exported(mirror: MirrorReader, tmp_path: Path) -> None:
    recent = Wanted(SOURCE, is_listed=False, since_ns=at(3))
    assert await export_parquet(mirror, recent, tmp_path / "lake") == 1
    assert [row["title"] for row in rows_in(tmp_path / "lake")] == ["After"]
    chats = Wanted(ARCHIVE, is_listed=True, since_ns=at(7))
    assert await export_ndjson(mirror, chats, Target(io.BytesIO())) == 0


async def test_a_field_of_an_odd_type_costs_only_itself(mirror: MirrorReader, store: Store, tmp_path: Path) -> None:
    await keep(store, item(200, title=["no", "text"], text="kept", kids="none"))
    await export_parquet(mirror, Wanted(SOURCE, is_listed=False, first_id=200), tmp_path / "lake")
    (row,) = rows_in(tmp_path / "lake")
    assert (row["title"], row["text"], row["kids"]) == (None, "kept", None)


async def test_half_of_a_surrogate_pair_is_replaced(mirror: MirrorReader, store: Store, tmp_path: Path) -> None:
    await keep(store, item(201, title="half \ud83d", text="whole \U0001f642"))
    wanted = Wanted(SOURCE, is_listed=False, first_id=201)
    await export_parquet(mirror, wanted, tmp_path / "lake")
    (row,) = rows_in(tmp_path / "lake")
    assert (row["title"], row["text"]) == ("half \ufffd", "whole \U0001f642")
    assert await export_csv(mirror, wanted, Target(io.BytesIO())) == 1


async def test_a_nul_is_replaced_and_cuts_nothing(mirror: MirrorReader, store: Store, tmp_path: Path) -> None:
    await keep(store, item(202, title="nul \0 x", text="plain"))
    await record_document(store, "chat-1", Document("chat-1", b'{"title":"nul \\u0000 x"}'), at_s=20)
    wanted = Wanted(SOURCE, is_listed=False, first_id=202)
    await export_parquet(mirror, wanted, tmp_path / "lake")
    (row,) = rows_in(tmp_path / "lake")
    assert (row["title"], row["text"]) == ("nul \ufffd x", "plain")
    for each in (wanted, CHATS):
        file = io.BytesIO()
        await export_csv(mirror, each, Target(file))
        assert b"\0" not in file.getvalue()
        assert "nul \ufffd x" in file.getvalue().decode()


async def test_many_months_and_many_rows_lose_nothing(
    mirror: MirrorReader, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tiny bounds: files are closed and begun again, and row groups are written early."""
    monkeypatch.setattr(parquet, "OPEN_FILES_MAX", 2)
    monkeypatch.setattr(parquet, "WAITING_ROWS_MAX", 3)
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 2)
    month_s = 31 * 86_400
    await asyncio.gather(*(keep(store, item(1_000 + n, time=NOW_S + n % 7 * month_s)) for n in range(700)))
    wanted = Wanted(SOURCE, is_listed=False, first_id=1_000)
    assert await export_parquet(mirror, wanted, tmp_path / "lake") == 700
    assert sorted(row["id"] for row in rows_in(tmp_path / "lake")) == list(range(1_000, 1_700))


async def test_a_second_export_replaces_the_first_and_nothing_else(mirror: MirrorReader, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    await export_parquet(mirror, ITEMS, folder)
    await export_parquet(mirror, Wanted(SOURCE, is_listed=False, last_id=2), folder)
    assert [row["id"] for row in rows_in(folder)] == [1, 2]
    assert not [name for name in names(tmp_path) if name.endswith((".part", ".replaced"))]
    mine = tmp_path / "mine"
    write_own(mine)
    with pytest.raises(ConfigurationError, match="not an earlier export"):
        await export_parquet(mirror, ITEMS, mine)
    assert names(mine) == ["thesis.txt"]


async def test_an_earlier_export_that_was_put_aside_by_hand_stays(mirror: MirrorReader, tmp_path: Path) -> None:
    folder, aside = tmp_path / "lake", tmp_path / "lake.old"
    await export_parquet(mirror, ITEMS, folder)
    folder.rename(aside)
    for _ in ("anew", "in place of it"):
        await export_parquet(mirror, Wanted(SOURCE, is_listed=False, last_id=2), folder)
    assert (len(rows_in(aside)), len(rows_in(folder))) == (9, 2)


def write_own(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")


async def test_an_export_that_fails_leaves_the_earlier_one_whole(mirror: MirrorReader, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    await export_parquet(mirror, ITEMS, folder)
    with pytest.raises(RuntimeError):
        fail_half_way(parquet.complete_folder(folder), lambda part: write_own(part / "month=2026-01"))
    assert len(rows_in(folder)) == 9
    file = tmp_path / "all.csv"
    with pytest.raises(RuntimeError):
        fail_half_way(resumable_file(file, "all"), lambda target: target.file.write(b"half"))
    assert not file.exists()
    assert not [name for name in names(tmp_path) if name.endswith(".part")]


def fail_half_way(opening: AbstractContextManager[T], write: Callable[[T], object]) -> None:
    with opening as target:
        write(target)
        raise RuntimeError


@pytest.mark.parametrize("write", [export_ndjson, export_csv])
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_an_interrupted_file_goes_on_where_it_was_and_is_the_same_in_the_end(
    mirror: MirrorReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., Awaitable[int]]
) -> None:
    monkeypatch.setattr(mirrors, "PAGE_ROWS", 2)
    monkeypatch.setattr(resumable, "REMEMBER_EVERY_ROWS", 4)
    whole, path = io.BytesIO(), tmp_path / "all"
    assert await write(mirror, ITEMS, Target(whole)) == 9
    told: list[int] = []
    for interrupted_after in (1, 6, 8):
        with pytest.raises(RuntimeError):
            await interrupted(mirror, path, write, interrupted_after, told)
    with resumable_file(path, "all of it") as target:
        told.append(target.rows)
        assert await write(mirror, ITEMS, target) == 9
    assert told == [0, 0, 4, 8]
    assert path.read_bytes() == whole.getvalue()
    assert names(tmp_path) == ["all", *[name for name in names(tmp_path) if name.startswith("hn.db")]]


async def interrupted(
    mirror: MirrorReader, path: Path, write: Callable[..., Awaitable[int]], after: int, told: list[int]
) -> None:
    def tell(rows: int) -> None:
        assert not path.exists(), "nobody sees half of it"
        if rows > after:
            raise RuntimeError

    with resumable_file(path, "all of it") as target:
        told.append(target.rows)
        target.tell = tell
        await write(mirror, ITEMS, target)


async def test_a_second_export_into_the_same_file_is_refused_while_the_first_is_written(
    mirror: MirrorReader, tmp_path: Path
) -> None:
    path = tmp_path / "all"
    with resumable_file(path, "all of it") as first:
        first.file.write(b"half, ")
        for asked in ("all of it", "another"):
            with pytest.raises(ConfigurationError, match=f"another process is writing {path}"):
                await export_into(path, asked, mirror)
        first.file.write(b"whole")
    assert path.read_bytes() == b"half, whole"
    assert await export_into(path, "all of it", mirror) == 9


async def export_into(path: Path, asked: str, mirror: MirrorReader) -> int:
    with resumable_file(path, asked) as target:
        return await export_ndjson(mirror, ITEMS, target)


async def test_a_second_export_into_the_same_folder_is_refused_while_the_first_is_written(
    mirror: MirrorReader, tmp_path: Path
) -> None:
    folder = tmp_path / "lake"
    with parquet.complete_folder(folder) as part:
        write_own(part / "month=2026-01")
        with pytest.raises(ConfigurationError, match=f"another process is writing {folder}"):
            await export_parquet(mirror, ITEMS, folder)
        (part / parquet.MANIFEST).write_text("{}")
    assert names(folder / "month=2026-01") == ["thesis.txt"]
    assert await export_parquet(mirror, ITEMS, folder) == 9


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_an_unfinished_file_of_another_question_is_begun_anew(
    mirror: MirrorReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "PAGE_ROWS", 2)
    monkeypatch.setattr(resumable, "REMEMBER_EVERY_ROWS", 1)
    with pytest.raises(RuntimeError):
        await interrupted(mirror, tmp_path / "all", export_ndjson, 8, [])
    assert "all.progress" in names(tmp_path)
    with resumable_file(tmp_path / "all", "another") as target:
        assert target.rows == 0


async def test_a_reply_whose_number_no_column_can_hold_costs_only_itself(
    mirror: MirrorReader, store: Store, tmp_path: Path
) -> None:
    await keep(store, item(202, kids=[10**30, 5]))
    wanted = Wanted(SOURCE, is_listed=False, first_id=202)
    await export_parquet(mirror, wanted, tmp_path / "lake")
    (row,) = rows_in(tmp_path / "lake")
    assert row["kids"] == [5]
    assert await export_singer(mirror, wanted, Target(io.BytesIO())) == 1


async def test_ids_beyond_every_column_are_a_range_like_any_other(mirror: MirrorReader) -> None:
    far = 10**30
    assert await export_ndjson(mirror, Wanted(SOURCE, is_listed=False, last_id=far), Target(io.BytesIO())) == 9
    assert await export_ndjson(mirror, Wanted(SOURCE, is_listed=False, first_id=far), Target(io.BytesIO())) == 0
    assert [len(page["id"]) async for page in mirror.item_column_pages(SOURCE, last_id=far)] == [9]


async def test_only_the_owner_may_read_an_export(mirror: MirrorReader, tmp_path: Path) -> None:
    await export_parquet(mirror, ITEMS, tmp_path / "lake")
    assert modes(tmp_path / "lake") == {0o700, 0o600}


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*.parquet"))}


async def test_singer_messages_are_a_schema_then_records_then_a_state(mirror: MirrorReader) -> None:
    file = io.BytesIO()
    assert await export_singer(mirror, ITEMS, Target(file)) == 9
    schema, *records, state = [json.loads(line) for line in file.getvalue().splitlines()]
    assert (schema["type"], schema["stream"], schema["key_properties"]) == ("SCHEMA", SOURCE, ["source", "id"])
    assert {record["type"] for record in records} == {"RECORD"}
    assert set(records[0]["record"]) <= set(schema["schema"]["properties"])
    assert records[0]["record"]["time"] == datetime.fromtimestamp(NOW_S + 1, UTC).isoformat()
    position = state["value"]["bookmarks"][SOURCE]["position"]
    assert [change async for change in mirror.changes(since=position)] == []


@pytest.mark.slow
async def test_a_few_giants_do_not_share_a_page(mirror: MirrorReader, store: Store) -> None:
    for item_id in range(300, 304):
        await keep(store, item(item_id, text="x" * (9 << 20)))
    sizes = [len(page) async for page in mirror.item_pages(first_id=300)]
    assert sizes == [2, 2]
    columns = [list(page["id"]) async for page in mirror.item_column_pages(SOURCE, first_id=300)]
    assert columns == [[300, 301], [302, 303]]
    assert [item_id async for item_id, _ in store.bodies(SOURCE, first_id=300)] == [300, 301, 302, 303]


async def test_a_page_by_columns_is_the_page_of_items(mirror: MirrorReader, store: Store, url: str) -> None:
    odd = 'a "quoted" \\ name\twith \u2028 \U0001f41f and \x01'
    await keep(store, item(300, by=odd, text=odd, time=-5, score=2**62), item(301, by=None, type=None, time=None))
    await keep(store, item(300, by=odd, text=odd, time=-5, score=2**62), at_s=90)  # read again, unchanged
    reader = open_reader(url)
    await reader.open()
    page = await reader.item_page(SOURCE, first_id=2, last_id=400, changed_since_ns=0, limit=10)
    columns = await reader.item_columns(SOURCE, first_id=2, last_id=400, changed_since_ns=0, limit=10)
    ended = await reader.item_columns(SOURCE, first_id=401, last_id=500, changed_since_ns=0, limit=10)
    await reader.close()
    for name in ("id", "type", "by", "time", "parent", "score", "dead", "revision", "body"):
        assert list(columns[name]) == [getattr(found, name) for found in page], name
    for name in ("first_seen", "last_fetched", "changed"):
        assert [at_ms * 1_000_000 for at_ms in columns[f"{name}_at"]] == [getattr(i, f"{name}_ns") for i in page], name
    assert page[-2].last_fetched_ns > page[-2].changed_ns
    assert not ended["id"]


@pytest.mark.parametrize("turns", [3, 100])
def test_rows_are_cut_by_month_however_often_it_changes(turns: int) -> None:
    times = [None if number % 5 == 4 else 1_767_225_600 + 40 * 86_400 * (number % 2) for number in range(turns)]
    moments = pyarrow.array(times, pyarrow.timestamp("s", tz="UTC"))
    table = pyarrow.table({"id": list(range(turns)), "time": moments})
    cut = {month: rows.column("id").to_pylist() for month, rows in by_month(load_pyarrow(), table, "time")}
    wanted: dict[str | None, list[int]] = {}
    for number, time in enumerate(times):
        wanted.setdefault(None if time is None else f"2026-0{number % 2 + 1}", []).append(number)
    assert cut == wanted


async def test_an_interrupted_parquet_export_goes_on_where_it_was(
    mirror: MirrorReader, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "REMEMBER_EVERY_ROWS", 1)
    monkeypatch.setattr("remora.read.mirror.BULK_ROWS", 4)
    folder, written = tmp_path / "lake", list[int]()

    def killed(rows: int) -> None:
        written.append(rows)
        if rows > 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await export_parquet(mirror, ITEMS, folder, tell=killed)
    assert not folder.exists()
    written.clear()
    assert await export_parquet(mirror, ITEMS, folder, tell=written.append) == 9
    assert written[0] == 8, "the first page was not read again"
    assert sorted(row["id"] for row in rows_in(folder)) == [1, 2, 3, 4, 5, 7, 20, 21, 30]
    assert not [name for name in names(tmp_path) if name.endswith((".part", ".old"))]


@pytest.mark.slow
async def test_a_page_of_large_documents_says_that_it_was_cut(store: Store, url: str) -> None:
    entries = [Entry(f"large-{number}", "1") for number in range(3)]
    await store.record_page(ARCHIVE, entries, WalkState(), now_ns=at(7))
    for entry in entries:
        await record_document(store, entry.key, Document(entry.key, b'"%s"' % (b"x" * (9 << 20)), "1"), at_s=8)
    reader = open_reader(url)
    await reader.open()
    first = await reader.document_page(ARCHIVE, after="chat-2", fetched_since_ns=0, limit=10)
    rest = await reader.document_page(ARCHIVE, after=first[-1].key, fetched_since_ns=0, limit=10)
    await reader.close()
    assert [document.key for document in (*first, *rest)] == ["large-0", "large-1", "large-2"]
    assert (is_cut_by_size(first), is_cut_by_size(rest)) == (True, False)
