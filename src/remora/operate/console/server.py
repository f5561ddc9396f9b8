"""What is served at 127.0.0.1:8611? The status page, its data and live events, health, metrics, a login and one command.

`access` decides who may look, `connections` how many connections may stay. The one command that changes anything also
requires a header that no foreign page can send.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

import msgspec
import structlog
from aiohttp import web

from remora.contracts import Clock
from remora.core.errors import ConfigurationError, RemoraError, StoreError
from remora.core.reasons import GapReason
from remora.core.status.health import reasons_against_health
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.operate.console.access import COOKIE, SESSION_S, Access
from remora.operate.console.actions import BODY_WITHIN_S, Actions, Operator, read_body, require_own_header
from remora.operate.console.connections import BACKLOG, Bounds, ConnectionTable, Phase, Watched
from remora.operate.console.reader.links import READER, to_root
from remora.operate.observe.metrics import Metrics
from remora.operate.observe.newest_items import Arrival, NewestItems
from remora.operate.observe.status_cache import StatusCache

log = structlog.get_logger()

EVENT_EVERY_NS: Final = SECOND_NS
REQUEST_BYTES_MAX: Final = 16 << 10
# How long a visitor may take to send the rest of a request, and a viewer to read some of what is sent.
VIEWER_TAKES_WITHIN_S: Final = 10.0
SWEEP_EVERY_NS: Final = SECOND_NS
TOLD_EVERY_NS: Final = MINUTE_NS
SHUTDOWN_S: Final = 2.0
STATIC: Final = Path(__file__).parent / "static"
FILES: Final = {
    "/": ("index.html", "text/html"),
    "/console.css": ("console.css", "text/css"),
    "/login.css": ("login.css", "text/css"),
    "/console.js": ("console.js", "text/javascript"),
    "/charts.js": ("charts.js", "text/javascript"),
    "/overview.js": ("overview.js", "text/javascript"),
    "/panels.js": ("panels.js", "text/javascript"),
    "/reader_links.js": ("reader_links.js", "text/javascript"),
    "/runbook": ("runbook.html", "text/html"),
    "/theme.js": ("theme.js", "text/javascript"),
    "/timeline.js": ("timeline.js", "text/javascript"),
    "/words.js": ("words.js", "text/javascript"),
}
LOGIN: Final = "/login"
# Relative, so that a reverse proxy may serve the console below a path of its own.
HOME: Final = "./"
# What a visitor without the token may get: static files, the login and the health of the service.
FOR_ANYBODY: Final = frozenset(FILES) - {"/"} | {LOGIN, "/health"}
NOTHING_SAID: Final = " hidden></p>"
NOT_IT: Final = ">That is not the token.</p>"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action {forms}; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY.format(forms="'none'"),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "remora",
}

# With no-referrer a browser would not say that our own form comes from us.
LOGIN_HEADERS: Final = {"Content-Security-Policy": POLICY.format(forms="'self'"), "Referrer-Policy": "same-origin"}

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
        newest_items: NewestItems | None = None,
        access: Access | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self._pages: list[web.RouteDef] = []
        self._cache = feed
        self._metrics = metrics
        self._replay = replay
        self._newest_items = newest_items
        self._host, self._port = address
        self._clock = clock
        self._access = access or Access(self._host)
        self._bounds = bounds or Bounds()
        self._table = ConnectionTable(self._bounds)
        self._logins_refused = 0
        self.closing = asyncio.Event()  # set when it closes: streams end
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address of the page, with the actual port."""
        assert self._listener is not None, "the console is not open"
        port = self._listener.sockets[0].getsockname()[1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{port}"

    def add_pages(self, routes: Iterable[web.RouteDef]) -> None:
        """Serve further pages, behind the same guards. Call it before `open`."""
        self._pages.extend(routes)

    def obey(self, operator: Operator) -> None:
        """Let visitors act through this operator. Before `open`."""
        self.add_pages(Actions(operator, clock=self._clock, changed=self._cache.forget).routes())

    async def open(self) -> None:
        """Start listening. If the address is in use, the owner must change it."""
        runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        serve = runner.server
        assert serve is not None, "a runner that was set up has a server"
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(
                lambda: Watched(serve, self._table, clock=self._clock), self._host, self._port, backlog=BACKLOG
            )
        except OSError as error:
            await runner.cleanup()
            raise ConfigurationError(
                f"the console cannot listen on {self._host}:{self._port} ({error.strerror})",
                hint="choose another address with --listen, as --listen 127.0.0.1:8612",
            ) from None
        self._runner = runner
        self._sweeper = loop.create_task(self._sweep(), name="console_connections")
        log.info("console_listening", url=self.url, connections_max=self._bounds.connections)

    async def close(self) -> None:
        """Close every viewer and stop listening."""
        self.closing.set()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _sweep(self) -> None:
        """Close overdue connections once a second. Log once a minute how many were closed and refused."""
        told_ns = self._clock.monotonic_ns() - TOLD_EVERY_NS
        while True:
            now_ns = self._clock.monotonic_ns()
            for transport in self._table.overdue(now_ns=now_ns):
                assert isinstance(transport, asyncio.Transport), "connections are known by their transport"
                transport.abort()
            if now_ns - told_ns >= TOLD_EVERY_NS and self._tell():
                told_ns = now_ns
            await self._clock.sleep_until(now_ns + SWEEP_EVERY_NS)

    def _tell(self) -> bool:
        """Log what visitors did since the last time; False if there is nothing to log."""
        ended, refused = self._table.take_ended(), self._logins_refused
        self._logins_refused = 0
        if ended:
            log.info("connections_closed", count=ended, open=len(self._table))
        if refused:
            log.warning("logins_refused", count=refused)
        return bool(ended or refused)

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard], client_max_size=REQUEST_BYTES_MAX)
        app.on_response_prepare.append(_add_headers)
        for path in FILES:
            app.router.add_get(path, self._file)
        app.router.add_get(LOGIN, self._show_login)
        app.router.add_post(LOGIN, self._log_in)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._scrape)
        app.router.add_get("/api/status", self._status)
        app.router.add_get("/api/history", self._history)
        app.router.add_get("/api/history/long", self._long_history)
        app.router.add_get("/api/events", self._events, allow_head=False)
        app.router.add_post("/api/gaps/replay", self._replay_gaps)
        app.add_routes(self._pages)
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self._table.move(request.transport, Phase.ANSWERING, now_ns=self._clock.monotonic_ns())
        try:
            response = await self._answer(request, handler)
            await _send_whole(request, response)
        finally:
            self._table.move(request.transport, Phase.IDLE, now_ns=self._clock.monotonic_ns())
        return response

    async def _answer(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """The page, or an error as JSON."""
        try:
            return self._refusal(request) or await handler(request)
        except web.HTTPException as refused:
            response = _error(refused.status_code, refused.reason, "see the documentation of the console")
            if isinstance(refused, web.HTTPMethodNotAllowed):
                response.headers["Allow"] = refused.headers["Allow"]
            return response
        except TimeoutError:
            response = _error(408, "the request did not become whole in time", "send it in one piece")
            response.force_close()
            return response
        except web.RequestPayloadError:
            return _error(400, "the body cannot be read", "send it as it is, without Content-Encoding")
        except RemoraError as error:
            return _error(503 if isinstance(error, StoreError) else 400, error.message, error.hint)

    def _refusal(self, request: web.Request) -> web.Response | None:
        """Why this request is refused; None if it is allowed."""
        if not self._access.is_our_name(request.headers.get("Host", "")):
            hint = "open the console by its address, or write the name into hosts in [console]"
            return _error(403, "the console is not served under this name", hint)
        if not self._access.is_our_page(request.headers, reads=request.method in {"GET", "HEAD"}):
            return _error(403, "another web page sent this request", "open the console itself")
        if request.path in FOR_ANYBODY or self._knows(request):
            return None
        if request.path == "/" or f"{request.path}/".startswith(f"{READER}/"):
            return web.Response(status=303, headers={"Location": to_root(request.rel_url.raw_path) + "login"})
        refused = _error(401, "the console asks for its token", "send the header Authorization: Bearer TOKEN")
        refused.headers["WWW-Authenticate"] = "Bearer"
        return refused

    def _knows(self, request: web.Request) -> bool:
        """Whether this visitor has sent the token, if one is needed."""
        return self._access.is_let_in(request.headers, request.cookies, now_s=self._now_s())

    def _now_s(self) -> int:
        return self._clock.wall_ns() // SECOND_NS

    async def _show_login(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=303, headers={"Location": HOME}) if self._knows(request) else _login_page()

    async def _log_in(self, request: web.Request) -> web.StreamResponse:
        """Exchange the token for a session. The token comes in the body, never in an address."""
        async with asyncio.timeout(BODY_WITHIN_S):
            # A browser sends the form like this. Other forms and charsets have no use here, and many ways to be wrong.
            form = parse_qs((await request.read()).decode("utf-8", "replace"))
        if not self._access.is_token(form.get("token", [""])[0].strip()):
            self._logins_refused += 1
            return _login_page(said=NOT_IT, status=401)
        response = web.Response(status=303, headers={"Location": HOME})
        response.set_cookie(
            COOKIE,
            self._access.session(now_s=self._now_s()),
            max_age=SESSION_S,
            httponly=True,
            samesite="Strict",
            secure=request.headers.get("Origin", "").startswith("https://"),
        )
        return response

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name, content_type = FILES[request.path]
        return web.Response(body=(STATIC / name).read_bytes(), content_type=content_type, charset="utf-8")

    async def _health(self, request: web.Request) -> web.StreamResponse:
        try:
            reasons = reasons_against_health(await self._cache.latest())
        except StoreError as error:
            reasons = (error.message,)
        told = {"healthy": not reasons, "reasons": reasons} if self._knows(request) else {"healthy": not reasons}
        return _json(told, status=503 if reasons else 200)

    async def _scrape(self, request: web.Request) -> web.StreamResponse:
        try:
            await self._cache.latest()
        except StoreError as error:
            # The counters are worth scraping even while the store is down.
            log.warning("metrics_without_store", why=error.message)
        body, content_type = self._metrics.scrape(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _status(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._cache.latest())

    async def _history(self, request: web.Request) -> web.StreamResponse:
        return _json({"schema": 1, "sources": self._cache.history.all()})

    async def _long_history(self, request: web.Request) -> web.StreamResponse:
        return _json({"schema": 1, "sources": self._cache.history.long()})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Send the status once a second and new items as they come, until the viewer or the service ends."""
        if not self._table.may_watch():
            return _error(503, f"{self._bounds.viewers} viewers are connected already", "close another one")
        self._table.move(request.transport, Phase.WATCHING, now_ns=self._clock.monotonic_ns())
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        try:
            await response.prepare(request)
            await self._send(response, b"retry: 1000\n\n")
            told: Mapping[str, tuple[Arrival, ...]] | None = None
            while not self.closing.is_set() and self._knows(request):
                await self._send(response, b"event: status\ndata: " + await self._cache.as_json() + b"\n\n")
                newest = await self._latest_items()
                if newest is not None and newest != told:
                    told = newest
                    await self._send(response, b"event: items\ndata: " + msgspec.json.encode(newest) + b"\n\n")
                await self._next_event()
        except (ConnectionError, TimeoutError):
            # The viewer is gone or has stopped reading: unsent bytes must not stay in memory.
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _send(self, response: web.StreamResponse, event: bytes) -> None:
        """Send an event. Waits until the viewer has read what was sent before."""
        async with asyncio.timeout(VIEWER_TAKES_WITHIN_S):
            await response.write(event)

    async def _latest_items(self) -> Mapping[str, tuple[Arrival, ...]] | None:
        if self._newest_items is None:
            return None
        try:
            return await self._newest_items.latest(await self._cache.latest())
        except StoreError:
            return None  # the status that was just sent says so

    async def _next_event(self) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep_until(self._clock.monotonic_ns() + EVENT_EVERY_NS))
        closing = asyncio.ensure_future(self.closing.wait())
        try:
            await asyncio.wait((sleeping, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            closing.cancel()

    async def _replay_gaps(self, request: web.Request) -> web.StreamResponse:
        require_own_header(request)
        wanted = await read_body(request, ReplayRequest, hint='send {"all": true}, {"reason": "…"} or {"id": "…"}')
        if sum((wanted.all, wanted.reason is not None, wanted.id is not None)) != 1:
            raise ConfigurationError(
                "which gaps are meant is not clear", hint='send {"all": true}, {"reason": "…"} or {"id": "…"}'
            )
        count = await self._replay(wanted.source, wanted.reason, wanted.id)
        log.info("gaps_replayed", count=count, reason=wanted.reason, source=wanted.source)
        self._cache.forget()
        return _json({"replayed": count})


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Before any answer is sent, a stream too, which sends its head itself."""
    response.headers.update({name: text for name, text in HEADERS.items() if name not in response.headers})
    response.headers["Server"] = HEADERS["Server"]


async def _send_whole(request: web.Request, response: web.StreamResponse) -> None:
    """Send the answer while its connection still counts as answering; the server would send it after that."""
    try:
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError as gone:
        # The visitor has gone. The error and what it was raised by keep each other, and with the frames of its traceback
        # the whole answer, until garbage is looked for, which a quiet service seldom does.
        gone.__traceback__ = None


def _login_page(*, said: str = NOTHING_SAID, status: int = 200) -> web.Response:
    page = (STATIC / "login.html").read_text("utf-8").replace(NOTHING_SAID, said)
    return web.Response(text=page, content_type="text/html", status=status, headers=LOGIN_HEADERS)


def _json(value: object, *, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _error(status: int, message: str, hint: str) -> web.Response:
    return _json({"error": message, "hint": hint}, status=status)
