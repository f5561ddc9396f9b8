"""What would a user of Scrapy or dlt write? The same ids from the same server, with the framework's usual means.

Runs in an environment of its own: `python bench/frameworks.py scrapy|dlt URL FILE FIRST LAST`, with a Python that has the framework.
Neither learns a pace or keeps a ledger of what is owed. Scrapy's delays and robots.txt are off, and it may have as many requests in
flight as the naive program. dlt fetches in threads and loads into SQLite's nearest relative, DuckDB.
"""

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

IN_FLIGHT = 64
COMMIT_EVERY = 500


def with_scrapy(url: str, path: str, first: int, last: int) -> None:
    """A spider with a pipeline that writes to SQLite."""
    import scrapy  # noqa: PLC0415
    from scrapy.crawler import CrawlerProcess  # noqa: PLC0415

    class Items(scrapy.Spider):  # type: ignore[misc]
        name = "items"

        async def start(self) -> Any:
            for item_id in range(first, last + 1):
                yield scrapy.Request(f"{url}item/{item_id}.json", dont_filter=True)

        def parse(self, response: Any) -> Iterator[dict[str, Any]]:
            yield {"item": json.loads(response.body), "body": response.body}

    class Rows:
        def __init__(self) -> None:
            self._mirror = sqlite3.connect(path)
            self._mirror.execute("PRAGMA journal_mode = WAL")
            self._mirror.execute(
                "CREATE TABLE item (id INTEGER PRIMARY KEY, type TEXT, by TEXT, time INTEGER, body BLOB)"
            )
            self._rows: list[tuple[Any, ...]] = []

        def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
            told = item["item"] or {}
            self._rows.append((told.get("id"), told.get("type"), told.get("by"), told.get("time"), item["body"]))
            if len(self._rows) >= COMMIT_EVERY:
                self.close_spider()
            return item

        def close_spider(self) -> None:
            with self._mirror:
                self._mirror.executemany("INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?, ?)", self._rows)
            self._rows.clear()

    process = CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": IN_FLIGHT,
            "CONCURRENT_REQUESTS_PER_DOMAIN": IN_FLIGHT,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "ERROR",
            "ITEM_PIPELINES": {Rows: 300},
        }
    )
    process.crawl(Items)
    process.start()


def with_dlt(url: str, path: str, first: int, last: int) -> None:
    """A resource that fetches in dlt's own threads."""
    import dlt  # noqa: PLC0415
    from dlt.sources.helpers import requests  # noqa: PLC0415

    @dlt.defer  # type: ignore[untyped-decorator]
    def one(item_id: int) -> Any:
        return requests.get(f"{url}item/{item_id}.json").json()

    @dlt.resource(name="items", primary_key="id", max_table_nesting=0)  # type: ignore[untyped-decorator]
    def items() -> Iterator[Any]:
        yield from (one(item_id) for item_id in range(first, last + 1))

    os.environ.update(EXTRACT__WORKERS="16", EXTRACT__MAX_PARALLEL_ITEMS=str(IN_FLIGHT))
    folder = Path(path).parent
    pipeline = dlt.pipeline(
        "mirror",
        pipelines_dir=str(folder / "state"),
        destination=dlt.destinations.duckdb(path),
        dataset_name="mirror",
    )
    pipeline.run(items())


if __name__ == "__main__":
    framework, url, path, first, last = sys.argv[1:]
    (with_scrapy if framework == "scrapy" else with_dlt)(url, path, int(first), int(last))
