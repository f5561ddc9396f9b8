"""Does the console work below a path of a real nginx, with the very recipe of the documentation?"""

import asyncio
import socket
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar
from yarl import URL

from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from tests.docs_reader import ROOT, Page
from tests.operate.test_access import OPEN, TOKEN
from tests.operate.test_server import OURS, Console

pytestmark = [pytest.mark.slow]

WHOLE = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; {recipe} }}
}}
"""


def recipe(console: URL) -> str:
    """What the documentation tells to write, for a console on another port."""
    (shown,) = Page(ROOT / "docs" / "console.md", (ROOT / "docs" / "console.md").read_text("utf-8")).blocks("nginx")
    assert "http://127.0.0.1:8611/" in shown
    return shown.replace("http://127.0.0.1:8611/", f"http://127.0.0.1:{console.port}/")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@asynccontextmanager
async def proxied(nginx: Path, folder: Path) -> AsyncIterator[URL]:
    """A console with a token behind nginx; its address from outside."""
    console = Console(load(Flags(listen="0.0.0.0:0"), {}, directory=folder), access=OPEN)
    await console.server.open()
    port = free_port()
    text = WHOLE.format(folder=folder, port=port, recipe=recipe(URL(console.server.url)))
    (folder / "nginx.conf").write_text(text)
    process = await asyncio.create_subprocess_exec(
        nginx, "-p", folder, "-c", folder / "nginx.conf", stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    try:
        yield await listening(process, port)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()
        await console.server.close()


async def listening(process: asyncio.subprocess.Process, port: int) -> URL:
    """The address, once nginx accepts connections there."""
    async with asyncio.timeout(120):  # only guards against a proxy that never listens
        while True:
            assert process.returncode is None, "nginx ended"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return URL(f"http://127.0.0.1:{port}/remora/")


async def test_a_browser_logs_in_looks_and_acts_below_the_path(nginx_path: Path, tmp_path: Path) -> None:
    async with proxied(nginx_path, tmp_path) as outside, ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        async with session.get(outside) as reply:
            assert (reply.url.path, reply.status) == ("/remora/login", 200)
        origin = {"Origin": str(outside.origin())}
        async with session.post(outside / "login", data={"token": TOKEN}, headers=origin) as reply:
            assert (reply.url.path, reply.status) == ("/remora/", 200)
            page = await reply.text()
        assert 'src="/' not in page
        assert 'href="/' not in page
        for path in ("console.js", "console.css", "api/status", "api/history", "metrics"):
            async with session.get(outside / path) as reply:
                assert reply.status == 200, path
        async with session.get(outside / "api/events") as reply:  # not held back until a buffer is full
            assert reply.content_type == "text/event-stream"
            lines = [(await reply.content.readline()).decode().rstrip() for _ in range(4)]
            assert lines[2] == "event: status"
        replay = outside / "api/gaps/replay"
        async with session.post(replay, json={"all": True}, headers={**origin, **OURS}) as reply:
            assert (reply.status, await reply.json()) == (200, {"replayed": 0})
        async with session.post(replay, json={"all": True}, headers={**OURS, "Origin": "http://evil.example"}) as reply:
            assert reply.status == 403
