"""Does the loopback server speak HTTP, break connections for real, and tell tests the truth?"""

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import trustme

from remora.sim.faults import FaultKind, Faults
from remora.sim.limits import Limit
from remora.sim.server import ServerHandle, serve
from remora.sim.world import WorldSettings

SETTINGS = WorldSettings(items=3_000, odd_share=0)
NO_WAIT = aiohttp.ClientTimeout(total=0.3)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as session:
        yield session


async def _raw(server: ServerHandle, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(request)
    writer.write_eof()
    try:
        return await asyncio.wait_for(reader.read(), 120)
    finally:
        writer.close()


async def test_items_profiles_and_the_newest_id_are_served_on_one_connection(session: aiohttp.ClientSession) -> None:
    async with await serve(SETTINGS, speed=0) as server:
        for item_id in (2_000, 2_001, 3_000):
            async with session.get(f"{server.url}/item/{item_id}.json") as reply:
                assert reply.status == 200
                assert await reply.read() == server.provider.body(item_id)
        async with session.get(f"{server.url}/maxitem.json") as reply:
            assert await reply.json() == 3_000
        name = server.provider.world.author(2_000)
        async with session.get(f"{server.url}/user/{name}.json") as reply:
            assert (await reply.json())["id"] == name
        assert len(server.provider.arrivals) == 5


async def test_a_world_can_go_on_from_the_moment_when_an_id_was_the_newest(session: aiohttp.ClientSession) -> None:
    async with await serve(SETTINGS, speed=0, newest_id=3_500) as server:
        async with session.get(f"{server.url}/maxitem.json") as reply:
            assert await reply.json() == 3_500
        assert server.provider.world.moment_of(2_000) == SETTINGS.start_ns


async def test_a_world_can_be_served_over_tls(session: aiohttp.ClientSession) -> None:
    authority, ours, theirs = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(ours)
    authority.configure_trust(theirs)
    async with await serve(SETTINGS, speed=0, tls=ours) as server:
        assert server.url.startswith("https://127.0.0.1:")
        async with session.get(f"{server.url}/maxitem.json", ssl=theirs) as reply:
            assert await reply.json() == 3_000


async def test_requests_sent_ahead_are_answered_in_order(session: aiohttp.ClientSession) -> None:
    request = b"GET /v0/item/%d.json HTTP/1.1\r\nHost: x\r\n\r\n"
    faults = Faults(ids={"2001": FaultKind.SLOW}, slow_s=0.05)
    async with await serve(SETTINGS, faults=faults, speed=0) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"".join(request % item_id for item_id in (2_000, 2_001, 2_002)))
        bodies = [server.provider.body(item_id) for item_id in (2_000, 2_001, 2_002)]
        wanted = b"".join(bodies)
        received = b""
        while not received.endswith(bodies[-1]):
            received += await asyncio.wait_for(reader.read(65_536), 120)
        writer.close()
        heads_removed = b"".join(part.partition(b"\r\n\r\n")[2] for part in received.split(b"HTTP/1.1 200 OK")[1:])
        assert heads_removed == wanted


async def test_a_request_may_arrive_in_pieces() -> None:
    async with await serve(SETTINGS, speed=0) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        for piece in (b"GET /v0/maxi", b"tem.json HTTP/1.1\r\nHo", b"st: x\r\n", b"\r\n"):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)
        assert (await asyncio.wait_for(reader.read(1_000), 120)).endswith(b"\r\n\r\n3000")
        writer.close()


async def test_what_is_not_http_is_refused() -> None:
    async with await serve(SETTINGS, speed=0) as server:
        assert b"400" in await _raw(server, b"hello there\r\n\r\n")


async def test_a_reset_is_a_reset_on_the_socket(session: aiohttp.ClientSession) -> None:
    async with await serve(SETTINGS, faults=Faults(ids={"7": FaultKind.RESET}), speed=0) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"GET /v0/item/7.json HTTP/1.1\r\nHost: x\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 120)
        writer.close()


async def test_a_hanging_item_never_answers_and_a_truncated_one_breaks_off(session: aiohttp.ClientSession) -> None:
    faults = Faults(ids={"7": FaultKind.HANG, "8": FaultKind.TRUNCATED})
    async with await serve(SETTINGS, faults=faults, speed=0) as server:
        with pytest.raises(TimeoutError):
            await session.get(f"{server.url}/item/7.json", timeout=NO_WAIT)
        async with session.get(f"{server.url}/item/8.json") as reply:
            with pytest.raises(aiohttp.ClientPayloadError):
                await reply.read()


async def test_a_refusal_carries_its_status_and_hint(session: aiohttp.ClientSession) -> None:
    limit = Limit(kind="token_bucket", per_second=0.01, burst=1, retry_after=True)
    async with await serve(SETTINGS, faults=Faults(limit=limit), speed=0) as server:
        await (await session.get(f"{server.url}/maxitem.json")).read()
        async with session.get(f"{server.url}/maxitem.json") as reply:
            assert (reply.status, reply.headers["Retry-After"]) == (429, "100")


@pytest.mark.slow
async def test_the_stream_of_newest_ids_begins_with_a_put_and_goes_on(session: aiohttp.ClientSession) -> None:
    async with await serve(SETTINGS, speed=1_000) as server:
        headers = {"Accept": "text/event-stream"}
        async with session.get(f"{server.url}/maxitem.json", headers=headers) as reply:
            assert reply.content_type == "text/event-stream"
            first = await reply.content.readuntil(b"\n\n")
            second = await reply.content.readuntil(b"\n\n")
        assert first.startswith(b'event: put\ndata: {"path":"/","data":30')
        assert json.loads(second.partition(b"data: ")[2])["data"] > 3_000


async def test_a_world_can_run_fast_and_stand_still(session: aiohttp.ClientSession) -> None:
    async with await serve(SETTINGS, speed=10_000) as server:
        await asyncio.sleep(0.05)
        async with session.post(f"{server.origin}/_sim/speed?x=0") as reply:
            frozen_ns = (await reply.json())["now_ns"]
        assert frozen_ns - SETTINGS.start_ns > 10_000 * 40_000_000
        async with session.get(f"{server.origin}/_sim/world") as reply:
            assert (await reply.json())["now_ns"] == frozen_ns


async def test_tests_can_read_the_log_and_the_truth_change_the_faults_and_heal(session: aiohttp.ClientSession) -> None:
    async with await serve(SETTINGS, speed=0) as server:
        async with session.post(f"{server.origin}/_sim/faults", json={"ids": {"7": "unauthorized"}}) as reply:
            assert reply.status == 200
        async with session.get(f"{server.url}/item/7.json") as reply:
            assert (reply.status, await reply.read()) == (401, b'{"error":"Permission denied"}')
        await session.post(f"{server.origin}/_sim/heal?key=7")
        async with session.get(f"{server.url}/item/7.json") as reply:
            assert reply.status == 200
        async with session.get(f"{server.origin}/_sim/arrivals") as reply:
            assert (await reply.json())["paths"] == ["/v0/item/7.json"] * 2
        async with session.get(f"{server.origin}/_sim/dump?first=5&last=9") as reply:
            lines = (await reply.read()).splitlines()
        assert lines == [
            body for _item_id, body in server.provider.world.dump(SETTINGS.start_ns, first_id=5, last_id=9)
        ]


@pytest.mark.parametrize("text", [b'{"rates":{"bang":1}}', b"{"])
async def test_faults_that_cannot_be_read_are_refused(session: aiohttp.ClientSession, text: bytes) -> None:
    async with (
        await serve(SETTINGS, speed=0) as server,
        session.post(f"{server.origin}/_sim/faults", data=text) as reply,
    ):
        assert reply.status == 400
        assert "write for example" in (await reply.json())["error"]


async def test_the_server_runs_as_a_process_of_its_own(session: aiohttp.ClientSession, tmp_path: Path) -> None:
    faults = tmp_path / "faults.toml"
    faults.write_text('ids = { 7 = "gone" }')
    words = [
        sys.executable,
        "-m",
        "remora.sim.server",
        "--items",
        "50",
        "--seed",
        "4",
        "--until-eof",
        "--faults",
        str(faults),
    ]
    process = await asyncio.create_subprocess_exec(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    told = json.loads(await asyncio.wait_for(process.stdout.readline(), 240))
    async with session.get(f"{told['url']}/item/7.json") as reply:
        assert reply.status == 410
    async with session.get(f"{told['url']}/maxitem.json") as reply:
        assert await reply.json() >= 50
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 240) == 0
