"""Are the newest items told briefly and safely? Plain text, odd bodies, private sources, and a store that is away."""

import tracemalloc
from pathlib import Path

import pytest

from remora.contracts import Observation
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Discovery
from remora.core.status.model import Status
from remora.core.status.readout import read_out
from remora.core.status.snapshot import LedgerFacts
from remora.core.units import SECOND_NS
from remora.core.verdict import Found
from remora.operate.jobs.clock import SystemClock
from remora.operate.observe.newest_items import BODY_BYTES_MAX, SHOWN, TEXT_CHARACTERS_MAX, NewestItems, describe
from remora.stores.memory import MemoryStore
from remora.stores.sqlite import SqliteStore

NOW_NS = 1_800_000_000 * SECOND_NS


def status(newest_id: int, kind: str = "numbered") -> Status:
    numbered = kind == "numbered"
    ledger = LedgerFacts(
        kind=kind,
        coverage=Coverage((IdRange(1, newest_id),)),
        newest_id=newest_id,
        owed_details=None if numbered else 0,
        is_public=numbered,
    )
    return read_out([], {"one": ledger}, now_ns=NOW_NS)


async def arrive(store: MemoryStore, item_id: int) -> None:
    body = b'{"by":"ann","id":%d,"title":"Title","type":"story"}' % item_id
    seen = Observation(Discovery.item(item_id, via=Lane.LIVE), Found(Item(item_id, body)), NOW_NS, NOW_NS)
    await store.record("one", seen)


@pytest.mark.parametrize(
    "body, text",
    [
        (b'{"title":"A  title\\n with breaks"}', "A title with breaks"),
        (b'{"text":"One.<p>Two &amp; <i>three</i> &lt;b&gt;"}', "One. Two & three <b>"),
        (b'{"text":"<a href=\\"x\\">link</a>"}', "link"),
        (b'{"title":"An order \\u202etxt.exe and \\u001b[31mred"}', "An order txt.exe and [31mred"),
        (b'{"title":7,"text":null}', None),
        (b"null", None),
        (b"{", None),
        (b'"\xff"', None),
        (b"[]", None),
    ],
)
def test_an_item_is_one_line_of_plain_text(body: bytes, text: str | None) -> None:
    assert describe(1, body).text == text


def test_an_author_cannot_reorder_the_line() -> None:
    assert describe(1, b'{"by":"\\u202enna"}').by == "nna"


def test_long_texts_are_cut() -> None:
    found = describe(1, b'{"text":"' + b"word " * 1_000 + b'","by":"' + b"x" * 500 + b'"}')
    assert found.text is not None
    assert len(found.text) == TEXT_CHARACTERS_MAX
    assert found.text.endswith("…")
    assert len(found.by or "") == TEXT_CHARACTERS_MAX


@pytest.mark.parametrize(
    "body, state", [(b'{"dead":true}', "dead"), (b'{"deleted":true,"dead":true}', "deleted"), (b"{}", None)]
)
def test_what_is_dead_or_deleted_upstream_is_called_so(body: bytes, state: str | None) -> None:
    assert describe(1, body).state == state


async def test_the_newest_come_first_and_only_so_many() -> None:
    store = MemoryStore()
    for item_id in range(1, 31):
        await arrive(store, item_id)
    found = (await NewestItems(store, clock=SystemClock()).latest(status(30)))["one"]
    assert [item.id for item in found] == [*range(30, 30 - SHOWN, -1)]
    assert found[0].seen_s == NOW_NS / SECOND_NS


async def test_many_viewers_share_one_reading() -> None:
    store = MemoryStore()
    await arrive(store, 1)
    newest_items = NewestItems(store, clock=SystemClock())
    first = await newest_items.latest(status(1))
    await arrive(store, 2)
    assert await newest_items.latest(status(2)) is first


async def test_nothing_of_a_listed_source_is_ever_told() -> None:
    store = MemoryStore()
    await arrive(store, 1)
    assert await NewestItems(store, clock=SystemClock()).latest(status(1, kind="listed")) == {}


@pytest.mark.slow
async def test_of_large_items_nothing_but_a_line_is_ever_held(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "remora.db")
    await store.open()
    text = b"x" * (1 << 20)
    for item_id in range(1, 46):
        body = b'{"id":%d,"text":"%b"}' % (item_id, text)
        seen = Observation(Discovery.item(item_id, via=Lane.LIVE), Found(Item(item_id, body)), NOW_NS, NOW_NS)
        await store.record("one", seen)
    newest_items = NewestItems(store, clock=SystemClock())
    tracemalloc.start()
    found = (await newest_items.latest(status(45)))["one"]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await store.close()
    assert [item.id for item in found] == [*range(45, 45 - SHOWN, -1)]
    assert peak < BODY_BYTES_MAX  # not one of the 45 bodies was read into this process
