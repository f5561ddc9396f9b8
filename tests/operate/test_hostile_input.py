"""Is everything that comes from outside either read or refused with one sentence? Configurations, queries, dumps, pages and answers."""

import asyncio
import gzip
import socket
import tempfile
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import pytest_asyncio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from remora.core.errors import ConfigurationError, RemoraError
from remora.core.quantities import parse_duration, parse_rate, parse_size
from remora.core.verdict import NoReply, Reply
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags, Settings
from remora.operate.jobs.clock import SystemClock
from remora.read.mirror import MirrorReader
from remora.read.moments import parse_moment
from remora.read.safe_html import safe_html
from remora.read.search_query import parse_query
from remora.sources.dumps import pages
from remora.sources.transport.connection import Connection
from remora.sources.transport.content_encoding import BadEncoding, TooLarge, decompress
from remora.sources.transport.poller import LoopPoller
from remora.sources.transport.way_out import Proxy, parse_proxy
from tests.library import make_library


def attempted(read: Any, *words: Any, **named: Any) -> Any:
    """What is read, or the refusal."""
    try:
        return read(*words, **named)
    except ConfigurationError as refused:
        return refused


def is_plain(found: object) -> bool:
    """Whether it was read, or refused with one line that says what to write instead."""
    if not isinstance(found, RemoraError):
        return True
    return found.exit_code == 2 and bool(found.hint) and "\n" not in found.message + found.hint


# ── configurations ─────────────────────────────────────────────────────────────────────────────────────────────────

SECTIONS = ["store", "console", "notify", "sources", "log", "reader", "sources.hackernews", "sources.chats", "x"]
KEYS = [
    "url",
    "kind",
    "ceiling",
    "in_flight",
    "token_env",
    "token_file",
    "list",
    "detail",
    "item",
    "newest",
    "headers",
    "rescan",
    "backfill",
    "first_id",
    "user_agent",
    "proxy",
    "ca_file",
    "listen",
    "token",
    "path",
    "key",
    "updated",
    "paging",
    "page_size",
    "command",
    "email",
    "webhook",
    "keep_history",
    "max_fetches",
    "every",
    "limit",
]
odd_texts = st.sampled_from(
    [
        "",
        "10/s",
        "0/s",
        "-1/s",
        "9" * 400 + "/s",
        "1e400/s",
        "3 days",
        "https://a.example",
        "http://[",
        "\\u0000",
        "ftp://x",
    ]
) | st.text(max_size=12)
odd_values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | odd_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=5,
)


def as_toml(value: object) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{key} = {as_toml(inner)}" for key, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(as_toml, value)) + "]"
        case str():
            return msgspec.json.encode(value.encode("utf-8", "replace").decode()).decode()
        case bool():
            return "true" if value else "false"
        case _:
            return repr(value)


def load_text(text: str) -> Settings:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "remora.toml").write_text(text, encoding="utf-8", errors="replace")
        return load(Flags(), {}, directory=Path(folder))


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.dictionaries(
        st.sampled_from(SECTIONS), st.dictionaries(st.sampled_from(KEYS), odd_values, max_size=4), max_size=4
    )
)
def test_a_configuration_is_read_or_refused_with_one_sentence(written: dict[str, dict[str, object]]) -> None:
    lines = [
        line
        for section, table in written.items()
        for line in (f"[{section}]", *(f"{key} = {as_toml(value)}" for key, value in table.items()))
    ]
    assert is_plain(attempted(load_text, "\n".join(lines)))


@given(st.text(max_size=60))
@example("\ufeff[store]")
@example("a" * 5_000 + " = 1")
@example("x = " + "[" * 2_000)
def test_any_text_is_a_configuration_or_refused(text: str) -> None:
    assert is_plain(attempted(load_text, text))


@settings(max_examples=50)
@given(odd_values, st.text("0123456789.,eE+-/ smhdkKMGiB", max_size=20))
@example("5/s\n", "4\ns")
def test_a_quantity_is_read_or_refused(value: object, text: str) -> None:
    for parse in (parse_rate, parse_duration, parse_size):
        for one in (value, text):
            found = attempted(parse, one, "ceiling")
            assert found >= 0 if isinstance(found, int) else is_plain(found)


@given(st.text(max_size=30) | st.text("htp:/@[]?#.1234x", max_size=30))
def test_a_proxy_is_read_or_refused_and_never_with_a_password(text: str) -> None:
    proxy = attempted(parse_proxy, text)
    assert "@" not in proxy.url if isinstance(proxy, Proxy) else is_plain(proxy)


# ── queries and positions ──────────────────────────────────────────────────────────────────────────────────────────


@given(st.text(max_size=60) | st.text('by:score<>="- after0123456789type', max_size=60))
def test_a_query_is_read_or_refused(text: str) -> None:
    assert is_plain(attempted(parse_query, text))
    assert is_plain(attempted(parse_moment, text, where="since"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('library')}/library.db"
    await make_library(url)
    return url


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@settings(max_examples=25)
@given(st.lists(st.text("0123456789.-x", max_size=24) | st.text(max_size=24), min_size=1, max_size=8))
@example(["9" * 5_000, "-1", "1.1", "²"])
async def test_a_position_in_the_change_feed_is_read_or_refused(library: str, positions: list[str]) -> None:
    async with MirrorReader(library) as mirror:
        for since in positions:
            try:
                async for page in mirror.change_pages(since=since):
                    assert page
            except RemoraError as refused:
                assert is_plain(refused)  # noqa: PT017  it may also be read


# ── dumps ──────────────────────────────────────────────────────────────────────────────────────────────────────────

rows = st.lists(st.dictionaries(st.sampled_from(["id", "type", "time", "kids", "timestamp"]), odd_values), max_size=4)
contents = st.binary(max_size=80) | rows.map(lambda some: b"\n".join(map(msgspec.json.encode, some)))


def spoilt(packed: bytes, at: int) -> bytes:
    """A packed file with one wrong byte; from its end on it is cut."""
    at %= len(packed)
    return packed[:at] + bytes([packed[at] ^ 0xFF]) + packed[at + 1 :]


@pytest.mark.slow
@example(b'{"id":99999999999999999999999}')
@example(b'{"type":[],"timestamp":[],"id":1}')
@settings(max_examples=40)
@given(
    contents
    | contents.map(gzip.compress)
    | st.builds(spoilt, contents.map(gzip.compress), st.integers(0, 300))
    | st.builds(lambda packed, end: packed[:end], contents.map(gzip.compress), st.integers(0, 60))
    | contents.map(lambda content: b"PAR1" + content)
)
def test_a_dump_is_read_or_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump"
        path.write_bytes(content)
        found = attempted(lambda: [item_id for rows, _ in pages(path) for item_id, _ in rows])
        # No store could keep a larger id.
        assert is_plain(found) if isinstance(found, RemoraError) else all(0 < item_id <= 2**53 for item_id in found)


# ── what a provider sends ──────────────────────────────────────────────────────────────────────────────────────────


@given(
    st.binary(max_size=200)
    | st.binary(max_size=2_000).map(gzip.compress)
    | st.binary(max_size=2_000).map(zlib.compress),
    st.sampled_from([None, "", "identity", "gzip", "x-gzip", "deflate", "br", "GZIP ", "gzip, gzip"]),
    st.integers(0, 1_500),
)
def test_a_body_is_unpacked_within_its_bound_or_refused(body: bytes, encoding: str | None, most: int) -> None:
    try:
        unpacked = decompress(body, encoding, most)
    except (TooLarge, BadEncoding):
        return
    assert len(unpacked) <= most or unpacked == body


class Shown(HTMLParser):
    """What a browser would make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs


pieces = st.sampled_from(
    [
        "<script>",
        "</script>",
        "<img src=x onerror=alert(1)>",
        "<a href=javascript:alert(1)>",
        "<a href='//x'>",
        "<a href=https://x.example>",
        "<svg/onload=1>",
        "<p>",
        "<style>",
        "<iframe srcdoc=x>",
        "<math><mi>",
        "]]>",
        "<!--",
        "-->",
        "<base href=x>",
        "&#106;",
        "&lt;",
        "\x00",
        *"<>='",
    ]
)


@settings(max_examples=50)
@given(st.lists(pieces | st.text(max_size=6), max_size=12).map("".join))
def test_shown_html_has_harmless_tags_and_web_addresses_only(text: str) -> None:
    shown = Shown()
    shown.feed(safe_html(text))
    assert shown.tags <= {"a", "b", "blockquote", "br", "code", "em", "i", "li", "ol", "p", "pre", "strong", "ul"}
    assert {name for name, _ in shown.attributes} <= {"href", "rel"}
    assert all(urlsplit(value or "").scheme in {"http", "https"} for name, value in shown.attributes if name == "href")


heads = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.0 204 x\r\n",
        b"HTTP/9.9 999\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: " + b"9" * 5_000 + b"\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Retry-After: \xff\r\n",
        b"Link: <\r\n",
        b": x\r\n",
        b"\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"ffffffffffffffffff\r\n",
        b"hello",
        b"\x00",
    ]
)
answers = st.lists(heads | st.binary(max_size=12), max_size=10)


def cut(stream: bytes, places: list[int]) -> Iterator[bytes]:
    marks = sorted({min(place, len(stream)) for place in places} | {0, len(stream)})
    yield from (stream[start:end] for start, end in pairwise(marks))


@given(answers, st.lists(st.integers(0, 200), max_size=4))
@example([b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n"], [])
async def test_whatever_a_server_sends_is_an_answer_within_its_bound_or_a_fault(
    chunks: list[bytes], places: list[int]
) -> None:
    """Once for every request, and never an error of our own."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    told: list[Reply | NoReply] = []
    loop = asyncio.get_running_loop()
    link = Connection(ours, LoopPoller(loop), memoryview(bytearray(4_096)), clock=SystemClock(), body_max_bytes=64)
    try:
        link.send(b"GET / HTTP/1.1\r\n\r\n", told.append, departed_at_ns=0)
        for chunk in cut(b"".join(chunks), places):
            if not link.is_closed:
                theirs.sendall(chunk)
                link._on_readable()
        theirs.close()
        if not link.is_closed:
            link._on_readable()
        assert len(told) <= 1
        assert len(told) == 1 or not link.is_closed
        assert all(len(reply.body) <= 64 for reply in told if isinstance(reply, Reply))
    finally:
        theirs.close()
        link.close()
