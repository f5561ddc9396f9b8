"""Does a search find what the mirror holds, by words and filters, and does the index follow every change?"""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from remora.contracts import Store
from remora.contracts.reader import Reader
from remora.contracts.search import SearchIndex
from remora.core.errors import ConfigurationError, StoreBusy, StoreError
from remora.core.item import Document
from remora.operate.jobs.search_index import build, keep_fresh
from remora.read.indexing import STEP_ROWS, Indexer
from remora.read.mirror import MirrorReader
from remora.stores import open_reader, open_search_index, search_values
from remora.stores.postgres import search as postgres_search
from remora.stores.sqlite import SqliteStore
from remora.stores.sqlite.backup import back_up
from tests.contract.answers import ARCHIVE, SOURCE, record_document
from tests.read.conftest import item, keep


async def built(url: str, *, rebuild: bool = False) -> int:
    """Build the index; returns how many entries it has."""
    return (await build(url, rebuild=rebuild, tell=lambda _: None)).size.entries


async def keys(mirror: MirrorReader, query: str, **more: str | int) -> list[str]:
    return [hit.key for hit in await mirror.search(query, **more)]  # type: ignore[arg-type]


async def test_a_mirror_without_an_index_says_how_to_build_one(mirror: MirrorReader) -> None:
    with pytest.raises(ConfigurationError, match="remora search --build"):
        await mirror.search("fish")
    assert await mirror.search_report() is None


async def test_words_phrases_and_exclusions_are_found_in_plain_text(mirror: MirrorReader, url: str) -> None:
    assert await built(url) == 11
    assert await keys(mirror, "rate limits") == ["2"]
    assert await keys(mirror, '"limits rate"') == []
    assert set(await keys(mirror, "reply")) == {"2", "3"}
    assert await keys(mirror, "reply -first") == ["3"]
    assert await keys(mirror, "it's") == ["3"]
    assert await keys(mirror, "friends") == ["1"]
    assert await keys(mirror, "x27") == []
    assert await keys(mirror, "penguin") == ["chat-1"]
    assert await keys(mirror, "PENGUIN", source=SOURCE) == []
    assert await keys(mirror, "PENGUIN", source=ARCHIVE) == ["chat-1"]


async def test_accents_signs_and_small_letters_do_not_matter_in_any_database(
    mirror: MirrorReader, store: Store, url: str
) -> None:
    await keep(store, item(60, title="Le Café", text="The Cafe\u0301 “bonjour” node.js of ada@example.com"))
    await built(url)
    for query in ("cafe", "CAFÉ", "café", "cafe\u0301", "bonjour", "node", "js", "example", '"bonjour node-js"'):
        assert await keys(mirror, query) == ["60"], query
    (hit,) = await mirror.search('cafe "bonjour node-js"')
    assert "The «Café» “«bonjour” node.js» of" in hit.snippet


async def test_filters_and_orders_work_with_and_without_words(mirror: MirrorReader, url: str) -> None:
    await built(url)
    assert set(await keys(mirror, "by:bob")) == {"3", "4"}
    assert await keys(mirror, "domain:example.com") == ["1"]
    assert await keys(mirror, "type:story", order="score", source=SOURCE) == ["1", "30", "5"]
    assert await keys(mirror, "type:story", order="time") == ["30", "5", "1"]
    assert await keys(mirror, "type:story score>5") == ["1"]
    assert await keys(mirror, "reply by:bob") == ["3"]
    assert await keys(mirror, "since:2026-09-21 until:2026-09-22 by:eve") == ["30"]
    assert await keys(mirror, "since:2027 by:eve") == []
    with pytest.raises(ConfigurationError, match="no order alphabet"):
        await mirror.search("fish", order="alphabet")
    with pytest.raises(ConfigurationError, match="limit of a search is -1"):
        await mirror.search("fish", limit=-1)


async def test_things_without_a_time_are_found_by_filters_after_those_with_one(
    mirror: MirrorReader, store: Store, url: str
) -> None:
    await keep(store, *(replace(item(number, type="note", by="una"), time=None) for number in (90, 91, 92)))
    await keep(store, item(93, type="note", by="una", score=7))
    await built(url)
    for query in ("type:note", "by:una", "type:note by:una"):
        assert await keys(mirror, query) == ["93", "92", "91", "90"]
        assert await keys(mirror, query, limit=2) == ["93", "92"]
        assert await keys(mirror, query, order="score", limit=1) == ["93"]
        assert await keys(mirror, f"{query} since:1970") == ["93"]


async def test_a_document_that_was_read_again_unchanged_is_found_by_the_time_of_its_change(
    mirror: MirrorReader, store: Store, url: str
) -> None:
    await built(url)
    kept = await store.document(ARCHIVE, "chat-1")
    assert kept is not None
    assert kept.body is not None
    await record_document(store, "chat-1", Document("chat-1", kept.body, kept.updated_at), at_s=90 * 86_400)
    for rebuild in (False, True):
        await built(url, rebuild=rebuild)
        assert await keys(mirror, "penguin until:2026-10") == ["chat-1"], f"rebuild={rebuild}"


async def test_an_index_that_is_ahead_of_a_restored_mirror_is_built_anew(
    mirror: MirrorReader, store: Store, url: str, tmp_path: Path
) -> None:
    if not isinstance(store, SqliteStore):
        pytest.skip("the index of PostgreSQL is in the same database, and in its dump")
    back_up(tmp_path / "hn.db", tmp_path / "backup.db", progress=lambda _done, _all: None)
    await keep(store, item(70, text="walrus"), item(71, text="walrus"))
    assert await built(url) == 13
    await store.close()
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"hn.db{suffix}").unlink(missing_ok=True)
    (tmp_path / "backup.db").rename(tmp_path / "hn.db")
    async with MirrorReader(url) as restored:
        assert await built(url) == 11
        assert await keys(restored, "walrus") == []


async def test_a_word_in_the_title_counts_more_than_one_in_the_text(
    mirror: MirrorReader, store: Store, url: str
) -> None:
    await keep(store, item(70, text="walrus"), item(71, title="walrus"), item(72, text="walrus"))
    await built(url)
    assert (await keys(mirror, "walrus"))[0] == "71"


async def test_the_newest_that_match_words_and_filters_are_compared(
    mirror: MirrorReader, store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_values, "COMPARED_MAX", 2)
    first, second = item(70, title="walrus", score=9, time=1), item(71, text="walrus", score=1, time=2)
    newest = item(72, text="a walrus and more words", score=3, time=3)
    await keep(store, first, second, newest, item(73, type="job", text="walrus", time=4))
    await built(url)
    assert await keys(mirror, "walrus type:comment") == ["71", "72"]
    assert await keys(mirror, "walrus type:comment", order="score") == ["72", "71"]
    assert await keys(mirror, "walrus type:comment until:1970-01-01T00:00:03Z", order="score") == ["70", "71"]
    assert set(await keys(mirror, "walrus")) == {"72", "73"}


async def test_a_common_word_of_one_author_or_domain_is_found_however_many_newer_ones_there_are(
    mirror: MirrorReader, store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_values, "COMPARED_MAX", 2)
    await keep(store, *[item(n, text="walrus", by="sealion") for n in range(70, 74)])
    await keep(
        store, item(80, by="auk", text="walrus"), item(81, by="auk", title="walrus"), item(82, by="auk", text="no")
    )
    await keep(store, item(83, type="story", url="https://ice.example/1", title="walrus"))
    await keep(store, *[item(n, text="walrus", by="sealion") for n in range(90, 94)])
    await built(url)
    assert await keys(mirror, "walrus by:auk") == ["81", "80"]
    assert await keys(mirror, "walrus domain:ice.example") == ["83"]
    assert await keys(mirror, "walrus by:auk domain:ice.example") == []
    assert await keys(mirror, "walrus by:auk -walrus") == []


async def test_a_snippet_marks_the_words_and_stays_short(mirror: MirrorReader, store: Store, url: str) -> None:
    await keep(store, item(70, title="Sea", text="many words " * 100 + "then a walrus appears " + "and more " * 100))
    await built(url)
    (hit,) = await mirror.search("walrus")
    assert "then a «walrus» appears" in hit.snippet
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet) < 200
    assert (hit.title, hit.kind) == ("Sea", "item")


async def test_a_changed_text_is_found_by_its_new_words_only(mirror: MirrorReader, store: Store, url: str) -> None:
    await built(url)
    assert await keys(mirror, "edited") == ["5"]
    assert await keys(mirror, "original") == []
    await keep(store, item(5, type="story", title="After", text="rewritten words"), at_s=9)
    await keep(store, item(80, text="brand new"), at_s=9)
    report = await mirror.search_report()
    assert report is not None
    assert report.waits_since_ns is not None
    assert await built(url) == 12
    assert await keys(mirror, "edited") == []
    assert await keys(mirror, "rewritten") == ["5"]
    assert await keys(mirror, "brand") == ["80"]
    assert "up to date" in report_words(await mirror.search_report())


def report_words(report: object) -> str:
    return str(report.words(now_ns=0))  # type: ignore[attr-defined]


async def test_a_new_score_is_filtered_by_without_new_words(mirror: MirrorReader, store: Store, url: str) -> None:
    await built(url)
    await keep(
        store, item(30, type="story", title="Fish swim", url="https://fish.example/", score=900, by="eve"), at_s=9
    )
    assert await built(url) == 11
    assert await keys(mirror, "fish score>100") == ["30"]


@pytest.mark.slow
async def test_what_changes_while_the_index_is_built_is_indexed_too(store: Store, url: str) -> None:
    """The first step takes the position in the change feed; everything later is read again."""
    for item_id in range(1_000, 1_000 + STEP_ROWS + 10):
        await keep(store, item(item_id, text="before"))
    reader, index = await opened(url)
    indexer = Indexer(reader, index)
    for _ in range(3):
        await indexer.run_once()
    await keep(store, item(1_000, text="afterwards"), at_s=9)
    await closed(reader, index)
    await built(url)
    async with MirrorReader(url) as mirror:
        assert await keys(mirror, "afterwards") == ["1000"]
        assert len(await mirror.search("before", limit=1_000)) == STEP_ROWS + 9


async def opened(url: str) -> tuple[Reader, SearchIndex]:
    reader, index = open_reader(url), open_search_index(url)
    await reader.open()
    await index.open(to_write=True)
    return reader, index


async def closed(reader: Reader, index: SearchIndex) -> None:
    await index.close()
    await reader.close()


async def test_a_step_that_another_writer_overtook_is_refused(store: Store, url: str) -> None:
    reader, index = await opened(url)
    await index.write((), before=None, after="one")
    with pytest.raises(StoreBusy):
        await index.write((), before=None, after="two")
    assert await index.progress() == "one"
    await closed(reader, index)


UNLIMITED = b"""DO $$ BEGIN
  IF current_setting('statement_timeout') <> '0' THEN RAISE EXCEPTION 'the statement has a limit'; END IF;
END $$"""


async def test_what_an_older_index_lacks_is_added_however_long_that_takes(
    mirror: MirrorReader, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("SQLite's index has no later additions")
    await built(url)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("DROP INDEX search_entries_by_score")
        await built(url)
        row = await (await connection.execute("SELECT to_regclass('search_entries_by_score') IS NOT NULL")).fetchone()
    assert row == (True,)
    monkeypatch.setitem(postgres_search._SQL, "create_index", UNLIMITED)
    await built(url)


async def test_an_index_can_be_built_anew(mirror: MirrorReader, url: str) -> None:
    await built(url)
    assert await built(url, rebuild=True) == 11
    assert await keys(mirror, "penguin") == ["chat-1"]


async def test_hostile_queries_find_nothing_and_break_nothing(mirror: MirrorReader, url: str) -> None:
    await built(url)
    for text in (
        '"',
        "a' OR 1=1",
        "title: {x}",
        "NEAR(a b)",
        "a*",
        "x^2 + (y",
        "\\",
        "nul\0byte",
        "half \ud800",
        "%s %(a)s",
        "penguin by:nul\0byte",
        "type:\0",
        "domain:half\ud800",
    ):
        try:
            await mirror.search(text)
        except ConfigurationError as refused:
            assert refused.hint  # noqa: PT017
    with pytest.raises(ConfigurationError, match="holds nothing of a source"):
        await mirror.search("penguin", source="nul\0byte")


async def test_bodies_that_are_no_text_are_indexed_without_harm(store: Store, url: str) -> None:
    deep = '{"id": 90, "a": ' + '["x", ' * 900 + '"treasure"' + "]" * 900 + "}"
    found = item(90)
    await keep(
        store, replace(found, body=deep.encode()), replace(item(91), body=b"[1, 2]"), item(92, text="nul\0 \ud800")
    )
    assert await built(url) == 14
    async with MirrorReader(url) as mirror:
        assert await keys(mirror, "treasure") == ["90"]


async def test_the_index_file_is_private_and_the_mirror_is_left_alone(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "hn.db"
    if not path.exists():
        pytest.skip("only SQLite has a file")
    with closing(sqlite3.connect(path)) as connection:
        before = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    await built(f"sqlite:///{path}")
    index = tmp_path / "hn.db-search"
    assert index.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == before


async def test_a_damaged_index_is_the_owners_to_delete(store: Store, mirror: MirrorReader, tmp_path: Path) -> None:
    if not (tmp_path / "hn.db").exists():
        pytest.skip("only SQLite has a file")
    (tmp_path / "hn.db-search").write_bytes(b"no index at all " * 100)
    for reading in (mirror.search("fish"), built(f"sqlite:///{tmp_path}/hn.db")):
        with pytest.raises(StoreError, match="is damaged") as refused:
            await reading
        assert "delete this file" in refused.value.hint


async def test_two_builders_of_one_file_are_one_too_many(store: Store, url: str) -> None:
    if not url.startswith("sqlite"):
        pytest.skip("PostgreSQL refuses the second writer's step")
    reader, index = await opened(url)
    with pytest.raises(StoreBusy):
        await built(url)
    await closed(reader, index)


@pytest.mark.slow
async def test_a_service_finishes_an_index_that_was_begun_and_frees_it_when_it_stops(store: Store, url: str) -> None:
    reader, index = await opened(url)
    await Indexer(reader, index).run_once()
    await closed(reader, index)
    service = asyncio.ensure_future(keep_fresh(url))
    async with MirrorReader(url) as mirror, asyncio.timeout(60):
        while await is_behind(mirror):
            pass
        assert await keys(mirror, "penguin") == ["chat-1"]
    service.cancel()
    await asyncio.gather(service, return_exceptions=True)
    assert await built(url) == 11


async def is_behind(mirror: MirrorReader) -> bool:
    report = await mirror.search_report()
    return report is None or report.is_building or report.waits_since_ns is not None


async def test_a_service_without_an_index_makes_none(store: Store, url: str) -> None:
    service = asyncio.ensure_future(keep_fresh(url))
    async with MirrorReader(url) as mirror:
        for _ in range(20):
            assert await mirror.search_report() is None
    service.cancel()
    await asyncio.gather(service, return_exceptions=True)


async def test_a_bug_in_the_index_is_told_and_does_not_end_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_url: str) -> SearchIndex:
        raise ZeroDivisionError

    monkeypatch.setattr("remora.operate.jobs.search_index.open_search_index", broken)
    with capture_logs() as logs:
        service = asyncio.ensure_future(keep_fresh("sqlite:///mirror.db"))
        await asyncio.sleep(0.1)
        assert not service.done()
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)
    assert [(event["event"], event["why"]) for event in logs] == [
        ("search_index_paused", "a bug in Remora (ZeroDivisionError); please report it")
    ]


async def test_a_store_that_cannot_have_an_index_ends_the_step_quietly() -> None:
    async with asyncio.timeout(10):
        assert await keep_fresh("memory://") is None  # type: ignore[func-returns-value]


@pytest.mark.slow
async def test_a_page_of_giants_does_not_end_the_build(store: Store, mirror: MirrorReader, url: str) -> None:
    for item_id in (100, 101, 102):
        await keep(store, item(item_id, text="x" * (9 << 20)))
    await keep(store, item(103, text="behind the giants"))
    await built(url)
    assert await keys(mirror, "giants") == ["103"]
