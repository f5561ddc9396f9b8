"""In which order is history walked where the indexes fill their pages only while ids rise?"""

from collections.abc import Callable
from pathlib import Path

import pytest

from remora.contracts import Store
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.segment import STRETCH_IDS, Segment, SegmentKind
from remora.stores.memory import MemoryStore
from remora.stores.sqlite import SqliteStore

SOURCE = "hackernews"
BACKFILL = SegmentKind.BACKFILL
NOW_NS = 10**18
LEASE_NS = 10**9


async def claimed(store: Store, *, count: int, now_ns: int = NOW_NS) -> list[Segment]:
    found = [await store.claim(SOURCE, [BACKFILL], owner="one", lease_ns=LEASE_NS, now_ns=now_ns) for _ in range(count)]
    return [segment for segment in found if segment is not None]


@pytest.mark.parametrize("make", [MemoryStore, lambda: SqliteStore(Path("remora.db"))], ids=["memory", "sqlite"])
async def test_history_is_claimed_upwards_in_stretches_and_what_is_newer_downwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Store]
) -> None:
    monkeypatch.chdir(tmp_path)
    store = make()
    await store.open()
    await store.plan(SOURCE, BACKFILL, [IdRange(1, 2 * STRETCH_IDS + 1_500)], now_ns=NOW_NS)
    segments = await claimed(store, count=5)
    assert [segment.ids.start for segment in segments] == [65_000, 64_000, 32_000, 33_000, 34_000]
    assert await store.open_segments(SOURCE) == {BACKFILL: 2 * STRETCH_IDS + 1_500}
    lost = await claimed(store, count=40, now_ns=NOW_NS + 2 * LEASE_NS)  # whoever claimed the first five has died
    first = [segment.ids.start for segment in lost]
    assert sorted(first) == [1, *range(1_000, 6_000, 1_000), *range(32_000, 66_000, 1_000)]
    assert await store.open_segments(SOURCE) == {BACKFILL: 2 * STRETCH_IDS + 1_500}
    await store.close()
