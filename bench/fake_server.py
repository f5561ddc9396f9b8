"""How do real processes reach a fake? A server on loopback answers for it and counts what arrives."""

import asyncio
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from aiohttp import web

from remora.sim.replies import Answer, Hang, Reset
from remora.testing import Fake

LATENCY_S = 0.02  # what a near provider takes; without it a list could not move between two pages


class FakeServer:
    """Serves one fake from a thread of its own, in real time."""

    def __init__(self, fake: Fake, *, latency_s: float = LATENCY_S) -> None:
        self.fake = fake
        self._latency_s = latency_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ready = threading.Event()
        self.port = 0
        fake.world.now_ns = time.time_ns

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        self.fake.origin = self.origin
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def wait_until(self, is_so: Callable[[], bool], *, within_s: float) -> bool:
        """Whether it became so in time."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if is_so():
                return True
            time.sleep(0.005)
        return False

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()

    async def _start(self) -> None:
        application = web.Application()
        application.router.add_route("*", "/{tail:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read() if request.method == "POST" else None
        response = self.fake.respond(request.raw_path, dict(request.headers), body)
        await asyncio.sleep(self._latency_s)
        match response:
            case Answer():
                return web.Response(status=response.status, body=response.body, headers=dict(response.headers))
            case Hang() | Reset():
                assert request.transport is not None, "a request that is answered has a connection"
                request.transport.abort()
                return web.Response()
