"""How does a command that only reads or repairs the store open it? Without gates, meters and sources, so it starts fast."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from remora.contracts import Store
from remora.operate.config.settings import Settings
from remora.operate.jobs.startup_checks import naming_store
from remora.stores import open_store
from remora.stores.copied import check_whole


@asynccontextmanager
async def opened_store(settings: Settings, *, read_only: bool) -> AsyncIterator[Store]:
    """The store, open while the block runs."""
    store = open_store(settings.store.url, read_only=read_only)
    with naming_store(settings.store.url):
        await store.open()
    try:
        await check_whole(store)
        yield store
    finally:
        await store.close()
