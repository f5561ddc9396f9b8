"""Does `remora check` find what would only fail later? Each finding says what to write instead."""

import asyncio
import sqlite3
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import trustme

from remora.contracts import Json
from remora.stores import open_store
from remora.stores.sqlite.database import PAGE_BYTES, find_damage
from tests.counting_server import CountingServer, Wire, WireRequest
from tests.operate.command_line import CommandLine
from tests.unwritable import open_folder, unwritable

pytestmark = pytest.mark.slow


def notify(remora: CommandLine, line: str) -> None:
    (remora.folder / "remora.toml").write_text(f"[sources.hackernews]\n[notify]\n{line}\n")


def test_a_command_to_be_told_by_is_looked_for_where_it_will_be(remora: CommandLine) -> None:
    notify(remora, 'command = "sh -c true"')
    result = remora("check", "--offline")
    assert result.exit_code == 0, result.output
    assert "its command can be run" in result.stdout


@pytest.mark.parametrize("command", ["tell-me-if-you-can https://hooks.example/secret", "~/tell-me", "./tell-me"])
def test_a_command_that_is_not_there_is_bad_and_not_repeated(remora: CommandLine, command: str) -> None:
    notify(remora, f'command = "{command}"')
    result = remora("check", "--offline")
    assert result.exit_code == 1
    assert "its command was not found" in result.stdout
    assert "write a whole path" in result.stdout
    assert "secret" not in result.stdout


def test_a_command_that_may_not_be_run_is_bad(remora: CommandLine) -> None:
    script = remora.folder / "tell-me"
    script.write_text("#!/bin/sh\n")
    notify(remora, f'command = "{script}"')
    result = remora("check", "--offline")
    assert result.exit_code == 1
    assert "chmod +x" in result.stdout
    script.chmod(0o755)
    assert remora("check", "--offline").exit_code == 0


def test_a_finding_about_a_source_with_a_long_name_stands_apart_from_it(remora: CommandLine) -> None:
    assert remora("init", "chatgpt-conversations").exit_code == 0
    result = remora("check", "--offline")
    assert "chatgpt-conversations: token  sources.chatgpt-conversations.token_env names" in result.stdout


@pytest.mark.parametrize("listen, warned", [("127.0.0.1:8611", False), ("[::1]:8611", False), ("0.0.0.0:8611", True)])
def test_a_console_that_others_may_reach_is_told(remora: CommandLine, listen: str, warned: bool) -> None:
    (remora.folder / "remora.toml").write_text(f'[console]\nlisten = "{listen}"\n')
    result = remora("check", "--offline")
    assert result.exit_code == 0
    assert ("it asks for a token, but speaks plain http" in result.stdout) is warned


def test_a_store_with_a_second_name_is_a_warning(remora: CommandLine) -> None:
    assert remora("store", "migrate").exit_code == 0
    assert "has 2 names" not in remora("check", "--offline").stdout
    (remora.folder / "other.db").hardlink_to(remora.folder / "remora.db")
    result = remora("check", "--offline")
    assert result.exit_code == 0
    assert "has 2 names" in result.stdout


def test_a_store_of_zero_bytes_is_bad(remora: CommandLine) -> None:
    (remora.folder / "remora.db").touch()
    result = remora("check", "--offline")
    assert result.exit_code == 1
    assert "has 0 bytes, so it holds no mirror" in result.stdout
    assert "restore a backup" in result.stdout


def test_one_flipped_bit_in_any_page_header_is_bad(remora: CommandLine) -> None:
    assert remora("store", "migrate").exit_code == 0
    path = remora.folder / "remora.db"
    connection = sqlite3.connect(path)
    connection.execute("VACUUM")  # a free page holds nothing that could be damaged
    connection.close()
    whole = path.read_bytes()
    assert find_damage(path, seconds_max=60) == (None, True)
    pages = range(PAGE_BYTES, len(whole), PAGE_BYTES)
    assert len(pages) > 10
    for start in pages:
        path.write_bytes(whole[:start] + bytes([whole[start] ^ 0b100]) + whole[start + 1 :])
        damage, _ = find_damage(path, seconds_max=60)
        assert damage, f"page {start // PAGE_BYTES + 1}"
    result = remora("check", "--offline")
    assert result.exit_code == 1
    assert "is damaged: " in result.stdout
    assert "restore a backup" in result.stdout


def test_a_search_for_damage_that_ran_out_of_time_says_so(remora: CommandLine) -> None:
    assert remora("store", "migrate").exit_code == 0
    connection = sqlite3.connect(remora.folder / "remora.db")
    connection.execute(
        "CREATE TABLE filler AS WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n LIMIT 50000) SELECT i FROM n"
    )
    connection.commit()
    connection.close()
    assert find_damage(remora.folder / "remora.db", seconds_max=0) == (None, False)


def test_words_to_look_for_without_a_command_tell_nobody(remora: CommandLine) -> None:
    notify(remora, 'search = "remora"')
    result = remora("check", "--offline")
    assert result.exit_code == 0
    assert "nobody is told" in result.stdout


def test_a_command_with_an_open_quote_is_refused_by_every_command(remora: CommandLine) -> None:
    notify(remora, """command = "tell 'me" """)
    for words in (("check", "--offline"), ("up", "--listen", "127.0.0.1:0")):
        assert "a quote that does not end" in remora.refused(*words)


def test_a_store_that_this_user_may_only_read_is_bad_to_start_with_and_good_to_look_at(
    remora: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_folder() as folder:
        monkeypatch.chdir(folder)
        assert remora("store", "migrate").exit_code == 0
        with unwritable(folder):
            result, status = remora("check", "--offline"), remora("status")
        monkeypatch.undo()
    assert result.exit_code == 1
    assert "can be read, but not written by this user" in result.stdout
    assert status.exit_code == 0, status.output
    assert "never started" in status.stdout


def test_a_folder_that_this_user_may_not_enter_is_no_bug(remora: CommandLine) -> None:
    with unwritable(remora.folder):
        result = remora("status")
    # Its owner may look into it, and finds that nothing is there; nobody else may.
    assert result.exit_code == 2
    assert result.stderr.startswith("remora: ")


async def keep_pace(record: Mapping[str, Json]) -> None:
    store = open_store("sqlite:///remora.db")
    await store.open()
    await store.save_pace("hackernews", record)
    await store.close()


async def newest(_request: WireRequest, wire: Wire) -> None:
    await wire.answer(b"4711")


async def test_two_requests_ask_for_the_newest_id_and_one_item(remora: CommandLine) -> None:
    async with CountingServer(newest) as server:
        result = await asyncio.to_thread(remora, "check", "--url", server.url("/v0"))
        assert "newest id 4,711" in result.stdout
        assert [request.target for request in server.requests] == ["/v0/maxitem.json", "/v0/item/4711.json"]


async def test_a_provider_that_asked_for_a_wait_is_not_asked_before_it_is_over(remora: CommandLine) -> None:
    await keep_pace({"not_before_in_ns": 600 * 10**9, "saved_at_wall_ns": time.time_ns()})
    async with CountingServer(newest) as server:
        result = await asyncio.to_thread(remora, "check", "--url", server.url("/v0"))
        assert server.count == 0
    assert result.exit_code == 0
    assert "not asked: the next request may leave in 9m" in result.stdout


async def test_a_provider_that_refuses_is_asked_once_and_not_waited_for(remora: CommandLine) -> None:
    async def refuse(_request: WireRequest, wire: Wire) -> None:
        await wire.answer(status="429 Too Many Requests", headers="Retry-After: 3600\r\n")

    async with CountingServer(refuse) as server:
        async with asyncio.timeout(30):
            result = await asyncio.to_thread(remora, "check", "--url", server.url("/v0"))
        assert server.count == 1
    assert result.exit_code == 1
    assert "gave no newest id (rate_limited)" in result.stdout
    assert "it asks for less" in result.stdout


@pytest.mark.parametrize(
    "status, body, reason, hint",
    [
        ("404 Not Found", b"", "not_found", "check the url"),
        ("200 OK", b"<html>", "server_error", "it does not answer as it should"),
        ("200 OK", b"null", "not_found", "check the url"),
        ("503 Service Unavailable", b"", "server_error", "try again later"),
        ("407 Who?", b"", "connection", "the proxy answers instead of it"),
    ],
)
async def test_a_provider_that_cannot_be_used_is_bad_and_says_why(
    remora: CommandLine, status: str, body: bytes, reason: str, hint: str
) -> None:
    async def answer(_request: WireRequest, wire: Wire) -> None:
        await wire.answer(body, status=status)

    async with CountingServer(answer) as server:
        result = await asyncio.to_thread(remora, "check", "--url", server.url("/v0"))
    assert "gave no newest id" in result.stdout
    assert f"({reason})" in result.stdout
    assert hint in result.stdout


def test_an_address_where_nobody_listens_is_bad_and_says_so(remora: CommandLine) -> None:
    result = remora("check", "--url", "http://127.0.0.1:9/v0")
    assert "gave no newest id (connection)" in result.stdout
    assert "nothing answers there" in result.stdout


@asynccontextmanager
async def answering(answer: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A port where everything is answered with the same bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("client", ["lean", "aiohttp"])
async def test_a_port_that_does_not_speak_tls_is_told_as_such(remora: CommandLine, client: str) -> None:
    async with answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") as port:
        (remora.folder / "remora.toml").write_text(f'[sources.hackernews]\nclient = "{client}"\n')
        result = await asyncio.to_thread(remora, "check", "--url", f"https://127.0.0.1:{port}/v0")
    assert "gave no newest id (connection)" in result.stdout
    assert "it does not speak TLS: write http:// instead of https://" in result.stdout


@pytest.mark.parametrize(
    "answer",
    [
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n<center>The plain HTTP request was sent to HTTPS port</center>",
    ],
)
async def test_a_port_that_speaks_only_tls_is_told_as_such(remora: CommandLine, answer: bytes) -> None:
    async with answering(answer) as port:
        result = await asyncio.to_thread(remora, "check", "--url", f"http://127.0.0.1:{port}/v0")
    assert "it speaks TLS: write https:// instead of http://" in result.stdout


@pytest.mark.parametrize("client", ["lean", "aiohttp"])
async def test_a_certificate_that_nobody_vouches_for_is_told_as_such(remora: CommandLine, client: str) -> None:
    (remora.folder / "remora.toml").write_text(f'[sources.hackernews]\nclient = "{client}"\n')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with answering(b"", context) as port:
        result = await asyncio.to_thread(remora, "check", "--url", f"https://127.0.0.1:{port}/v0")
    assert "its certificate is not trusted" in result.stdout
    assert "ca_file" in result.stdout
