"""Can a program read the mirror over HTTP, as the OpenAPI document says, within its limits?"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from remora.contracts.reader import MirroredDocument
from remora.contracts.store import PAGE_BYTES
from remora.core.units import SECOND_NS
from remora.operate.console import api
from remora.operate.console.access import Access
from remora.operate.console.api_description import API
from remora.operate.console.read_allowance import ReadAllowance
from remora.operate.console.reader.pages import NotHeld, headers_of
from remora.read.browsing import TooManyReads
from remora.sources.secret import Secret
from tests.docs_reader import page
from tests.library import (
    BROKEN_STORY,
    CHATS,
    DELETED_COMMENT,
    LONG_COMMENTS,
    LONG_STORY,
    NEWS,
    make_library,
    opened_library,
)

# One mirror for all: the API only reads it.
pytestmark = pytest.mark.asyncio(loop_scope="module")

# A value for every parameter that an address needs.
VALUES = {"source": NEWS, "id": str(DELETED_COMMENT), "name": "ada", "key": "chat/2", "q": "harbour"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('library')}/library.db"
    await make_library(url)
    return url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def caller(library: str) -> AsyncIterator[ClientSession]:
    async with opened_library(library) as console, ClientSession(console.url) as session:
        yield session


async def ask(caller: ClientSession, path: str, *, status: int = 200) -> Any:
    async with caller.get(API + path) as reply:
        told = await reply.json()
        assert reply.status == status, told
        return told


@pytest.mark.slow
async def test_every_endpoint_of_the_document_answers_with_the_fields_of_its_schema(caller: ClientSession) -> None:
    document = await ask(caller, "/openapi.json")
    assert set(document["paths"]) == {API + endpoint.path for endpoint in api.ENDPOINTS}
    schemas = document["components"]["schemas"]
    for path, operation in document["paths"].items():
        values = {**VALUES, "source": CHATS if "document" in path else NEWS}
        asked = path.format_map(values)
        needed = [each["name"] for each in operation["get"]["parameters"] if each["in"] == "query" and each["required"]]
        asked += "?" + "&".join(f"{name}={quote(values[name], safe='')}" for name in needed)
        told = await ask(caller, asked.removeprefix(API))
        name = operation["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert set(told) == set(schemas[name]["properties"]), asked


async def test_the_address_of_the_api_itself_names_its_paths(caller: ClientSession) -> None:
    told = await ask(caller, "")
    assert set(told["paths"]) == {API + endpoint.path for endpoint in api.ENDPOINTS}
    assert told["paths"][f"{API}/sources"] == "every source in the mirror"


async def test_the_routes_are_those_of_the_document_and_no_others(library: str) -> None:
    async with opened_library(library) as console:
        served = {route.path for route in console._pages if route.path.startswith(API)}
    assert served == {API + endpoint.path for endpoint in api.ENDPOINTS} | {API, f"{API}/openapi.json"}


async def test_the_page_in_the_docs_names_every_endpoint_and_its_examples_run(
    library: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = page("docs/http-api.md")
    assert shown is not None
    assert set(shown.first_cells) == {API + endpoint.path for endpoint in api.ENDPOINTS}
    async with opened_library(library) as console:
        for snippet in shown.blocks("python"):
            code = compile(snippet.replace("http://127.0.0.1:8611", console.url), "docs/http-api.md", "exec")
            await asyncio.to_thread(exec, code, {})
    assert "My YC app: Dropbox dhouston 111" in capsys.readouterr().out


async def test_an_item_has_its_columns_and_its_body_as_it_came(caller: ClientSession) -> None:
    told = await ask(caller, f"/sources/{NEWS}/items/{BROKEN_STORY}")
    assert (told["id"], told["type"], told["body"]["kids"]) == (BROKEN_STORY, "story", [11, 19, 15])
    assert told["first_seen_at"].endswith("Z")


@pytest.mark.slow
async def test_a_thread_is_flat_with_depths_and_names_its_breaks(caller: ClientSession) -> None:
    told = (await ask(caller, f"/sources/{NEWS}/items/{BROKEN_STORY}/thread"))["items"]
    assert [(each["depth"], each["item"]["id"]) for each in told] == [(0, BROKEN_STORY), (1, 11), (2, DELETED_COMMENT)]
    assert (told[0]["missing"], told[0]["elsewhere"]) == ([19], [15])
    long = (await ask(caller, f"/sources/{NEWS}/items/{LONG_STORY}/thread?limit=10000"))["items"]
    assert len(long) == LONG_COMMENTS + 1
    cut = (await ask(caller, f"/sources/{NEWS}/items/{LONG_STORY}/thread?limit=10"))["items"]
    assert len(cut) == 10
    assert any(each["is_cut"] for each in cut)


async def test_a_history_has_what_was_deleted_upstream(caller: ClientSession) -> None:
    first, last = (await ask(caller, f"/sources/{NEWS}/items/{DELETED_COMMENT}/history"))["revisions"]
    assert first["body"]["text"] == "The words that were deleted later."
    assert last["body"]["deleted"] is True


async def test_documents_page_by_key_and_a_body_that_is_no_json_is_a_text(caller: ClientSession) -> None:
    first = await ask(caller, f"/sources/{CHATS}/documents?limit=2")
    assert ([each["key"] for each in first["documents"]], first["next"]) == (["chat/1", "chat/2"], "chat/2")
    rest = await ask(caller, f"/sources/{CHATS}/documents?limit=2&after=chat/2")
    assert ([each["body"] for each in rest["documents"]], rest["next"]) == (["not json"], None)
    assert [each["gone"] for each in [*first["documents"], *rest["documents"]]] == [False, False, True]
    owed = await ask(caller, f"/sources/{CHATS}/document?key=chat/4")
    assert (owed["body"], owed["updated_at"]) == (None, "2026-01-04")


def documents_of(size: int, count: int) -> list[MirroredDocument]:
    return [MirroredDocument(CHATS, f"chat/{number}", b"x" * size, None, None) for number in range(count)]


@pytest.mark.parametrize(
    "size, count, kept, has_more",
    [
        (60, 3, 2, True),  # too many bytes
        (200, 3, 1, True),  # at least one document
        (10, 5, 4, True),  # too many rows
        (10, 4, 4, False),
        (PAGE_BYTES, 1, 1, True),  # the store ended the page because of its size
    ],
)
async def test_a_page_of_documents_is_bounded_and_knows_whether_more_follows(
    size: int, count: int, kept: int, has_more: bool
) -> None:
    found, told = api.within(documents_of(size, count), rows_max=4, bytes_max=130)
    assert (len(found), told) == (kept, has_more)


async def test_changes_go_on_after_a_position_and_leave_nothing_out(caller: ClientSession) -> None:
    positions, since = [], "0"
    while True:
        told = await ask(caller, f"/changes?since={since}&limit=500")
        if not told["changes"]:
            break
        positions += [each["position"] for each in told["changes"]]
        since = told["next"]
    assert positions == sorted(set(positions), key=int)
    assert len(positions) > LONG_COMMENTS


async def test_a_search_has_hits_facets_and_pages(caller: ClientSession) -> None:
    told = await ask(caller, "/search?q=harbour+type:story&order=score&limit=3")
    assert len(told["hits"]) == 3
    assert told["hits"][0]["item"]["score"] >= told["hits"][1]["item"]["score"]
    assert list(told["facets"]["type"]) == ["story"]
    assert told["counted"] > 3


async def test_what_did_not_change_costs_only_its_etag(caller: ClientSession) -> None:
    path = f"{API}/sources/{NEWS}/items/{BROKEN_STORY}"
    async with caller.get(path) as reply:
        tag = reply.headers["ETag"]
        assert reply.headers["Cache-Control"] == "private, no-cache"
    async with caller.get(path, headers={"If-None-Match": f'"other", W/{tag}'}) as reply:
        assert (reply.status, await reply.read()) == (304, b"")


@pytest.mark.parametrize(
    "path, status",
    [
        (f"/sources/{NEWS}/items/424242", 404),
        (f"/sources/{NEWS}/items/one", 400),
        (f"/sources/{CHATS}/items/1", 404),
        ("/sources/absent/items/1", 404),
        (f"/sources/{NEWS}/users/nobody", 404),
        (f"/sources/{CHATS}/document?key=absent", 404),
        (f"/sources/{CHATS}/documents?limit=501", 400),
        (f"/sources/{CHATS}/documents?limit=0", 400),
        ("/changes?limit=0", 400),
        (f"/sources/{NEWS}/items/{LONG_STORY}/thread?limit=-1", 400),
        ("/changes?since=soon", 400),
        ("/search?q=", 400),
        ("/search?q=fish&order=luck", 400),
        ("/search?q=fish&source=absent", 404),
        ("/search?q=" + "a" * 5_000, 400),
    ],
)
async def test_a_wrong_request_says_what_is_wrong_and_what_to_write(
    caller: ClientSession, path: str, status: int
) -> None:
    told = await ask(caller, path, status=status)
    assert told["error"]
    assert told["hint"]


async def test_too_many_heavy_reads_are_refused_and_light_ones_go_on(library: str) -> None:
    allowance = ReadAllowance(per_s=1, burst=2)
    async with opened_library(library, allowance=allowance) as console, ClientSession(console.url) as caller:
        path = f"/sources/{NEWS}/items/{BROKEN_STORY}"
        for _ in range(2):
            await ask(caller, f"{path}/thread")
        async with caller.get(f"{API}{path}/thread") as reply:
            assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
        await ask(caller, path)


async def test_whoever_is_refused_is_told_when_to_ask_again() -> None:
    assert headers_of(TooManyReads("32 reads wait", hint="ask again")) == {"Retry-After": "1"}
    assert headers_of(NotHeld("the mirror does not hold 7", hint="write another")) == {}


async def test_without_the_token_the_api_answers_nothing(tmp_path: Path) -> None:
    access = Access(token=Secret("correct-horse"))
    url = f"sqlite:///{tmp_path}/absent.db"
    async with opened_library(url, access=access) as console, ClientSession(console.url) as caller:
        for endpoint in api.ENDPOINTS:
            async with caller.get(API + endpoint.path.format_map(VALUES)) as reply:
                assert reply.status == 401


async def test_the_allowance_gives_its_burst_and_then_its_rate() -> None:
    allowance = ReadAllowance(per_s=10, burst=5)
    assert [allowance.take(now_ns=0) for _ in range(5)] == [0.0] * 5
    assert allowance.take(now_ns=0) == pytest.approx(0.1)
    assert allowance.take(now_ns=SECOND_NS // 10) == 0.0
    assert allowance.take(now_ns=SECOND_NS // 10) > 0
    assert [allowance.take(now_ns=9 * SECOND_NS) for _ in range(6)][:5] == [0.0] * 5
