"""Is a full disk in a world like a real one? What does not fit is refused, and it fits once there is room."""

from pathlib import Path

import pytest

from remora.contracts import Observation, Outcome
from remora.core.errors import StoreUnavailable
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.verdict import Found
from remora.sim.clock import SimClock, run
from remora.sim.fuzz.judge import NAME
from remora.stores.sqlite import InPlace, SqliteStore

LARGE = b'{"text":"' + bytes(range(35, 91)) * 400 + b'"}'


def observed(item_id: int) -> Observation:
    found = Found(Item(item_id=item_id, body=LARGE, content=LARGE))
    return Observation(Discovery.item(item_id, via=Lane.LIVE), found, started_at_ns=1, now_ns=2)


async def fill(store: SqliteStore) -> int:
    """The first id that does not fit."""
    for item_id in range(1, 1_000):
        try:
            await store.record(NAME, observed(item_id))
        except StoreUnavailable:
            return item_id
    raise AssertionError("the disk is never full")


def test_what_does_not_fit_is_refused_and_stored_once_there_is_room(tmp_path: Path) -> None:
    async def main(_clock: SimClock) -> None:
        store = SqliteStore(tmp_path / "full.db", offload=InPlace)
        await store.open()
        try:
            store.limit_pages(grows=False)
            refused = await fill(store)
            assert await store.item(NAME, refused) is None
            with pytest.raises(StoreUnavailable, match="full"):
                await store.record(NAME, observed(refused))
            store.limit_pages(grows=True)
            assert await store.record(NAME, observed(refused)) is Outcome.NEW
        finally:
            await store.close()

    run(main)
