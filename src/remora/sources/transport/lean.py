"""How is one request sent, and what came back? A lean HTTP/1.1 client: keep-alive connections on raw sockets.

One permit is exactly one request on the wire: nothing here is sent again. No redirect is followed. What a
provider does is returned as a value.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self

import aiohappyeyeballs
import msgspec

from remora.contracts import Clock, OnReply, Permit, PromptPermit
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Fault, Misfit, NoReply, Reply
from remora.sources.transport.connection import READ_BYTES, Connection, names_kept
from remora.sources.transport.deadline import Deadlines
from remora.sources.transport.exhaustion import is_our_exhaustion
from remora.sources.transport.known_heads import KnownHeads
from remora.sources.transport.lookup import Lookups
from remora.sources.transport.misfit import misfit_of
from remora.sources.transport.origin import Origin, written_as_numbers
from remora.sources.transport.places import Places
from remora.sources.transport.poller import Poller, poller_for
from remora.sources.transport.pool import Pool
from remora.sources.transport.requests import Requests
from remora.sources.transport.settings import KEEP_ALIVE_S, HttpSettings
from remora.sources.transport.way_out import open_tunnel, trusting

# How often a timer shows how late our own event loop is, and how often it checks for overdue answers and idle connections:
# one check covers all of them.
LOOK_EVERY_S: Final = 0.02
SWEEP_EVERY_S: Final = 0.1
# After a look that came so late, as in a process that was stopped, answers may have come that nobody has read yet.
LATE_NS: Final = 5 * MILLISECOND_NS
# From so many requests in flight on, answers are read together, a few milliseconds late.
MANY_AWAITED: Final = 32
# If one address of a host does not answer within this time, the next one is tried in parallel.
NEXT_ADDRESS_AFTER_S: Final = 0.25


class LeanTransport:
    """`get` of `contracts.Transport`. Connects when first used; `close` it, or use it as a context manager."""

    def __init__(
        self,
        settings: HttpSettings,
        *,
        clock: Clock,
        wire_sent: Callable[[], None],
        tls: ssl.SSLContext | None = None,
        poller: Callable[[asyncio.AbstractEventLoop, Callable[[], bool]], Poller] = poller_for,
    ) -> None:
        """`tls` replaces the machine's own trust store and `ca_file`."""
        self._settings = settings
        self._names_kept = names_kept(settings.headers_kept)
        self._heads = KnownHeads()
        self._clock = clock
        self._wire_sent = wire_sent
        self._tls = tls
        self._new_poller = poller
        self._poller: Poller | None = None
        self._lookups = Lookups()
        self._places = Places(settings.in_flight_max)
        self._pools: dict[Origin, Pool] = {}
        self._busy: set[Connection] = set()
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._sweeper: asyncio.TimerHandle | None = None
        self._look_due_ns = 0
        self._looked_late = False
        self._connecting = Deadlines()
        self._swept_at_ns = 0
        self._requests = Requests(settings, self._pools)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        for connection in [*self._busy, *(each for pool in self._pools.values() for each in pool.take_all())]:
            connection.fail(Fault.CONNECTION)
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        if self._poller is not None:
            self._poller.close()
            self._poller = None

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        """Send exactly one request and return what came back, or why nothing did. Never raises for the provider."""
        return await self._send(url, permit, headers)

    async def post(
        self, url: str, permit: Permit, body: bytes, *, headers: Mapping[str, str] | None = None
    ) -> Reply | NoReply:
        """The same with a body."""
        return await self._send(url, permit, headers, body)

    async def post_form(self, url: str, permit: Permit, form: bytes) -> Reply | NoReply:
        """The same with a form as its body."""
        return await self._send(url, permit, {"Content-Type": "application/x-www-form-urlencoded"}, form)

    def get_now(
        self,
        around: tuple[str, ...],
        name: str,
        permit: PromptPermit,
        on_reply: OnReply,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> "_Exchange | None":
        """Send exactly one request at once; None if there is no idle connection, or the gate holds it back."""
        found = self._requests.named(around, name, headers)
        if found is None:
            return None
        pool, request = found
        were_looked_at = self._poller is not None and self._poller.look_now(self._clock.monotonic_ns())
        connection = pool.take(were_looked_at=were_looked_at) if self._places.is_free else None
        if connection is None:
            return None
        departed_at_ns = permit.depart_now()
        if departed_at_ns is None:
            self._put_back(pool, connection, now_ns=self._clock.monotonic_ns())
            return None
        self._places.take_free()
        exchange = _Exchange(self, pool, connection, on_reply, gives_place=True)
        self._write(exchange, request, permit, departed_at_ns)
        return exchange

    async def _send(
        self, url: str, permit: Permit, headers: Mapping[str, str] | None, body: bytes | None = None
    ) -> Reply | NoReply:
        found = self._requests.get(url, headers) if body is None else self._requests.post(url, headers, body)
        if found is None:
            return self._no_connection(Fault.CONNECTION)
        pool, request = found
        # Waiting for a free connection is our own limit, so no timeout runs meanwhile.
        async with self._places:
            connection = pool.take() or await self._connection(pool)
            if isinstance(connection, NoReply):
                return connection
            return await self._exchange(pool, connection, request, permit)

    async def _exchange(self, pool: Pool, connection: Connection, request: bytes, permit: Permit) -> Reply | NoReply:
        try:
            departed_at_ns = await permit.depart()
        except BaseException:
            self._put_back(pool, connection, now_ns=self._clock.monotonic_ns())
            raise
        # From here to the write nothing yields to the event loop.
        connection.is_quiet()  # what came while the permit waited in the gate is not its answer
        answer: asyncio.Future[Reply | NoReply] = asyncio.get_running_loop().create_future()

        def answered(reply: Reply | NoReply) -> None:
            if not answer.done():  # cancelled in this tick
                answer.set_result(reply)

        exchange = _Exchange(self, pool, connection, answered)
        self._write(exchange, request, permit, departed_at_ns)
        try:
            return await answer
        finally:
            exchange.cancel()

    def _write(self, exchange: "_Exchange", request: bytes, permit: Permit, departed_at_ns: int) -> None:
        # Counted before it: the connection may have died while the permit waited in the gate, and the permit is spent
        # anyway.
        self._wire_sent()
        self._busy.add(exchange.connection)
        exchange.connection.send(request, exchange.answered, departed_at_ns=departed_at_ns)
        permit.sent()
        if self._sweeper is None:
            self._look_later()

    def finished(self, exchange: "_Exchange") -> None:
        """The request is over; its connection may be used again."""
        connection = exchange.connection
        self._busy.discard(connection)
        self._put_back(exchange.pool, connection, now_ns=connection.last_byte_at_ns)
        if exchange.gives_place:
            self._places.give_back()

    # ── connections ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _put_back(self, pool: Pool, connection: Connection, *, now_ns: int) -> None:
        if connection.is_closed:
            return
        if self._poller is None:  # closed meanwhile
            connection.close()
            return
        pool.put(connection, now_ns=now_ns)
        if self._sweeper is None:
            self._look_later()

    async def _connection(self, pool: Pool) -> Connection | NoReply:
        """A new connection, or one that became idle before it made sense to open one more; or why there is none."""
        await pool.may_open()
        connection = pool.take()
        if connection is not None:
            return connection
        pool.opening += 1
        try:
            return await self._open(pool)
        finally:
            pool.opening -= 1

    async def _open(self, pool: Pool) -> Connection | NoReply:
        try:
            loop = asyncio.get_running_loop()
            poller = self._poller = self._poller or self._new_poller(loop, self._are_many_awaited)
            with self._connecting.within(self._settings.connect_timeout_s):
                link = await self._connect(pool)
        except TimeoutError:
            return self._no_connection(Fault.TIMEOUT)
        except (OSError, MemoryError) as error:  # also errors of name lookups and TLS
            fault = Fault.EXHAUSTED if is_our_exhaustion(error) else Fault.CONNECTION
            return self._no_connection(fault, misfit_of(error))
        if self._poller is not poller:  # closed meanwhile
            link.close()
            return self._no_connection(Fault.CONNECTION)
        return Connection(
            link,
            poller,
            self._buffer,
            clock=self._clock,
            body_max_bytes=self._settings.body_max_bytes,
            names_kept=self._names_kept,
            heads=self._heads,
            late_ns=self._late_ns,
        )

    def _no_connection(self, fault: Fault, misfit: Misfit | None = None) -> NoReply:
        return NoReply(fault, None, self._clock.monotonic_ns(), misfit)

    async def _connect(self, pool: Pool) -> socket.socket:
        """A connected socket; if there are several addresses, the first that answers."""
        loop, origin, proxy = asyncio.get_running_loop(), pool.origin, self._settings.proxy
        host, port = (origin.host, origin.port) if proxy is None else proxy
        addresses = written_as_numbers(host, port) or await self._lookups.addresses(host, port)
        link = await aiohappyeyeballs.start_connection(
            addresses, happy_eyeballs_delay=NEXT_ADDRESS_AFTER_S, interleave=1, loop=loop
        )
        try:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if proxy is not None and origin.is_tls:
                await open_tunnel(link, origin.host, origin.port)
            return await self._secured(link, pool) if origin.is_tls else link
        except BaseException:
            link.close()
            raise

    async def _secured(self, link: socket.socket, pool: Pool) -> socket.socket:
        """TLS on the same non-blocking socket: cheaper than the event loop's own, and we time the write."""
        self._tls = self._tls or trusting(self._settings.ca_file)
        secure = self._tls.wrap_socket(
            link, server_hostname=pool.origin.host, do_handshake_on_connect=False, session=pool.session
        )
        try:
            while True:
                try:
                    secure.do_handshake()
                except ssl.SSLWantReadError:
                    await _until_ready(secure.fileno(), writing=False)
                except ssl.SSLWantWriteError:
                    await _until_ready(secure.fileno(), writing=True)
                else:
                    break
        except BaseException:
            secure.close()
            raise
        if not secure.session_reused:
            pool.session = None  # there was none, or the provider has forgotten it
        return secure

    # ── one look at everything, now and then ────────────────────────────────────────────────────────────────────────

    def _look_later(self) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look)
        self._look_due_ns = self._clock.monotonic_ns() + int(LOOK_EVERY_S * SECOND_NS)

    def _late_ns(self, now_ns: int) -> int:
        """How late our own event loop is: whatever came meanwhile was not read at once."""
        late_ns = 0 if self._poller is None else self._poller.late_ns
        loop_late_ns = now_ns - self._look_due_ns
        # Runs for every answer: a call of `max` would cost more than the rest.
        return loop_late_ns if self._sweeper is not None and loop_late_ns > late_ns else late_ns

    def _are_many_awaited(self) -> bool:
        """Whether to read many answers together. Not while requests wait for a place: then each answer lets one go."""
        return len(self._busy) >= MANY_AWAITED and self._places.is_free

    def _look(self) -> None:
        now_ns = self._clock.monotonic_ns()
        # Read before it is judged: what came while the loop was late is read before the second look, and known to be late.
        self._looked_late = not self._looked_late and now_ns - self._look_due_ns > LATE_NS
        if self._looked_late:
            self._sweeper = asyncio.get_running_loop().call_later(0, self._look)
            return
        self._sweeper = None
        if now_ns - self._swept_at_ns >= SWEEP_EVERY_S * SECOND_NS:
            self._swept_at_ns = now_ns
            self._sweep(now_ns)
        if self._busy or any(pool.has_idle for pool in self._pools.values()):
            self._look_later()

    def _sweep(self, now_ns: int) -> None:
        """Fail requests that have taken too long, and close connections that have been idle for too long."""
        silent_ns = int(self._settings.read_timeout_s * SECOND_NS)
        total_ns = int(self._settings.total_timeout_s * SECOND_NS)
        for connection in list(self._busy):
            if now_ns - connection.last_byte_at_ns > silent_ns or now_ns - connection.departed_at_ns > total_ns:
                connection.fail(Fault.TIMEOUT)
        keep_ns = int(KEEP_ALIVE_S * SECOND_NS)
        for pool in self._pools.values():
            pool.close_idle(since_before_ns=now_ns - keep_ns)


class _Exchange(msgspec.Struct, eq=False):
    """One request on its connection."""

    transport: LeanTransport
    pool: Pool
    connection: Connection
    on_reply: OnReply
    gives_place: bool = False
    is_over: bool = False

    def answered(self, reply: Reply | NoReply) -> None:
        """The answer, or why none came."""
        self.is_over = True
        self.transport.finished(self)
        self.on_reply(reply)

    def cancel(self) -> None:
        """Nobody wants the answer any more: it must not be mistaken for the next one."""
        if not self.is_over:
            self.is_over = True
            self.connection.close()
            self.transport.finished(self)


async def _until_ready(descriptor: int, *, writing: bool) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    (loop.add_writer if writing else loop.add_reader)(descriptor, wake)
    try:
        await ready
    finally:
        (loop.remove_writer if writing else loop.remove_reader)(descriptor)
