"""How does a program follow the changes over HTTP? `/api/changes`: server-sent events whose ids are durable positions.

A stream ends after some seconds and the client connects again with `Last-Event-ID`, as every EventSource does by itself.
So a connection never stays for ever, and nothing is lost in between: the position is in the store, not in the connection.
"""

import asyncio
from contextlib import aclosing
from typing import Final

from aiohttp import web

from remora.contracts import Clock
from remora.core.errors import RemoraError
from remora.core.units import SECOND_NS
from remora.operate.console.reader.pages import status_of
from remora.read.changes import as_line
from remora.read.mirror import MirrorReader

STREAM_NS: Final = 15 * SECOND_NS
LOOK_EVERY_NS: Final = SECOND_NS
STREAMS_MAX: Final = 20
SEND_WITHIN_S: Final = 5.0
POSITION_MAX: Final = 64
_HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


class ChangesFeed:
    """The change feed as server-sent events. `since` is a position, or `now`; without it the feed begins at its oldest."""

    def __init__(
        self, url: str, *, clock: Clock, stream_ns: int = STREAM_NS, closing: asyncio.Event | None = None
    ) -> None:
        self._url = url
        self._clock = clock
        self._stream_ns = stream_ns
        self._closing = closing or asyncio.Event()  # set when the console closes: a stream ends, and loses nothing
        self._streams = 0

    def routes(self) -> list[web.RouteDef]:
        """What the console serves."""
        return [web.get("/api/changes", self._follow, allow_head=False)]

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= STREAMS_MAX:
            return _refused(503, f"{STREAMS_MAX} programs follow the changes already", "try again later")
        since = request.headers.get("Last-Event-ID") or request.query.get("since") or "0"
        self._streams += 1
        try:
            async with MirrorReader(self._url) as mirror:
                if since == "now":
                    since = await mirror.newest_position()
                async with aclosing(mirror.change_pages(since=since[:POSITION_MAX])) as pages:
                    await anext(pages, None)  # refuses a text that is no position before anything is sent
                return await self._stream(request, mirror, since)
        except RemoraError as error:
            return _refused(status_of(error), error.message, error.hint)
        finally:
            self._streams -= 1

    async def _stream(self, request: web.Request, mirror: MirrorReader, since: str) -> web.StreamResponse:
        response = web.StreamResponse(headers=_HEADERS)
        ends_ns = self._clock.monotonic_ns() + self._stream_ns
        try:
            await response.prepare(request)
            await _send(response, b"retry: 1000\n\n")
            while True:
                async for page in mirror.change_pages(since=since):
                    events = (b"id: %s\ndata: %s\n\n" % (each.position.encode(), as_line(each)) for each in page)
                    await _send(response, b"".join(events))
                    since = page[-1].position
                    if self._is_over(ends_ns):
                        return response
                await _send(response, b": alive\n\n")
                if self._is_over(ends_ns):
                    return response
                await self._clock.sleep_until(self._clock.monotonic_ns() + LOOK_EVERY_NS)
        except RemoraError:
            pass  # the answer has begun and cannot become an error: it ends, and whoever connects again is told why
        except (ConnectionError, TimeoutError):
            # The program is gone or has stopped reading: unsent bytes must not stay in memory.
            if request.transport is not None:
                request.transport.abort()
        return response

    def _is_over(self, ends_ns: int) -> bool:
        return self._closing.is_set() or self._clock.monotonic_ns() >= ends_ns


async def _send(response: web.StreamResponse, events: bytes) -> None:
    async with asyncio.timeout(SEND_WITHIN_S):
        await response.write(events)


def _refused(status: int, message: str, hint: str) -> web.Response:
    return web.json_response({"error": message, "hint": hint}, status=status, headers={"Cache-Control": "no-store"})
