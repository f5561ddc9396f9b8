"""Does a search end when nobody waits for what it finds?"""

import asyncio

import pytest

from remora.contracts.search import SearchOrder
from remora.operate.jobs.search_index import build
from remora.read.search_query import parse_query
from remora.stores import open_search_index
from remora.stores.sqlite.search import SqliteSearchIndex

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_search_that_nobody_waits_for_any_more_ends(url: str) -> None:
    await build(url, rebuild=False, tell=lambda _: None)
    index = open_search_index(url, seconds_max=40)
    await index.open(to_write=False)
    assert isinstance(index, SqliteSearchIndex)
    index._sql = {**index._sql, "find_words": ENDLESS}
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(index.find(parse_query("fish"), source=None, order=SearchOrder.TIME, limit=1), 0.2)
    await asyncio.wait_for(index.close(), 20)
