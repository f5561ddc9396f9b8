"""Can people find what they ask for most? By author, by domain, by story, and with the words of the provider."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from remora.contracts import Store
from remora.core.item import Item
from remora.read.mirror import MirrorReader
from remora.stores.sqlite import SqliteStore
from tests.contract.answers import SOURCE
from tests.read.conftest import fill, item, keep

URLS = {
    "https://www.Example.com/a?b=1": "example.com",
    "http://x.org": "x.org",
    "http://x.org:8080/": "x.org",
    "https://me@host.io/x": "host.io",
    "https://medium.com/@me/x": "medium.com",
    "ftp://z.net?x": "z.net",
    "https://wwwx.com#a": "wwwx.com",
    "https://a.b/http://www.c.d/": "a.b",
    "no address": None,
    "http://": None,
}


async def test_the_domain_of_an_address_is_its_host_without_www(store: Store, mirror: MirrorReader) -> None:
    for number, url in enumerate(URLS, 100):
        await keep(store, item(number, type="story", url=url))
    await keep(store, Item(200, b"no JSON at all"), Item(201, json.dumps({"url": ["https://x.org"]}).encode()))
    found = await mirror.query("SELECT id, domain FROM item_fields WHERE id >= 100 ORDER BY id")
    assert [domain for _, domain in found.rows[:-2]] == list(URLS.values())
    assert found.rows[-2] == (200, None)


async def test_a_reply_has_no_domain_even_if_its_body_names_an_address(store: Store, mirror: MirrorReader) -> None:
    await keep(store, item(100, parent=1, url="https://x.org"))
    assert (await mirror.query("SELECT domain FROM items WHERE id = 100")).rows == ((None,),)


async def test_threads_name_the_story_of_every_item_and_how_deep_it_is(store: Store, mirror: MirrorReader) -> None:
    found = await mirror.query("SELECT id, root, depth FROM threads ORDER BY id")
    assert found.rows == (
        (1, 1, 0),
        (2, 1, 1),
        (3, 1, 2),
        (4, 1, 1),
        (5, 5, 0),
        (7, 7, 0),  # its parent is not in the mirror
        (20, None, None),  # a circle has no story
        (21, None, None),
        (30, 30, 0),
    )


async def test_profiles_have_columns(mirror: MirrorReader) -> None:
    assert (await mirror.query("SELECT name, karma, about FROM user_fields")).rows == (("ada", 7, None),)


def thread_in_the_docs() -> str:
    """The statement with which the documentation reads a whole thread."""
    text = (Path(__file__).parents[2] / "docs/tables.md").read_text("utf-8")
    return text[text.index("WITH RECURSIVE") :].partition(";")[0]


async def test_the_statement_of_the_docs_reads_a_whole_thread(store: Store, mirror: MirrorReader) -> None:
    statement = thread_in_the_docs().replace("'hackernews'", f"'{SOURCE}'").replace("8863", "1")
    assert [row[:2] for row in (await mirror.query(statement)).rows] == [(1, 0), (2, 1), (4, 1), (3, 2)]


ASKED_MOST = (
    "SELECT * FROM items WHERE \"by\" = 'ada' ORDER BY time DESC LIMIT 50",
    "SELECT title FROM item_fields WHERE source = 'hn' AND \"by\" = 'ada'",
    "SELECT * FROM item_fields WHERE domain = 'x.org'",
    "SELECT title FROM item_fields WHERE source = 'hn' AND domain = 'x.org' ORDER BY time DESC LIMIT 50",
    "SELECT root FROM threads WHERE \"by\" = 'ada'",
    "SELECT root FROM threads WHERE source = 'hn' AND id = 7",
    thread_in_the_docs(),
)


@pytest.mark.parametrize("statement", ASKED_MOST)
async def test_what_is_asked_most_is_looked_up_in_an_index(tmp_path: Path, statement: str) -> None:
    store = SqliteStore(tmp_path / "remora.db")
    await store.open()
    await store.close()
    with closing(sqlite3.connect(tmp_path / "remora.db")) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
    assert any(step.startswith("SEARCH i USING INDEX") for step in plan)
    assert [step for step in plan if step.startswith(("SCAN i", "SEARCH i USING INDEX items_by_key (source=?)"))] == []


DATASETTE = Path(__file__).parents[2] / "deploy/datasette/metadata.json"
PARAMETERS = {"author": "bob", "domain": "example.com", "id": "1", "month": "2026-09"}
EXPECTED = {"author": 2, "domain": 1, "thread": 4, "story_of": 2, "best_of_a_month": 3, "deleted": 0}


async def test_every_canned_query_of_datasette_answers(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "remora.db")
    await store.open()
    await fill(store)
    await store.close()
    described = json.loads(DATASETTE.read_text("utf-8"))["databases"]["remora"]
    with closing(sqlite3.connect(tmp_path / "remora.db")) as connection:
        for name, told in described["queries"].items():
            assert len(connection.execute(told["sql"], PARAMETERS).fetchall()) == EXPECTED[name], name
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    assert set(described["tables"]) <= names
