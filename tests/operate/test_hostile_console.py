"""Does any request break a page of the console, come back unescaped, or show a secret? Paths, queries, headers, forms."""

import re
import socket
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, quote_from_bytes, urlsplit

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from remora.operate.console.access import Access
from remora.operate.console.reader.routes import reader_routes
from remora.read.browsing import Browsing
from remora.sources.secret import Secret
from tests.library import CHATS, LONG_STORY, NEWS, console_in_a_thread

pytestmark = [pytest.mark.slow]

TOKEN = "canary-5d41-never-shown"
MARK = "q7zx"
# Raw, each of these would open a tag, end an attribute or begin a header.
HOSTILE = (
    f"<{MARK} onload=1>",
    f'"><{MARK}>',
    f"' {MARK}='",
    f"\r\nX-Hacked: {MARK}",
    f"javascript:{MARK}",
    "{{7*7}}",
    "../../../../etc/passwd",
    "\0",
    "\ud800",
    "-1",
    "9" * 400,
    "1e309",
    "NaN",
    "%",
    "🦑" * 50,
    "' OR 1=1 --",
    '" NEAR(',
    "",
)
PLACES = [*sorted({route.path for route in reader_routes(Browsing("sqlite:///nowhere.db"))}), "/", "/login", "/metrics"]
NAMES = ("q", "source", "score", "order", "by", "type", "from", "to", "skip", "day", "after", "key", "name", "list")
KNOWN = (NEWS, CHATS, "chat/1", "ada", str(LONG_STORY), "tide", "2026-09-21", "newest")
HEADERS = (
    "Accept",
    "Accept-Encoding",
    "Range",
    "If-None-Match",
    "Cookie",
    "Origin",
    "Referer",
    "X-Forwarded-For",
    "Host",
)
METHODS = ("GET", "GET", "GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE")
FEW = settings(
    max_examples=100, derandomize=True, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)

texts = st.one_of(st.sampled_from(HOSTILE), st.sampled_from(KNOWN), st.text(max_size=30))
lines = texts.map(lambda text: re.sub(r"[\r\n\0]", " ", text).encode("utf-8", "surrogatepass"))


class Told(NamedTuple):
    """One answer."""

    status: int
    head: str
    body: str


def in_address(text: str) -> str:
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"), safe="")


@st.composite
def targets(draw: st.DrawFn) -> str:
    place = draw(st.sampled_from(PLACES))
    place = place.replace("{source}", draw(st.sampled_from([NEWS, CHATS, in_address(draw(texts))])))
    place = re.sub(r"\{[^}]*\}", lambda _: in_address(draw(texts)), place)
    pairs = draw(st.lists(st.tuples(st.sampled_from(NAMES) | st.text(max_size=5), texts), max_size=4))
    query = "&".join(f"{in_address(name)}={in_address(text)}" for name, text in pairs)
    return f"{place}?{query}" if query else place


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a console with a token."""
    path = tmp_path_factory.mktemp("library") / "library.db"
    with console_in_a_thread(path, access=Access(token=Secret(TOKEN))) as url:
        found = urlsplit(url).port
        assert found is not None
        yield found


def ask(port: int, request: bytes) -> Told:
    """Exactly these bytes, and what comes back until the connection ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(request)
        received = b""
        while chunk := connection.recv(65_536):
            received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/1\.[01] (\d{3})", head)
    assert status is not None, f"no answer: {received[:80]!r}"
    return Told(int(status[1]), head.decode("latin-1"), body.decode("utf-8", "replace"))


def check(told: Told) -> None:
    assert told.status < 500, told
    assert TOKEN not in told.head + told.body
    assert "Traceback" not in told.body
    assert "\nX-Hacked" not in told.head
    if "text/html" in told.head:
        assert "content-security-policy" in told.head.lower()
        assert f"<{MARK}" not in told.body
        assert f"' {MARK}='" not in told.body
        assert f'href="javascript:{MARK}' not in told.body


def request(method: str, target: str, headers: list[tuple[str, bytes]], body: bytes = b"") -> bytes:
    told = {"Host": b"127.0.0.1", "Connection": b"close", "Content-Length": b"%d" % len(body)}
    told |= {name: text for name, text in headers if name != "Connection"}
    lines = b"".join(name.encode() + b": " + text + b"\r\n" for name, text in told.items())
    return f"{method} {target} HTTP/1.1\r\n".encode() + lines + b"\r\n" + body


def test_a_visitor_with_the_token_cannot_break_a_page(port: int) -> None:
    seen: set[int] = set()

    @FEW
    @given(targets())
    def visit(target: str) -> None:
        told = ask(port, request("GET", target, [("Authorization", f"Bearer {TOKEN}".encode())]))
        check(told)
        seen.add(told.status)

    visit()
    assert {200, 404} <= seen, "too few kinds of answers: the requests show little"


def test_a_stranger_gets_no_page_whatever_the_method_and_the_headers(port: int) -> None:
    public = ("/login", "/health", "/style.css", "/reader.css", "/reader.js", "/console.js")

    @FEW
    @given(st.sampled_from(METHODS), targets(), st.lists(st.tuples(st.sampled_from(HEADERS), lines), max_size=3))
    def visit(method: str, target: str, headers: list[tuple[str, bytes]]) -> None:
        told = ask(port, request(method, target, headers))
        check(told)
        assert told.status != 200 or target.partition("?")[0] in public, (target, told.head)

    visit()


def test_no_form_lets_a_stranger_in_or_comes_back(port: int) -> None:
    kinds = (
        b"application/x-www-form-urlencoded; charset=nonsense",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data; boundary=x",
        b"multipart/form-data",
        b"text/html",
        b"\xff",
    )

    @FEW
    @given(
        st.sampled_from(kinds),
        st.one_of(st.binary(max_size=60), texts.map(lambda text: f"token={quote(text, errors='replace')}".encode())),
    )
    def send(kind: bytes, body: bytes) -> None:
        told = ask(port, request("POST", "/login", [("Content-Type", kind)], body))
        check(told)
        assert told.status != 303
        assert "set-cookie" not in told.head.lower()

    send()


def test_bytes_that_are_no_request_are_refused(port: int) -> None:
    @FEW
    @given(
        st.binary(min_size=1, max_size=80),
        st.sampled_from([b"GET /read HTTP/1.1\r\n", b"", b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n"]),
    )
    def send(junk: bytes, before: bytes) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(before + junk + b"\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            received = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert TOKEN.encode() not in received
        assert re.match(rb"HTTP/1\.[01] 5", received) is None, received[:200]
        assert f"<{MARK}".encode() not in received

    send()
