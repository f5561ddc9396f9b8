"""Does an item from a dump say so wherever it is shown, instead of a time at which it was never read?"""

from pathlib import Path

from aiohttp import ClientSession
from mcp import Client

from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.operate.jobs import assistants
from remora.operate.jobs.importing import import_files
from remora.read.mirror import MirrorReader
from tests.library import NEWS, opened_library


async def test_an_item_from_a_dump_was_never_read_and_nobody_says_1970(tmp_path: Path) -> None:
    dump, url = tmp_path / "dump.ndjson", f"sqlite:///{tmp_path}/hn.db"
    dump.write_bytes(b'{"by":"ada","id":7,"time":1700000000,"title":"From a dump","type":"story"}\n')
    settings = load(Flags(store=url, source=NEWS), {})
    await import_files(settings, NEWS, [dump], tell=lambda _file, _rows: None)
    async with MirrorReader(url) as mirror:
        item = await mirror.item(7)
        assert item is not None
        assert (item.is_second_hand, item.last_fetched_at) == (True, None)
    async with Client(assistants.make_server(settings)) as client:
        told = str((await client.call_tool("item", {"item_id": 7})).content)
    assert "from a dump, never fetched from the source" in told
    async with opened_library(url) as console, ClientSession(console.url) as visitor:
        for path in ("", "/history"):
            answer = await (await visitor.get(f"/api/v1/sources/{NEWS}/items/7{path}")).json()
            assert answer.get("revisions", [answer])[0]["last_fetched_at"] is None
        page = await (await visitor.get(f"/read/{NEWS}/item/7")).text()
    assert "from a dump, not read yet" in page
    assert "1970" not in told + page
