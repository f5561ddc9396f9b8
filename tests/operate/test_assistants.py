"""Can an assistant read the mirror with the protocol's own client, and nothing but read it?"""

import asyncio
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.operate.jobs import assistants
from remora.operate.jobs.search_index import build
from remora.stores import open_store
from tests.contract.answers import SOURCE
from tests.read.conftest import fill, item, keep

TOOLS = ["history", "item", "query", "search", "status", "thread", "user"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    address = f"sqlite:///{tmp_path}/hn.db"

    async def make() -> None:
        store = open_store(address)
        await store.open()
        await fill(store)
        await keep(store, item(99, type="story", title="long", text="word " * 10_000))
        await store.close()
        await build(address, rebuild=False, tell=lambda _: None)

    asyncio.run(make())
    return address


async def ask(client: Client, tool: str, **arguments: object) -> str:
    answer = await client.call_tool(tool, {**arguments, **({} if tool in {"status", "query"} else {"source": SOURCE})})
    assert not answer.is_error, answer
    (content,) = answer.content
    text = getattr(content, "text", None)
    assert isinstance(text, str)
    return text


async def test_every_tool_reads_and_says_so(url: str) -> None:
    server = assistants.make_server(load(Flags(store=url), {}))
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        assert sorted(tool.name for tool in tools) == TOOLS
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
        assert "item 1: Show HN: Remora & friends" in await ask(client, "search", query="remora type:story")
        assert '"score": 120' in await ask(client, "item", item_id=1)
        assert "It's a reply to the reply" in await ask(client, "thread", item_id=1)
        assert "original words" in await ask(client, "history", item_id=5)
        assert '"karma": 7' in await ask(client, "user", name="ada")
        assert "example.com" in await ask(client, "query", statement="SELECT domain FROM items WHERE id = 1")
        assert '"sources"' in await ask(client, "status")


async def test_answers_are_bounded_and_mistakes_are_sentences(url: str) -> None:
    server = assistants.make_server(load(Flags(store=url), {}))
    async with Client(server) as client:
        long = await ask(client, "item", item_id=99)
        assert len(long) < assistants.ANSWER_CHARACTERS_MAX + 100
        assert long.endswith("characters")
        assert "does not hold 12345" in await ask(client, "thread", item_id=12345)
        assert "only a query that reads" in await ask(client, "query", statement="DELETE FROM stored_items")
        assert "there is no order" in await ask(client, "search", query="x", order="size")


@pytest.mark.slow
async def test_the_command_serves_a_client_over_stdio(url: str) -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "remora", "mcp", "--store", url])
    async with Client(command) as client:
        assert "does not hold 12345" in await ask(client, "item", item_id=12345)
