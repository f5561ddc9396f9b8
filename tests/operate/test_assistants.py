"""Can an assistant read the mirror with the protocol's own client, and nothing but read it?"""

import asyncio
import sys
import time
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.operate.jobs import assistants
from remora.operate.jobs.search_index import build
from remora.stores import open_store
from tests.contract.answers import ARCHIVE, SOURCE
from tests.read.conftest import fill, item, keep

TOOLS = ["document", "history", "item", "query", "search", "status", "thread", "user"]


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
    named = {} if tool in {"status", "query"} else {"source": SOURCE}
    answer = await client.call_tool(tool, {**named, **arguments})
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


async def test_a_document_that_a_search_finds_can_be_read(url: str) -> None:
    server = assistants.make_server(load(Flags(store=url), {}))
    async with Client(server) as client:
        assert f"{ARCHIVE} document chat-1" in await ask(client, "search", query="penguin", source=ARCHIVE)
        document = await ask(client, "document", key="chat-1", source=ARCHIVE)
        assert document.startswith("last fetched 20")
        assert '"text": "hello penguin"' in document
        assert await ask(client, "document", key="chat-1", source=None) == document
        assert "its detail is owed" in await ask(client, "document", key="chat-3", source=ARCHIVE)
        assert "does not hold chat-9" in await ask(client, "document", key="chat-9", source=ARCHIVE)


async def test_a_query_gives_an_assistant_whole_cells(url: str) -> None:
    server = assistants.make_server(load(Flags(store=url), {}))
    async with Client(server) as client:
        found = await ask(client, "query", statement="SELECT key, body FROM documents WHERE key = 'chat-1'")
        assert "hello penguin" in found
        many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i FROM n"
        assert (await ask(client, "query", statement=many)).splitlines()[-2:] == ["200", "… there are more rows"]


async def test_a_huge_cell_costs_an_assistant_no_more_than_its_answer(url: str) -> None:
    server = assistants.make_server(load(Flags(store=url), {}))
    async with Client(server) as client:
        huge = "SELECT zeroblob(20000000) AS cell UNION ALL SELECT replace(hex(zeroblob(10000000)), '0', 'é')"
        began_s = time.process_time()
        found = await ask(client, "query", statement=huge)
        assert time.process_time() - began_s < 1
        assert found.startswith("cell\n\0\0\0")
        assert found.endswith("… cut: an answer has at most 20,000 characters")


@pytest.mark.slow
@pytest.mark.parametrize(
    "tool, arguments",
    [
        ("item", {"item_id": 1}),
        ("thread", {"item_id": 1}),
        ("history", {"item_id": 5}),
        ("user", {"name": "ada"}),
        ("document", {"key": "chat-1"}),
        ("search", {"query": "remora"}),
    ],
)
async def test_a_source_that_the_mirror_does_not_have_is_named_with_those_it_has(
    url: str, tool: str, arguments: dict[str, object]
) -> None:
    server = assistants.make_server(load(Flags(store=url), {}))
    async with Client(server) as client:
        told = await ask(client, tool, **arguments, source="guessed")
        assert "holds nothing of a source guessed" in told
        assert SOURCE in told
        assert ARCHIVE in told


@pytest.mark.slow
async def test_the_command_serves_a_client_over_stdio(url: str) -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "remora", "mcp", "--store", url])
    async with Client(command) as client:
        assert "does not hold 12345" in await ask(client, "item", item_id=12345)
