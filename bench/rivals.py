"""What would a user write without Remora, and what is the limit? Both programs read the same ids from the same server.

Run one with `python -m bench.rivals naive URL FILE FIRST LAST` or `python -m bench.rivals limit URL - FIRST LAST`. The
naive program is aiohttp, a semaphore and sqlite3: it keeps no ledger, learns no pace and loses its place in a crash. The
limit parses answers with httptools on raw sockets and stores nothing.
"""

import asyncio
import json
import sqlite3
import ssl
import sys
from collections.abc import Iterator
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import httptools

IN_FLIGHT: Final = 64
COMMIT_EVERY: Final = 500


async def naive(url: str, path: str, first: int, last: int) -> None:
    """One task per item, at most `IN_FLIGHT` at once; rows are committed in batches."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        "CREATE TABLE item (id INTEGER PRIMARY KEY, type TEXT, by TEXT, time INTEGER, parent INTEGER, body BLOB)"
    )
    places = asyncio.Semaphore(IN_FLIGHT)
    rows: list[tuple[object, ...]] = []

    async def one(session: aiohttp.ClientSession, item_id: int) -> None:
        async with places, session.get(f"{url}item/{item_id}.json") as answer:
            body = await answer.read()
        item = json.loads(body) or {}
        rows.append((item_id, item.get("type"), item.get("by"), item.get("time"), item.get("parent"), body))
        if len(rows) >= COMMIT_EVERY:
            store()

    def store() -> None:
        with connection:
            connection.executemany("INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?, ?, ?)", rows)
        rows.clear()

    connector = aiohttp.TCPConnector(limit=IN_FLIGHT, ssl=_any_certificate() if url.startswith("https") else True)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(one(session, item_id) for item_id in range(first, last + 1)))
    store()
    connection.close()


class _Lean(asyncio.BufferedProtocol):
    """Asks for the next id as soon as the last answer is complete."""

    def __init__(self, ids: Iterator[int], head: bytes, done: asyncio.Future[None], buffer: bytearray) -> None:
        self._ids = ids
        self._head = head
        self._done = done
        self._buffer = memoryview(buffer)
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._ask()

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._parser.feed_data(self._buffer[:nbytes])

    def on_message_complete(self) -> None:
        self._ask()

    def _ask(self) -> None:
        assert self._transport is not None
        item_id = next(self._ids, None)
        if item_id is None:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)
            return
        self._transport.write(self._head % item_id)


async def limit(url: str, first: int, last: int) -> None:
    """Keep-alive connections, a parser in C, nothing else."""
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    head = f"GET {parts.path}item/%d.json HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
    ids, buffer = iter(range(first, last + 1)), bytearray(64 * 1024)
    tls = _any_certificate() if parts.scheme == "https" else None
    ended: list[asyncio.Future[None]] = []
    for _ in range(IN_FLIGHT):
        done: asyncio.Future[None] = loop.create_future()
        ended.append(done)
        await loop.create_connection(
            partial(_Lean, ids, head, done, buffer),
            parts.hostname,
            parts.port,
            ssl=tls,
        )
    await asyncio.gather(*ended)


def _any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def run(name: str, url: str, path: str, first: str, last: str) -> None:
    """One of the two programs, over these ids."""
    if name == "naive":
        asyncio.run(naive(url, path, int(first), int(last)))
    else:
        asyncio.run(limit(url, int(first), int(last)))


if __name__ == "__main__":
    run(*sys.argv[1:])
