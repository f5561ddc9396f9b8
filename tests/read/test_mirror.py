"""Does a reader see what the mirror holds, while another process writes, and can it never write?"""

import asyncio
import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

import remora
from remora.contracts import Store
from remora.core.errors import ConfigurationError
from remora.read.mirror import MirrorReader
from remora.read.tables import as_json_text, as_table
from remora.stores import open_store
from remora.stores.reading import CommonReader
from tests.contract.answers import ARCHIVE, NOW_S, SOURCE, at
from tests.read.conftest import item, keep


async def test_the_sources_of_a_mirror_are_named_with_their_kind(mirror: MirrorReader) -> None:
    assert [(source.name, source.is_listed) for source in await mirror.sources()] == [(ARCHIVE, True), (SOURCE, False)]


async def test_an_item_has_its_columns_its_fields_and_its_times(mirror: MirrorReader) -> None:
    story = await mirror.item(1)
    assert story is not None
    assert (story.type, story.by, story.time, story.score) == ("story", "ada", NOW_S + 1, 120)
    assert (story.title, story.kids) == ("Show HN: Remora &amp; friends", (4, 2, 9, 7))
    assert story.first_seen_ns == at(1)
    assert story.created_at is not None
    assert int(story.created_at.timestamp()) == NOW_S + 1
    assert await mirror.item(999) is None


async def test_an_id_beyond_64_bits_is_held_by_no_mirror_and_harms_no_thread(
    mirror: MirrorReader, store: Store
) -> None:
    beyond = 2**63
    assert await mirror.item(beyond) is None
    assert await mirror.history(beyond) == ()
    assert await mirror.thread(beyond) is None
    await keep(store, item(60, type="story", title="odd", kids=[beyond, 61]), item(61, parent=60, text="reply"), at_s=9)
    thread = await mirror.thread(60)
    assert thread is not None
    assert [node.item.id for _, node in thread.walk()] == [60, 61]


async def test_what_is_recorded_while_the_reader_is_open_is_seen(mirror: MirrorReader, store: Store) -> None:
    await keep(store, item(40, text="new"), at_s=9)
    found = await mirror.item(40)
    assert found is not None
    assert found.text == "new"


async def test_items_are_read_in_order_across_pages(mirror: MirrorReader, store: Store) -> None:
    await asyncio.gather(*(keep(store, item(item_id), at_s=9) for item_id in range(100, 1_203)))
    ids = [found.id async for found in mirror.items(first_id=100)]
    assert ids == list(range(100, 1_203))
    assert [found.id async for found in mirror.items(first_id=3, last_id=5)] == [3, 4, 5]


async def test_only_what_changed_since_a_moment_can_be_read(mirror: MirrorReader) -> None:
    assert [found.id async for found in mirror.items(changed_since_ns=at(3))] == [5]


async def test_the_history_of_an_item_ends_with_what_it_is_now(mirror: MirrorReader) -> None:
    history = await mirror.history(5)
    assert [(revision.number, revision.fields["title"]) for revision in history] == [(1, "Before"), (2, "After")]
    assert await mirror.history(999) == ()


async def test_a_user_and_a_document_are_found_by_name_and_key(mirror: MirrorReader) -> None:
    user, chat = await mirror.user("ada"), await mirror.document("chat-1")
    assert user is not None
    assert chat is not None
    assert user.fields["karma"] == 7
    assert chat.fields["title"] == "About chat-1"
    assert await mirror.user("nobody") is None
    assert await mirror.document("chat-9") is None


async def test_a_document_whose_detail_is_owed_is_named_without_a_body(mirror: MirrorReader) -> None:
    owed = await mirror.document("chat-3")
    assert owed is not None
    assert (owed.body, owed.updated_at) == (None, "2026-01-03")
    assert [document.key async for document in mirror.documents()] == ["chat-1", "chat-2"]


async def test_with_two_numbered_sources_one_must_be_named(mirror: MirrorReader, store: Store) -> None:
    await keep(store, item(1, text="other"), source="other")
    with pytest.raises(ConfigurationError, match=f"name one of: {SOURCE}, other"):
        await mirror.item(1)
    other = await mirror.item(1, source="other")
    assert other is not None
    assert other.text == "other"


async def test_a_mirror_without_items_says_what_to_do(url: str) -> None:
    opened = open_store(url)
    await opened.open()
    async with MirrorReader(url) as mirror:
        with pytest.raises(ConfigurationError, match="no source with numbered items yet"):
            await mirror.item(1)
    await opened.close()


async def test_an_address_without_a_mirror_is_refused_with_a_hint(tmp_path: Path) -> None:
    for address in (f"sqlite:///{tmp_path}/absent.db", "hn.db", "memory://"):
        with pytest.raises(ConfigurationError) as refused:
            async with remora.open(address):
                pass
        assert refused.value.hint


# -- changes ---------------------------------------------------------------------------------------------------------


async def test_changes_come_in_order_and_a_position_resumes_without_a_hole(mirror: MirrorReader, store: Store) -> None:
    first = [change async for change in mirror.changes()]
    assert [change.change for change in first if change.key == "5"] == ["new", "changed"]
    assert {change.kind for change in first} == {"item", "user", "document"}
    await keep(store, item(50), at_s=9)
    more = [change async for change in mirror.changes(since=first[-1].position)]
    assert [(change.source, change.key, change.change) for change in more] == [(SOURCE, "50", "new")]
    again = [change async for change in mirror.changes(since=first[2].position)]
    assert again == [*first[3:], *more]
    assert await mirror.newest_position() == more[-1].position


async def test_who_follows_hears_of_a_change_that_comes_later(mirror: MirrorReader, store: Store) -> None:
    feed = mirror.changes(since=await mirror.newest_position(), follow=True)

    async def heard() -> str:
        # PostgreSQL shows a change when no older transaction of the server is open, so earlier ones may come first.
        return await anext(change.key async for change in feed if change.key == "51")

    waiting = asyncio.ensure_future(heard())
    await keep(store, item(51), at_s=9)
    assert await waiting == "51"
    await feed.aclose()  # type: ignore[attr-defined]


async def test_a_position_that_is_none_is_refused(mirror: MirrorReader) -> None:
    for text in ("yesterday", "-1", "1:2:3", "", "٣"):
        with pytest.raises(ConfigurationError, match="not a position"):
            [change async for change in mirror.changes(since=text)]


# -- queries ---------------------------------------------------------------------------------------------------------


async def test_a_query_gives_columns_and_rows_and_says_when_it_was_cut(mirror: MirrorReader) -> None:
    found = await mirror.query("SELECT id, type FROM items WHERE type = 'story' ORDER BY id;")
    assert (found.columns, found.rows, found.is_cut) == (
        ("id", "type"),
        ((1, "story"), (5, "story"), (30, "story")),
        False,
    )
    cut = await mirror.query("SELECT id FROM items ORDER BY id", rows_max=2)
    assert (cut.rows, cut.is_cut) == (((1,), (2,)), True)
    assert (await mirror.query("WITH t AS (SELECT 1 AS n) SELECT n FROM t")).rows == ((1,),)
    assert (await mirror.query("SELECT '100%' AS a")).rows == (("100%",),)


async def test_columns_of_the_same_name_are_all_in_the_json(mirror: MirrorReader) -> None:
    found = await mirror.query("SELECT 1 AS a, 2 AS a_2, 3 AS a, 4 AS b, 5 AS a")
    assert json.loads(as_json_text(found)) == [{"a": 1, "a_2": 2, "a_3": 3, "b": 4, "a_4": 5}]


WRITING = [
    "DELETE FROM stored_items",
    "WITH gone AS (DELETE FROM stored_items RETURNING id) SELECT id FROM gone",
    "INSERT INTO sources (name) VALUES ('x')",
    "UPDATE stored_items SET score = 1",
    "DROP TABLE stored_items",
    "CREATE TEMP TABLE t (a integer)",
    "SELECT 1; DELETE FROM stored_items",
    "BEGIN",
    "COMMIT",
    "",
    "-- nothing",
]
WRITING_SQLITE = [
    "ATTACH 'other.db' AS other",
    "VACUUM INTO 'copy.db'",
    "PRAGMA user_version = 9",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA wal_checkpoint",
    "SELECT load_extension('x')",
    "EXPLAIN DELETE FROM stored_items",
]
WRITING_POSTGRES = [
    "SET default_transaction_read_only = off",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT nextval(pg_get_serial_sequence('changes', 'seq'))",
    "COPY stored_items TO PROGRAM 'cat'",
    "SELECT 1 INTO made",
    "SELECT id FROM stored_items FOR UPDATE",
    "COMMIT; DELETE FROM stored_items",
]


@pytest.mark.usefixtures("store")
async def test_whatever_writes_is_refused_and_changes_nothing(mirror: MirrorReader, url: str, tmp_path: Path) -> None:
    before = (await mirror.query("SELECT count(*), max(id) FROM items")).rows
    files = names_in(tmp_path)
    for statement in (*WRITING, *(WRITING_SQLITE if url.startswith("sqlite") else WRITING_POSTGRES)):
        with pytest.raises(ConfigurationError):
            await mirror.query(statement)
    assert (await mirror.query("SELECT count(*), max(id) FROM items")).rows == before
    assert names_in(tmp_path) == files


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_query_that_takes_too_long_is_stopped(mirror: MirrorReader) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(ConfigurationError, match="was stopped"):
        await mirror.query(endless, seconds_max=0.05)
    assert (await mirror.query("SELECT 1")).rows == ((1,),)


async def test_a_query_that_nobody_waits_for_any_more_ends(mirror: MirrorReader) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(mirror.query(endless, seconds_max=40), 0.2)
    assert await asyncio.wait_for(mirror.item(1), 20) is not None


@pytest.mark.parametrize(
    "texts",
    [f"'{'x' * 1_100_000}'", f"NULL UNION ALL SELECT '{'x' * 600_000}' UNION ALL SELECT '{'y' * 600_000}'"],
    ids=["one", "several"],
)
async def test_an_answer_that_is_too_large_to_hold_is_refused_before_it_is_read(
    mirror: MirrorReader, monkeypatch: pytest.MonkeyPatch, texts: str
) -> None:
    monkeypatch.setattr(CommonReader, "_answer_bytes", 1 << 20)
    with pytest.raises(ConfigurationError, match="larger than 1 MiB"):
        await mirror.query(f"SELECT {texts}")
    assert (await mirror.query("SELECT 'short'")).rows == (("short",),)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_value_that_is_too_large_to_hold_is_never_made(mirror: MirrorReader) -> None:
    with pytest.raises(ConfigurationError, match="larger than 256 MiB"):
        await mirror.query("SELECT length(zeroblob(500000000) || 'x')")
    assert (await mirror.query("SELECT length(zeroblob(1000))")).rows == ((1_000,),)


@pytest.mark.postgres
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_query_that_asks_for_more_than_a_server_can_do_is_the_askers_mistake(mirror: MirrorReader) -> None:
    with pytest.raises(ConfigurationError, match="the query failed: requested length too large"):
        await mirror.query("SELECT repeat('x', 2000000000)")
    with pytest.raises(ConfigurationError, match="the query failed: stack depth limit exceeded"):
        await mirror.query(f"SELECT 1{' + 1' * 100_000}")


async def test_all_rows_of_a_long_answer_come_in_order(mirror: MirrorReader) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n"
    found = await mirror.query(numbers, rows_max=19_999)
    assert ([number for (number,) in found.rows], found.is_cut) == (list(range(1, 20_000)), True)
    found = await mirror.query(numbers, rows_max=20_000)
    assert ([number for (number,) in found.rows], found.is_cut) == (list(range(1, 20_001)), False)
    assert (await mirror.query("SELECT 1 AS n WHERE 1 = 0")).columns == ("n",)


async def test_a_mistake_in_a_query_is_told_in_one_sentence(mirror: MirrorReader) -> None:
    with pytest.raises(ConfigurationError, match=r"the query failed: .*colour"):
        await mirror.query("SELECT colour FROM items")


# -- without async ---------------------------------------------------------------------------------------------------


async def test_the_synchronous_twin_reads_the_same(mirror: MirrorReader, url: str) -> None:
    def read() -> None:
        with remora.open_sync(url) as twin:
            story, thread = twin.item(1), twin.thread(1)
            assert story is not None
            assert thread is not None
            assert (story.title, thread.size) == ("Show HN: Remora &amp; friends", 4)
            assert [found.id for found in twin.items(last_id=3)] == [1, 2, 3]
            assert [document.key for document in twin.documents()] == ["chat-1", "chat-2"]
            assert len(list(twin.changes())) == 13
            assert len(twin.history(5)) == 2
            assert twin.query("SELECT 1 AS n").columns == ("n",)
            assert twin.user("nobody") is None
            assert len(twin.sources()) == 2
        with pytest.raises(ConfigurationError, match="not open"):
            twin.item(1)

    await asyncio.to_thread(read)


async def test_a_twin_that_cannot_be_opened_leaves_no_thread_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(ConfigurationError), remora.open_sync(f"sqlite:///{tmp_path}/absent.db"):
        pass
    assert threading.active_count() == before


# -- the writer is not disturbed -------------------------------------------------------------------------------------


async def test_a_reader_between_two_pages_holds_no_read_open(tmp_path: Path) -> None:
    """An open read would keep the writer from emptying its log."""
    url = f"sqlite:///{tmp_path}/hn.db"
    store = open_store(url)
    await store.open()
    await asyncio.gather(*(keep(store, item(item_id)) for item_id in range(1, 1_203)))
    async with MirrorReader(url) as mirror:
        pages = mirror.item_pages()
        assert len(await anext(pages)) == 500
        with closing(sqlite3.connect(tmp_path / "hn.db", timeout=0)) as other:
            busy, _, _ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert busy == 0
        await pages.aclose()  # type: ignore[attr-defined]
    await store.close()


@pytest.mark.postgres
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_value_that_json_has_no_form_for_is_told_as_in_the_table(mirror: MirrorReader) -> None:
    found = await mirror.query(
        "SELECT '[1,5)'::int4range AS some, '10.0.0.1'::inet AS host, ARRAY['[1,2)'::int4range] AS many"
    )
    assert json.loads(as_json_text(found)) == [{"some": "[1, 5)", "host": "10.0.0.1", "many": ["[1, 2)"]}]
    assert "[1, 5)  10.0.0.1" in as_table(found)
