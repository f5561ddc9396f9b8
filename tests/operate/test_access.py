"""Who gets in? Names, pages, tokens and sessions, first as decisions, then over a real socket that is not loopback's own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar
from structlog.testing import capture_logs
from yarl import URL

from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.operate.console.access import COOKIE, SESSION_S, Access
from remora.sources.secret import Secret
from tests.operate.test_server import OURS, Console

TOKEN = "correct-horse-battery-staple"
NOW_S = 1_800_000_000
OPEN = Access("0.0.0.0", frozenset({"mirror.example"}), Secret(TOKEN))
HERE = Access("127.0.0.1")


@pytest.mark.parametrize(
    "host, here, there",
    [
        ("127.0.0.1:8611", True, True),
        ("localhost:8611", True, True),
        ("[::1]:8611", True, True),
        ("127.0.0.9", True, True),
        ("LOCALHOST", True, True),
        ("192.0.2.7:8611", False, True),  # an address cannot be made to point elsewhere
        ("mirror.example", False, True),
        ("mirror.example.:443", False, True),
        ("evil.example", False, False),
        ("127.0.0.1.evil.example", False, False),
        ("", False, False),
        ("[", False, False),
    ],
)
def test_only_names_that_it_was_told_to_serve_are_ours(host: str, here: bool, there: bool) -> None:
    assert (HERE.is_our_name(host), OPEN.is_our_name(host)) == (here, there)


@pytest.mark.parametrize(
    "headers, reads, writes",
    [
        ({}, True, True),  # curl and Prometheus
        ({"Origin": "http://127.0.0.1:8611"}, True, True),
        ({"Origin": "https://127.0.0.1:8611"}, True, True),  # a proxy before us speaks https
        ({"Origin": "http://127.0.0.1:3000"}, False, False),  # another server on the same machine
        ({"Origin": "https://evil.example"}, False, False),
        ({"Origin": "null"}, False, False),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, True, True),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, True, True),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, False, False),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, False, False),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, True, False),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, False, False),
    ],
)
def test_other_pages_are_refused_and_links_are_followed(headers: dict[str, str], reads: bool, writes: bool) -> None:
    headers = {"Host": "127.0.0.1:8611", **headers}
    assert (HERE.is_our_page(headers, reads=True), HERE.is_our_page(headers, reads=False)) == (reads, writes)


def test_a_proxy_on_a_port_of_its_own_must_hand_over_that_port_and_the_recipe_does() -> None:
    module = {"Origin": "http://mirror.example:8443", "Sec-Fetch-Site": "same-origin"}  # as browsers fetch a module
    assert OPEN.is_our_page({**module, "Host": "mirror.example:8443"}, reads=True)
    assert not OPEN.is_our_page({**module, "Host": "mirror.example"}, reads=True)
    recipe = (Path(__file__).parents[2] / "docs" / "console.md").read_text("utf-8")
    assert "proxy_set_header Host $http_host;" in recipe


def test_a_session_ends_and_cannot_be_made_longer() -> None:
    cookie = OPEN.session(now_s=NOW_S)
    assert OPEN.is_let_in({}, {COOKIE: cookie}, now_s=NOW_S + SESSION_S - 1)
    assert not OPEN.is_let_in({}, {COOKIE: cookie}, now_s=NOW_S + SESSION_S)
    until, _, signature = cookie.partition(".")
    assert not OPEN.is_let_in({}, {COOKIE: f"{int(until) + 1}.{signature}"}, now_s=NOW_S)


def test_another_token_ends_every_session() -> None:
    other = Access("0.0.0.0", token=Secret("another-horse-battery-staple"))
    assert not other.is_let_in({}, {COOKIE: OPEN.session(now_s=NOW_S)}, now_s=NOW_S)


@pytest.mark.parametrize("cookie", ["", ".", "x", f"{NOW_S}.", TOKEN, "\udcff.\udcff", "9" * 5_000])
def test_what_is_no_session_lets_nobody_in(cookie: str) -> None:
    assert not OPEN.is_let_in({}, {COOKIE: cookie}, now_s=NOW_S)


def test_the_token_is_not_in_the_cookie() -> None:
    assert TOKEN not in OPEN.session(now_s=NOW_S)


def test_off_loopback_there_is_no_console_without_a_token() -> None:
    with pytest.raises(AssertionError, match="needs a token"):
        Access("0.0.0.0")


# -- over a socket -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    """A console that listens on every address of this machine."""
    made = Console(load(Flags(listen="0.0.0.0:0"), {}, directory=tmp_path), access=OPEN)
    await made.server.open()
    yield made
    await made.server.close()


@asynccontextmanager
async def stranger(console: Console) -> AsyncIterator[ClientSession]:
    url = URL(console.server.url).with_host("127.0.0.1")
    async with ClientSession(url, cookie_jar=CookieJar(unsafe=True)) as session:
        yield session


@pytest.mark.parametrize("path", ["/api/status", "/api/history", "/api/events", "/metrics", "/nothing"])
async def test_a_stranger_sees_nothing_of_the_mirror(console: Console, path: str) -> None:
    async with stranger(console) as session, session.get(path) as reply:
        assert reply.status == 401
        assert reply.headers["WWW-Authenticate"] == "Bearer"
        assert "Authorization: Bearer" in (await reply.json())["hint"]


async def test_a_stranger_cannot_replay_gaps(console: Console) -> None:
    async with (
        stranger(console) as session,
        session.post("/api/gaps/replay", json={"all": True}, headers=OURS) as reply,
    ):
        assert reply.status == 401


@pytest.mark.parametrize("path, scheme", [("/api/status", "Bearer"), ("/metrics", "Bearer"), ("/metrics", "bearer")])
async def test_who_sends_the_token_is_let_in(console: Console, path: str, scheme: str) -> None:
    right, wrong = {"Authorization": f"{scheme} {TOKEN}"}, {"Authorization": f"{scheme} {TOKEN}x"}
    async with stranger(console) as session:
        async with session.get(path, headers=right) as reply:
            assert reply.status == 200
        async with session.get(path, headers=wrong) as reply:
            assert reply.status == 401
        async with session.get(f"{path}?token={TOKEN}") as reply:
            assert reply.status == 401


async def test_a_stranger_learns_of_health_only_whether_it_is_well(console: Console) -> None:
    async with stranger(console) as session:
        async with session.get("/health") as reply:
            assert (reply.status, await reply.json()) == (503, {"healthy": False})
        async with session.get("/health", headers={"Authorization": f"Bearer {TOKEN}"}) as reply:
            assert "reasons" in await reply.json()


async def test_a_browser_logs_in_once_and_is_known_by_a_cookie_that_no_script_reads(console: Console) -> None:
    with capture_logs() as logs:
        async with stranger(console) as session:
            async with session.get("/", allow_redirects=False) as reply:
                assert (reply.status, reply.headers["Location"]) == (303, "login")
            async with session.post("/login", data={"token": f" {TOKEN} "}, allow_redirects=False) as reply:
                assert (reply.status, reply.headers["Location"]) == (303, "./")
                cookie = reply.headers["Set-Cookie"]
            async with session.get("/api/status") as reply:
                assert reply.status == 200
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    assert TOKEN not in str(logs)


async def test_behind_https_the_cookie_stays_on_https(console: Console) -> None:
    headers = {"Host": "mirror.example", "Origin": "https://mirror.example"}
    async with (
        stranger(console) as session,
        session.post("/login", data={"token": TOKEN}, headers=headers, allow_redirects=False) as reply,
    ):
        assert "Secure" in reply.headers["Set-Cookie"].split("; ")


@pytest.mark.parametrize("shown", [{"token": "wrong"}, {"token": ""}, {}])
async def test_a_wrong_token_is_told_and_opens_nothing(console: Console, shown: dict[str, str]) -> None:
    async with stranger(console) as session:
        async with session.post("/login", data=shown) as reply:
            assert reply.status == 401
            assert "That is not the token." in await reply.text()
            assert "Set-Cookie" not in reply.headers
        async with session.get("/api/status") as reply:
            assert reply.status == 401


async def test_another_page_cannot_log_the_owner_in(console: Console) -> None:
    evil = {"Origin": "https://evil.example"}
    async with stranger(console) as session, session.post("/login", data={"token": TOKEN}, headers=evil) as reply:
        assert reply.status == 403
        assert "Set-Cookie" not in reply.headers


async def test_a_name_that_points_here_gets_nothing_even_with_the_token(console: Console) -> None:
    headers = {"Host": "evil.example", "Authorization": f"Bearer {TOKEN}"}
    async with stranger(console) as session, session.get("/api/status", headers=headers) as reply:
        assert reply.status == 403


async def test_the_login_may_send_its_form_to_nobody_else(console: Console) -> None:
    async with stranger(console) as session, session.get("/login") as reply:
        policy = reply.headers["Content-Security-Policy"]
    assert "form-action 'self'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


async def test_where_no_token_is_needed_there_is_no_login(tmp_path: Path) -> None:
    made = Console(load(Flags(listen="127.0.0.1:0"), {}, directory=tmp_path))
    await made.server.open()
    async with stranger(made) as session, session.get("/login", allow_redirects=False) as reply:
        assert (reply.status, reply.headers["Location"]) == (303, "./")
    await made.server.close()
