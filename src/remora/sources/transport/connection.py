"""How does one HTTP/1.1 connection carry one request at a time? Raw sockets, a parser in C, and our own buffers.

A connection is written to right after its permit departed, and never twice for one permit. Bytes get a timestamp when
they arrive, so that the measured latency is the provider's and not ours.
"""

import asyncio
import select
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import httptools

from remora.contracts import Clock
from remora.core.verdict import Fault, Misfit, NoReply, Reply
from remora.sources.transport.known_heads import KnownHeads
from remora.sources.transport.misfit import misfit_in
from remora.sources.transport.poller import Poller
from remora.sources.transport.settings import HEADERS_JOINED, HEADERS_KEPT

READ_BYTES: Final = 64 * 1024
# One answer may be read this often in a row, as long as it is not complete: others wait meanwhile.
READS_AT_ONCE: Final = 16
# The most that TLS decrypts at once. A buffer that is not smaller leaves nothing behind that no descriptor shows.
_TLS_RECORD_BYTES: Final = 16 * 1024
HEAD_MAX_BYTES: Final = 64 * 1024
# The headers that the connection itself needs.
_NAMES_NEEDED: Final = ("content-encoding",)
_NO_HEADERS: Final[dict[str, str]] = {}  # of an answer without any that is kept: never changed
_WOULD_BLOCK: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

Answer = Reply | NoReply


def names_kept(headers: Iterable[str]) -> Mapping[bytes, str]:
    """The headers to keep, by their name on the wire."""
    return {name.encode(): name for name in (*headers, *_NAMES_NEEDED)}


NAMES_KEPT: Final = names_kept(HEADERS_KEPT)


class Connection:
    """One open connection. It is idle or waits for the answer to one request."""

    _headers: dict[str, str]  # of the answer so far, as far as they are kept
    _has_begun: bool  # the parser has some of the next answer
    _whole: bytes  # the answer, if one read brought all of it
    _length: bytes  # of its body, as it was told

    __slots__ = (
        "_began_unasked",
        "_body",
        "_body_max_bytes",
        "_buffer",
        "_clock",
        "_ends_with_connection",
        "_has_begun",
        "_has_head",
        "_head_bytes",
        "_headers",
        "_heads",
        "_late_ns",
        "_length",
        "_loop",
        "_names_kept",
        "_on_answer",
        "_parser",
        "_poller",
        "_size",
        "_socket",
        "_unsent",
        "_watch",
        "_whole",
        "departed_at_ns",
        "is_closed",
        "last_byte_at_ns",
        "late_ns",
    )

    def __init__(
        self,
        link: socket.socket,
        poller: Poller,
        buffer: memoryview,
        *,
        clock: Clock,
        body_max_bytes: int,
        names_kept: Mapping[bytes, str] = NAMES_KEPT,
        heads: KnownHeads | None = None,
        late_ns: Callable[[int], int] = lambda _now_ns: 0,
    ) -> None:
        """`buffer` is shared by all connections of one event loop: it is read out before anything else runs.

        `heads` may be shared by connections that keep the same headers. `late_ns` says how late the event loop is at a moment.
        """
        self._socket = link
        assert not isinstance(link, ssl.SSLSocket) or len(buffer) >= _TLS_RECORD_BYTES, "a record must fit"
        self._poller = poller
        self._buffer = buffer
        self._clock = clock
        self._body_max_bytes = body_max_bytes
        self._names_kept = names_kept
        self._heads = heads or KnownHeads()
        self._late_ns = late_ns
        self.late_ns = 0  # when the last bytes were read
        self._loop = asyncio.get_running_loop()
        self._on_answer: Callable[[Answer], None] | None = None
        self._unsent = b""
        self.is_closed = False
        self.departed_at_ns = 0
        self.last_byte_at_ns = clock.monotonic_ns()
        self._parser = httptools.HttpResponseParser(self)
        self._watch = select.poll()
        self._watch.register(link.fileno(), select.POLLIN)
        self._began_unasked = False
        self._reset()
        poller.add(link.fileno(), self._on_readable)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited."""
        return self._on_answer is not None

    @property
    def tls_session(self) -> ssl.SSLSession | None:
        """The session that a further connection may resume; None without TLS, and before the provider gave one."""
        session = self._socket.session if isinstance(self._socket, ssl.SSLSocket) else None
        return session if session is not None and session.has_ticket else None

    def send(self, request: bytes, on_answer: Callable[[Answer], None], *, departed_at_ns: int) -> None:
        """Write the request now; `on_answer` gets the answer, or why none came, perhaps before this returns."""
        assert self._on_answer is None, "a connection carries one request at a time"
        self._on_answer = on_answer
        self.departed_at_ns = self.last_byte_at_ns = departed_at_ns
        if self.is_closed:  # it died while the permit waited in the gate; the permit is spent anyway
            self.fail(Fault.CONNECTION)
            return
        try:
            sent = self._socket.send(request)
        except _WOULD_BLOCK:
            sent = 0
        except OSError:
            self.fail(Fault.CONNECTION)
            return
        if sent < len(request):
            self._unsent = request[sent:]
            self._loop.add_writer(self._socket.fileno(), self._on_writable)

    def is_quiet(self) -> bool:
        """Whether nothing came while nobody asked; otherwise it is closed. It may have come since the poller looked last."""
        if self.is_closed:
            return False
        if not self._watch.poll(0):
            return True  # fast path: to read and to be refused costs several times as much
        try:
            self._socket.recv(1)  # over TLS something may have come that is no answer
        except _WOULD_BLOCK:
            return True
        except OSError:
            pass
        self.close()
        return False

    def fail(self, fault: Fault, misfit: Misfit | None = None) -> None:
        """No answer will come: tell the waiting caller why, and do not use the connection again."""
        on_answer = self._on_answer
        self.close()
        if on_answer is not None:
            self._on_answer = None
            on_answer(NoReply(fault, self.departed_at_ns, self._clock.monotonic_ns(), misfit))

    def close(self) -> None:
        """Close the socket. A caller that waited for an answer was told, or no longer wants it."""
        self._on_answer = None
        if self.is_closed:
            return
        self.is_closed = True
        descriptor = self._socket.fileno()
        self._poller.remove(descriptor)
        self._stop_writing(descriptor)
        self._socket.close()

    # ── writing what did not fit ────────────────────────────────────────────────────────────────────────────────────

    def _on_writable(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except _WOULD_BLOCK:
            return
        except OSError:
            self.fail(Fault.CONNECTION)
            return
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._stop_writing(self._socket.fileno())

    def _stop_writing(self, descriptor: int) -> None:
        if self._unsent:
            self._unsent = b""
        self._loop.remove_writer(descriptor)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_readable(self) -> None:
        now_ns = self._clock.monotonic_ns()
        self.late_ns = self._late_ns(now_ns)
        for _ in range(READS_AT_ONCE):
            try:
                count = self._socket.recv_into(self._buffer)
            except _WOULD_BLOCK:
                return
            except OSError:
                self.fail(Fault.CONNECTION)
                return
            if count == 0:
                self._on_end(now_ns)
                return
            self._feed(self._buffer[:count], now_ns)
            if self._on_answer is None:  # answered or failed; a small answer is read at once
                return

    def _feed(self, data: memoryview, now_ns: int) -> None:
        if self._on_answer is None:
            self.close()  # nobody asked for this
            return
        self.last_byte_at_ns = now_ns
        whole = b"" if self._has_begun or self._unsent else bytes(data)
        known = self._heads.answer_in(whole) if whole else None
        if known is not None and len(known[1]) <= self._body_max_bytes:
            head, body = known
            on_answer, self._on_answer = self._on_answer, None
            on_answer(Reply(head.status, body, self.departed_at_ns, now_ns, head.headers, self.late_ns))
            return  # fast path
        self._whole = whole
        size = self._size
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            self.fail(Fault.CONNECTION)
            raise  # our own mistake
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.fail(Fault.CONNECTION, misfit_in(data))  # the server does not speak HTTP
            return
        if not self.is_busy:  # answered
            if self._began_unasked:
                self.close()
        elif self._size > self._body_max_bytes:
            self.fail(Fault.TOO_LARGE)
        elif self._size > size:
            self._head_bytes = 0
        else:  # a head, or what follows a body: the parser keeps a header until it ends
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_MAX_BYTES:
                self.fail(Fault.CONNECTION)

    def _on_end(self, now_ns: int) -> None:
        """The provider will send nothing more. That ends a body which had no other end."""
        if self._on_answer is not None and self._has_head and self._ends_with_connection:
            self.last_byte_at_ns = now_ns
            self._answer(keep=False)
        else:
            self.fail(Fault.CONNECTION)

    # ── what the parser calls ───────────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        """Another answer begins. There must be a request for it."""
        self._began_unasked = self._on_answer is None
        self._has_begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header of the answer."""
        lower = name.lower()
        if lower == b"content-length":
            self._length = self._length or value
        elif lower == b"transfer-encoding" and b"chunked" in value.lower():
            self._ends_with_connection = False
        if lower in self._names_kept and not self._has_head:  # what follows the body describes nothing that was read
            self._keep(self._names_kept[lower], value.decode("latin-1"))

    def _keep(self, name: str, text: str) -> None:
        if self._headers is _NO_HEADERS:
            self._headers = {}
        before = self._headers.get(name)
        if before is None:
            self._headers[name] = text
        elif name in HEADERS_JOINED:
            self._headers[name] = f"{before}, {text}"

    def on_headers_complete(self) -> None:
        """The head is complete; of the body only its length may be known."""
        self._has_head = True
        if self._length:
            self._ends_with_connection = False
            digits = self._length.lstrip(b"0")  # Python refuses to read thousands of zeros
            if digits.isdigit() and int(digits) > self._body_max_bytes:
                self._size = self._body_max_bytes + 1

    def on_body(self, chunk: bytes) -> None:
        """Some of the body."""
        self._size += len(chunk)
        if self._size <= self._body_max_bytes:
            self._body.append(chunk)

    def on_message_complete(self) -> None:
        """The answer is complete, unless it was only an announcement of one (100 Continue, 103 Early Hints)."""
        if self._parser.get_status_code() < 200:
            self._reset()
            self._has_begun = True  # what it said about the connection is known to the parser alone
        elif self._on_answer is not None and self._size <= self._body_max_bytes:
            self._answer(keep=self._parser.should_keep_alive())

    def _answer(self, *, keep: bool) -> None:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        encoding = self._headers.pop("content-encoding", None) if self._headers else None
        content = body if encoding is None else _decompressed(body, encoding, self._body_max_bytes)
        answer: Answer
        if isinstance(content, Fault):
            answer = NoReply(content, self.departed_at_ns, self.last_byte_at_ns)
        else:
            answer = Reply(
                status=self._parser.get_status_code(),
                body=content,
                departed_at_ns=self.departed_at_ns,
                answered_at_ns=self.last_byte_at_ns,
                headers=self._headers,
                late_ns=self.late_ns,
            )
        on_answer, self._on_answer = self._on_answer, None
        assert on_answer is not None, "an answer that nobody waits for"
        if keep and encoding is None and self._whole:
            self._heads.learn(self._whole, self._parser.get_status_code(), self._headers, body)
        if keep and not self._unsent:
            self._reset()
        else:
            self.close()
        on_answer(answer)

    def _reset(self) -> None:
        self._headers = _NO_HEADERS
        self._length = b""
        self._body: list[bytes] = []
        self._size = 0
        self._head_bytes = 0
        self._whole = b""
        self._has_begun = False
        self._has_head = False
        self._ends_with_connection = True


def _decompressed(body: bytes, encoding: str, most_bytes: int) -> bytes | Fault:
    """The body of a provider that compresses although it was asked not to."""
    from remora.sources.transport.content_encoding import BadEncoding, TooLarge, decompress  # noqa: PLC0415

    try:
        return decompress(body, encoding, most_bytes)
    except TooLarge:
        return Fault.TOO_LARGE
    except BadEncoding:
        return Fault.BAD_ENCODING
