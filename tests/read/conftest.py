"""Which mirror do the readers read? A small one with every kind of break, in each database."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from remora.contracts import Observation, Store
from remora.core.item import Document, Entry, Item, User
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.list_walk import WalkState
from remora.core.verdict import Found
from remora.read.mirror import MirrorReader
from remora.stores import open_store
from tests.contract.answers import ARCHIVE, NOW_S, SOURCE, at, record_document, record_user
from tests.prepared_sqlite import prepare

DATABASES = [pytest.param("sqlite"), pytest.param("postgres", marks=pytest.mark.postgres)]


def item(item_id: int, **fields: object) -> Item:
    """An item whose columns and body say the same."""
    told = {"by": "ada", "id": item_id, "time": NOW_S + item_id, "type": "comment", **fields}
    columns = {name: told[name] for name in ("type", "by", "time", "parent", "score") if name in told}
    content = json.dumps([told.get("title"), told.get("text"), told.get("url")]).encode()
    return Item(item_id, json.dumps(told).encode(), content=content, **columns)  # type: ignore[arg-type]


async def keep(store: Store, *items: Item, at_s: float = 1, source: str = SOURCE) -> None:
    """Record some items as found."""
    for found in items:
        discovery = Discovery.item(found.item_id, via=Lane.LIVE)
        await store.record(source, Observation(discovery, Found(found), at(at_s), at(at_s)))


async def fill(store: Store) -> None:
    """A story with a thread, a cycle, a changed item, a profile and two documents."""
    title = "Show HN: Remora &amp; friends"
    url = "https://www.example.com/a?b=1"
    await keep(
        store,
        item(1, type="story", title=title, url=url, score=120, kids=[4, 2, 9, 7]),
        item(2, parent=1, text="First <i>reply</i> about rate limits", kids=[3]),
        item(3, parent=2, by="bob", text="It&#x27;s a reply to the reply"),
        item(4, parent=1, by="bob", text="Ranked first by the provider"),
        item(7, parent=6, text="Named by the story, but below another item"),
        item(20, parent=21, text="One half of a circle"),
        item(21, parent=20, text="The other half"),
        item(30, type="story", title="Fish swim", url="https://fish.example/", score=5, by="eve"),
    )
    await keep(store, item(5, type="story", title="Before", text="original words"), at_s=2)
    await keep(store, item(5, type="story", title="After", text="edited words"), at_s=3)
    await record_user(store, "ada", User("ada", b'{"id":"ada","karma":7}'), at_s=4)
    entries = [Entry("chat-1", "2026-01-01"), Entry("chat-2", "2026-01-02"), Entry("chat-3", "2026-01-03")]
    await store.record_page(ARCHIVE, entries, WalkState(), now_ns=at(5))
    for key, text in (("chat-1", "hello penguin"), ("chat-2", "good bye")):
        body = f'{{"id":"{key}","title":"About {key}","messages":[{{"text":"{text}"}}]}}'.encode()
        await record_document(store, key, Document(key, body, "2026-01-01"), at_s=6)


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store in each database."""
    if request.param == "postgres":
        address: str = request.getfixturevalue("postgres_url")
        return address
    return f"sqlite:///{prepare(tmp_path / 'hn.db')}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """The store with the small mirror, open for writing: readers read beside it."""
    opened = open_store(url)
    await opened.open()
    await fill(opened)
    yield opened
    await opened.close()


@pytest.fixture
async def mirror(store: Store, url: str) -> AsyncIterator[MirrorReader]:
    """An open reader beside the open writer."""
    async with MirrorReader(url) as opened:
        yield opened
