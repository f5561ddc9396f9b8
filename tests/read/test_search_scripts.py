"""Does a search find words in scripts without spaces, and the same in every database? Is an index of an old form built again?"""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from remora.contracts import Store
from remora.contracts.search import SearchQuery, SearchTerm
from remora.core.errors import StoreError
from remora.operate.jobs.search_index import build, keep_fresh
from remora.read.mirror import MirrorReader
from remora.read.search import SNIPPET_CHARACTERS, snippet
from remora.stores import open_search_index
from tests.read.conftest import item, keep

OF_ANOTHER_FORM = r"form of another version; run `remora search --build`"


async def built(url: str) -> int:
    return (await build(url, rebuild=False, tell=lambda _: None)).size.entries


async def keys(mirror: MirrorReader, query: str) -> list[str]:
    return sorted(hit.key for hit in await mirror.search(query))


async def test_words_without_spaces_are_found_within_a_run_in_any_database(
    mirror: MirrorReader, store: Store, url: str
) -> None:
    await keep(store, item(60, title="東京都は日本の首都である。", text="iPhone用のケース"))
    await keep(store, item(61, title="Tokyo", text="東京と京都へ行った"))
    await keep(store, item(62, title="서울특별시에서 만나요", text="カラーテレビ"))
    await built(url)
    assert await keys(mirror, "東京") == ["60", "61"]
    assert await keys(mirror, "東京都") == ["60"]
    assert await keys(mirror, "京都") == ["60", "61"]
    assert await keys(mirror, "首") == ["60"]
    assert await keys(mirror, "都") == ["60", "61"]
    assert await keys(mirror, "日本 首都") == ["60"]
    assert await keys(mirror, "東京 -首都") == ["61"]
    assert await keys(mirror, "京都 -東") == []
    assert await keys(mirror, "iPhone") == ["60"]
    assert await keys(mirror, "iPhone用") == ["60"]
    assert await keys(mirror, "서울 만나") == ["62"]
    assert await keys(mirror, "テレビ") == ["62"]
    assert await keys(mirror, "都東") == []


async def test_a_final_sigma_and_a_long_s_are_found_as_their_letters_in_any_database(
    mirror: MirrorReader, store: Store, url: str
) -> None:
    await keep(store, item(60, text="ὁδός Congreſs µ-law “quoted” 😀 ǽ"), item(61, text="ΟΔΟΣ CONGRESS"))
    await built(url)
    for query in ("οδος", "ΟΔΌΣ", "οδοσ", "congress", "Congreſs"):
        assert await keys(mirror, query) == ["60", "61"], query
    for query in ("quoted", "law", "æ"):
        assert await keys(mirror, query) == ["60"], query


def snippet_for(text: str, *words: str) -> str:
    return snippet(text, SearchQuery(tuple(map(SearchTerm, words))))


def test_a_snippet_shows_and_marks_a_part_of_a_text_without_spaces() -> None:
    assert snippet_for("東京都は日本の首都である。", "首都", "東京") == "«東京»都は日本の«首都»である。"
    assert snippet_for("新しいiPhone用ケース", "iphone") == "新しい«iPhone»用ケース"
    long = snippet_for("あ" * 500 + "首都" + "い" * 500, "首都")
    assert "あ«首都»い" in long
    assert long.startswith("…あ")
    assert long.endswith("い…")
    assert len(long) <= SNIPPET_CHARACTERS + 4


@pytest.mark.slow
async def test_a_giant_in_a_script_without_spaces_does_not_end_the_build(
    store: Store, mirror: MirrorReader, url: str
) -> None:
    giant = "".join(map(chr, range(0x20000, 0x2A000))) * 3
    await keep(store, item(100, title=giant, text="首都" + giant[::-1]), item(101, text="behind the giant"))
    await built(url)
    assert await keys(mirror, "giant") == ["101"]
    assert await keys(mirror, "首都") == ["100"]


async def make_old(url: str, tmp_path: Path) -> None:
    """The index as an earlier version left it."""
    if url.startswith("postgresql"):
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute("COMMENT ON TABLE search_entries IS 'small letters without accents'")
            await connection.execute("UPDATE search_entries SET words = to_tsvector('simple', 'old')")
        return
    with closing(sqlite3.connect(tmp_path / "hn.db-search", isolation_level=None)) as connection:
        connection.executescript(
            """DROP TABLE words;
            CREATE VIRTUAL TABLE words USING fts5(title, text, content='', tokenize="unicode61 remove_diacritics 2");
            PRAGMA user_version = 1;"""
        )


async def test_an_index_of_an_old_form_says_what_to_do_and_is_built_again_by_the_next_build(
    mirror: MirrorReader, store: Store, url: str, tmp_path: Path
) -> None:
    await keep(store, item(60, text="日本の首都"))
    entries = await built(url)
    await make_old(url, tmp_path)
    with pytest.raises(StoreError, match=OF_ANOTHER_FORM):
        await mirror.search("首都")
    with pytest.raises(StoreError, match=OF_ANOTHER_FORM):
        await mirror.search_report()
    assert await built(url) == entries
    assert await keys(mirror, "首都") == ["60"]


async def test_an_index_of_an_old_form_still_says_how_far_it_has_read(store: Store, url: str, tmp_path: Path) -> None:
    """Or nothing old could be deleted from the feed until it is built again."""
    await built(url)
    await make_old(url, tmp_path)
    index = open_search_index(url)
    await index.open(to_write=False)
    assert await index.progress() is not None
    await index.close()


@pytest.mark.slow
async def test_a_service_builds_an_index_of_an_old_form_again(
    mirror: MirrorReader, store: Store, url: str, tmp_path: Path
) -> None:
    await keep(store, item(60, text="日本の首都"))
    await built(url)
    await make_old(url, tmp_path)
    service = asyncio.ensure_future(keep_fresh(url))
    async with asyncio.timeout(60):
        while not await is_fresh(mirror):
            pass
    assert await keys(mirror, "首都") == ["60"]
    service.cancel()
    await asyncio.gather(service, return_exceptions=True)


async def is_fresh(mirror: MirrorReader) -> bool:
    try:
        report = await mirror.search_report()
    except StoreError:
        return False
    return report is not None and not report.is_building and report.waits_since_ns is None


async def test_two_paths_to_one_store_have_one_index(store: Store, url: str, tmp_path: Path) -> None:
    if not url.startswith("sqlite"):
        pytest.skip("only SQLite has a file")
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "linked.db"
    link.symlink_to(tmp_path / "hn.db")
    await built(f"sqlite:///{link}")
    assert [path.name for path in link.parent.iterdir()] == ["linked.db"]
    async with MirrorReader(url) as mirror:
        assert await keys(mirror, "penguin") == ["chat-1"]
