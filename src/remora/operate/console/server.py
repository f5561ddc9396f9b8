"""What is served at 127.0.0.1:8611? The status page, its data and live events, health, metrics, and one command.

Reads need no permission beyond reaching the address. The one command that changes anything asks for a header that no
foreign page can send. Names of foreign hosts are refused, so that no page can reach in through a forged name.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
import structlog
from aiohttp import web

from remora.contracts import Clock
from remora.core.errors import ConfigurationError, RemoraError, StoreError
from remora.core.reasons import GapReason
from remora.core.status.health import reasons_against_health
from remora.core.units import SECOND_NS
from remora.operate.config.settings import LOOPBACK_NAMES
from remora.operate.observe.metrics import Metrics
from remora.operate.observe.newest_items import Arrival, NewestItems
from remora.operate.observe.status_cache import StatusCache

log = structlog.get_logger()

VIEWERS_MAX: Final = 64
EVENT_EVERY_NS: Final = SECOND_NS
REQUEST_BYTES_MAX: Final = 16 << 10
SHUTDOWN_S: Final = 2.0
OWN_HEADER: Final = "X-Remora"
STATIC: Final = Path(__file__).parent / "static"
FILES: Final = {
    "/": ("index.html", "text/html"),
    "/console.css": ("console.css", "text/css"),
    "/console.js": ("console.js", "text/javascript"),
    "/charts.js": ("charts.js", "text/javascript"),
    "/panels.js": ("panels.js", "text/javascript"),
    "/theme.js": ("theme.js", "text/javascript"),
    "/words.js": ("words.js", "text/javascript"),
}
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Replay = Callable[[str | None, GapReason | None, str | None], Awaitable[int]]


class ReplayRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which gaps should be due now: all of them, those of a reason, or one."""

    source: str | None = None
    all: bool = False
    reason: GapReason | None = None
    id: str | None = None


class ConsoleServer:
    """The HTTP side of a runtime."""

    def __init__(
        self,
        feed: StatusCache,
        metrics: Metrics,
        replay: Replay,
        *,
        address: tuple[str, int],
        clock: Clock,
        arrivals: NewestItems | None = None,
    ) -> None:
        self._feed = feed
        self._metrics = metrics
        self._replay = replay
        self._arrivals = arrivals
        self._host, self._port = address
        self._clock = clock
        self._viewers = 0
        self._closing = asyncio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where the page is, with the port that was really taken."""
        assert self._runner is not None, "the console is not open"
        port = self._runner.addresses[0][1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{port}"

    async def open(self) -> None:
        """Start to listen. An address that is taken is the owner's to change."""
        runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            raise ConfigurationError(
                f"the console cannot listen on {self._host}:{self._port} ({error.strerror})",
                hint="choose another address with --listen, as --listen 127.0.0.1:8612",
            ) from None
        self._runner = runner
        log.info("console_listening", url=self.url)

    async def close(self) -> None:
        """Let every viewer go and stop listening."""
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard], client_max_size=REQUEST_BYTES_MAX)
        for path in FILES:
            app.router.add_get(path, self._file)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._scrape)
        app.router.add_get("/api/status", self._status)
        app.router.add_get("/api/history", self._history)
        app.router.add_get("/api/events", self._events)
        app.router.add_post("/api/gaps/replay", self._replay_gaps)
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if not self._is_our_name(request.host):
            return _error(421, "this name is not ours", "open the console by the address it listens on")
        try:
            response = await handler(request)
        except web.HTTPException as refused:
            return _error(refused.status_code, refused.reason, "see the documentation of the console")
        except RemoraError as error:
            return _error(503 if isinstance(error, StoreError) else 400, error.message, error.hint)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    def _is_our_name(self, host_header: str) -> bool:
        """On a loopback address only loopback names are ours; elsewhere the owner chose to be reached by any."""
        if self._host not in LOOPBACK_NAMES:
            return True
        try:
            return urlsplit(f"//{host_header}").hostname in LOOPBACK_NAMES
        except ValueError:
            return False

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name, content_type = FILES[request.path]
        return web.Response(body=(STATIC / name).read_bytes(), content_type=content_type, charset="utf-8")

    async def _health(self, request: web.Request) -> web.StreamResponse:
        try:
            reasons = reasons_against_health(await self._feed.latest())
        except StoreError as error:
            reasons = (error.message,)
        return _json({"healthy": not reasons, "reasons": reasons}, status=503 if reasons else 200)

    async def _scrape(self, request: web.Request) -> web.StreamResponse:
        try:
            await self._feed.latest()
        except StoreError as error:
            # What the counters know is worth scraping while the store is down.
            log.warning("metrics_without_store", why=error.message)
        body, content_type = self._metrics.scrape(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _status(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._feed.latest())

    async def _history(self, request: web.Request) -> web.StreamResponse:
        return _json({"schema": 1, "sources": self._feed.history.all()})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """The status once a second and new items as they come, until the viewer or the service goes."""
        if self._viewers >= VIEWERS_MAX:
            return _error(503, f"{VIEWERS_MAX} viewers are connected already", "close another one")
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        self._viewers += 1
        try:
            await response.prepare(request)
            await response.write(b"retry: 1000\n\n")
            told: Mapping[str, tuple[Arrival, ...]] | None = None
            while not self._closing.is_set():
                await response.write(b"event: status\ndata: " + await self._feed.as_json() + b"\n\n")
                newest = await self._newest_items()
                if newest is not None and newest != told:
                    told = newest
                    await response.write(b"event: items\ndata: " + msgspec.json.encode(newest) + b"\n\n")
                await self._next_event()
        except ConnectionError:
            return response  # the viewer went away
        finally:
            self._viewers -= 1
        return response

    async def _newest_items(self) -> Mapping[str, tuple[Arrival, ...]] | None:
        if self._arrivals is None:
            return None
        try:
            return await self._arrivals.latest(await self._feed.latest())
        except StoreError:
            return None  # the status that was just sent says so

    async def _next_event(self) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep_until(self._clock.monotonic_ns() + EVENT_EVERY_NS))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait((sleeping, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            closing.cancel()

    async def _replay_gaps(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get(OWN_HEADER) != "1" or not _is_same_origin(request):
            return _error(403, "this request does not come from the console", f"send the header {OWN_HEADER}: 1")
        try:
            wanted = msgspec.json.decode(await request.read() or b"{}", type=ReplayRequest)
        except msgspec.MsgspecError as error:
            raise ConfigurationError(str(error), hint='send {"all": true}, {"reason": "…"} or {"id": "…"}') from None
        if sum((wanted.all, wanted.reason is not None, wanted.id is not None)) != 1:
            raise ConfigurationError(
                "which gaps are meant is not clear", hint='send {"all": true}, {"reason": "…"} or {"id": "…"}'
            )
        count = await self._replay(wanted.source, wanted.reason, wanted.id)
        log.info("gaps_replayed", count=count, reason=wanted.reason, source=wanted.source)
        self._feed.forget()
        return _json({"replayed": count})


def _is_same_origin(request: web.Request) -> bool:
    """A browser names the page a request comes from; it must be ours. Other clients name none."""
    origin = request.headers.get("Origin")
    return origin is None or origin.partition("://")[2] == request.host


def _json(value: object, *, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _error(status: int, message: str, hint: str) -> web.Response:
    response = _json({"error": message, "hint": hint}, status=status)
    response.headers.update(HEADERS)
    return response
