"""Does a dump come into the mirror whole, once, second-hand, and without a request?"""

import gzip
import json
import os
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from remora.contracts import Store
from remora.contracts.importing import Importing
from remora.core.errors import ConfigurationError
from remora.core.item import Item
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.segment import SegmentKind
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags, Settings
from remora.operate.jobs.importing import Imported, import_files
from remora.read.mirror import MirrorReader
from remora.sim.world import World, WorldSettings
from remora.sources.dump_rows import body_of
from remora.sources.dumps import fingerprint, pages
from remora.stores import open_store
from remora.stores.importing import open_importing
from tests.read.conftest import item, keep

SOURCE = "hackernews"
WORLD = World(WorldSettings(seed=7, items=400, absent_share=0.02, odd_share=0.05))
BODIES = dict(WORLD.dump(WORLD.settings.start_ns))
ABSENT = sorted(set(range(1, 401)) - BODIES.keys())


def settings_of(url: str) -> Settings:
    return load(Flags(store=url, source=SOURCE), {})


async def import_all(url: str, *paths: Path) -> list[Imported]:
    return await import_files(settings_of(url), SOURCE, paths, tell=lambda _file, _rows: None)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.ndjson"
    path.write_bytes(b"".join(body.replace(b"\n", b" ") + b"\n" for body in BODIES.values()))
    return path


def longer(dump: Path) -> Path:
    """The same dump with one more item."""
    other = dump.with_name("other.ndjson")
    other.write_bytes(dump.read_bytes() + b'{"id":401,"type":"job","time":1}\n')
    return other


def under_another_name(dump: Path, name: bytes) -> Path:
    return dump.rename(dump.with_name(os.fsdecode(name)))


def shuffle(dump: Path) -> None:
    """One half of the lines, in random order."""
    lines = dump.read_bytes().splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    dump.write_bytes(b"".join(lines[: len(lines) // 2]))


async def held(url: str) -> dict[int, bytes]:
    store = open_store(url, read_only=True)
    await store.open()
    found = dict([pair async for pair in store.bodies(SOURCE)])
    await store.close()
    return found


async def test_an_imported_mirror_equals_the_world_and_owes_only_what_the_dump_lacks(url: str, dump: Path) -> None:
    (told,) = await import_all(url, dump)
    assert (told.rows, told.items, told.passed_over) == (len(BODIES), len(BODIES), 0)
    assert await held(url) == {item_id: body.replace(b"\n", b" ") for item_id, body in BODIES.items()}
    store = open_store(url)
    await store.open()
    uncovered = (await store.coverage(SOURCE)).uncovered(IdRange(1, 400))
    assert [item_id for hole in uncovered for item_id in range(hole.start, hole.end + 1)] == ABSENT
    await store.close()
    async with MirrorReader(url) as mirror:
        assert (await mirror.query("SELECT count(*) FROM item_fields WHERE second_hand")).rows == ((len(BODIES),),)
        assert len([change async for change in mirror.changes()]) == len(BODIES)


async def test_importing_a_file_again_changes_nothing(url: str, dump: Path) -> None:
    await import_all(url, dump)
    (again,) = await import_all(url, dump)
    assert (again.rows, again.items) == (len(BODIES), len(BODIES))
    assert (await import_all(url, longer(dump)))[0].items == 1
    async with MirrorReader(url) as mirror:
        assert len([change async for change in mirror.changes()]) == len(BODIES) + 1


async def test_a_file_whose_name_is_no_text_is_imported_once_and_told_by_its_bytes(url: str, dump: Path) -> None:
    named = under_another_name(dump, b"z\xfcrich.ndjson")
    [imported] = await import_all(url, named)
    assert imported.items == len(BODIES)
    assert imported.file == rf"{dump.parent}/z\xfcrich.ndjson"
    [again] = await import_all(url, named)
    assert again.file == imported.file


async def test_a_file_that_was_corrected_in_its_middle_is_read_again(url: str, tmp_path: Path) -> None:
    lines = [b'{"id":%d,"type":"comment","text":"%s"}\n' % (item_id, b"x" * 400) for item_id in range(1, 1_001)]
    path = tmp_path / "dump.ndjson"
    path.write_bytes(b"".join([*lines[:500], lines[500].replace(b"{", b"["), *lines[501:]]))
    assert (await import_all(url, path))[0].items == 999
    path.write_bytes(b"".join(lines))
    assert (await import_all(url, path))[0].items == 1
    assert len(await held(url)) == 1_000


async def test_an_interrupted_import_goes_on_after_the_last_stored_page(url: str, dump: Path) -> None:
    store = open_importing(url)
    await store.open()
    begun = await store.begin_import(SOURCE, file=dump.name, fingerprint=fingerprint(dump), now_ns=1)
    first = [Item(item_id, b"stored before the kill") for item_id in sorted(BODIES)[:200]]
    await store.import_items(SOURCE, begun, first, rows_read=200, now_ns=1)
    await store.close()
    (told,) = await import_all(url, dump)
    assert (told.rows, told.items) == (len(BODIES), len(BODIES))
    assert list((await held(url)).values()).count(b"stored before the kill") == 200


async def test_a_dump_in_random_order_is_covered_at_its_end(url: str, dump: Path) -> None:
    shuffle(dump)
    await import_all(url, dump)
    store = open_store(url, read_only=True)
    await store.open()
    covered = {n for piece in (await store.coverage(SOURCE)).ranges for n in range(piece.start, piece.end + 1)}
    await store.close()
    assert covered == set(await held(url))


async def test_what_the_source_itself_said_is_not_overwritten_and_plans_are_made_anew(url: str, dump: Path) -> None:
    store = open_store(url)
    await store.open()
    own = item(5, type="story", title="first-hand")
    await keep(store, own, source=SOURCE)
    await store.plan(SOURCE, SegmentKind.BACKFILL, [IdRange(1, 450)], now_ns=1)
    await store.close()
    await import_all(url, dump)
    assert (await held(url))[5] == own.body
    async with MirrorReader(url) as mirror:
        assert (await mirror.query("SELECT id FROM item_fields WHERE NOT second_hand")).rows == ((5,),)
    store = open_store(url)
    await store.open()
    # What the dump lacks is still planned, and nothing else.
    assert await store.open_segments(SOURCE) == {SegmentKind.BACKFILL: len(ABSENT) + 50}
    # Asking the source makes an item first-hand, whether it changed or not.
    await keep(store, Item(6, BODIES[6]), at_s=10, source=SOURCE)
    await store.close()
    async with MirrorReader(url) as mirror:
        found = await mirror.query("SELECT id FROM item_fields WHERE NOT second_hand ORDER BY id")
        assert found.rows == ((5,), (6,))


FULL: Mapping[str, Any] = {
    "title": "My YC app: Dropbox",
    "url": "http://www.getdropbox.com/u/2/screencast.html",
    "text": None,
    "dead": None,
    "by": "dhouston",
    "score": 111,
    "time": 1175714200,
    "timestamp": datetime(2007, 4, 4, 19, 16, 40, tzinfo=UTC),
    "type": "story",
    "id": 8863,
    "parent": None,
    "descendants": 71,
    "ranking": None,
    "deleted": None,
}
STORY = (
    b'{"by":"dhouston","descendants":71,"id":8863,"score":111,"time":1175714200,"title":"My YC app: Dropbox",'
    b'"type":"story","url":"http://www.getdropbox.com/u/2/screencast.html"}'
)
NUMBERED_TYPES: Mapping[str, Any] = {
    "id": 15, "deleted": 0, "type": 2, "by": "sama", "time": datetime(2006, 10, 9, 19, 51, 1),  # noqa: DTZ001
    "text": "the rising star",
    "dead": 0, "parent": 1, "poll": 0, "kids": [17], "url": "", "score": 0, "title": "", "parts": [], "descendants": 0,
    "words": ["rising"],
}  # fmt: skip
COMMENT = b'{"by":"sama","id":15,"kids":[17],"parent":1,"text":"the rising star","time":1160423461,"type":"comment"}'


@pytest.mark.parametrize(
    "row, body",
    [
        pytest.param(FULL, STORY, id="BigQuery"),
        pytest.param({**FULL, "id": "8863", "time": "1175714200", "score": "111"}, STORY, id="BigQuery as JSON"),
        pytest.param({**FULL, "score": 111.0, "descendants": 71.0, "time": FULL["timestamp"]}, STORY, id="fractions"),
        pytest.param(NUMBERED_TYPES, COMMENT, id="Hugging Face"),
    ],
)
def test_a_row_of_a_public_dump_becomes_the_body_of_the_provider(row: Mapping[str, Any], body: bytes) -> None:
    found = body_of(row)
    assert found is not None
    assert found[1] == body


def test_parquet_and_lines_of_a_table_give_the_same_bodies(tmp_path: Path) -> None:
    table, lines = tmp_path / "full.parquet", tmp_path / "full.json.gz"
    pq.write_table(pa.Table.from_pylist([FULL, {**FULL, "id": 8864}]), table, row_group_size=1)
    text = {**FULL, "timestamp": "2007-04-04 19:16:40 UTC", "id": "8863"}
    lines.write_bytes(gzip.compress(json.dumps(text).encode() + b"\nno JSON\n"))
    assert next(row for page, _ in pages(table) for row in page) == (8863, STORY)
    assert next(row for page, _ in pages(table, after_rows=1) for row in page)[0] == 8864
    assert list(pages(lines)) == [([(8863, STORY)], 2)]


async def test_a_file_without_items_is_refused_in_one_sentence(url: str, tmp_path: Path) -> None:
    empty = tmp_path / "x.ndjson"
    empty.write_text("hello\n")
    with pytest.raises(ConfigurationError, match="holds no item of hackernews"):
        await import_all(url, empty)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        await import_all(url, tmp_path / "nothing.parquet")
    pq.write_table(pa.table({"name": ["a"]}), empty)
    with pytest.raises(ConfigurationError, match="no column id, time, type"):
        await import_all(url, empty)


async def test_what_is_no_file_is_refused_before_anybody_waits_for_it(url: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, sort in ((pipe, "a pipe"), (tmp_path, "a folder"), (Path(os.devnull), "a device")):
        with pytest.raises(ConfigurationError, match=f"{path} is {sort}, not a file"):
            await import_all(url, path)


async def test_a_large_import_builds_the_indexes_at_its_end_or_the_next_writer_does(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/hn.db"
    store: Importing = open_importing(url)
    await store.open()
    await store.defer_indexes()
    await store.close()
    opened: Store = open_store(url)
    await opened.open()
    await opened.close()
    async with MirrorReader(url) as mirror:
        found = await mirror.query(
            "SELECT name FROM sqlite_schema WHERE name IN ('items_by_author', 'items_by_domain')"
        )
    assert len(found.rows) == 2
