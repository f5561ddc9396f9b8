"""How does a program read the mirror over HTTP? JSON for items, threads, users, documents, histories, changes and search."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from typing import Final

import msgspec
from aiohttp import web

from remora.contracts import Clock
from remora.contracts.browsing import BrowsingReader
from remora.contracts.reader import MirroredDocument, MirroredItem, Revision, is_cut_by_size
from remora.contracts.search import SearchOrder
from remora.core.choices import choice_of
from remora.core.errors import ConfigurationError, RemoraError
from remora.operate.console import api_answers as answers
from remora.operate.console.api_description import API, Endpoint, Parameter, describe
from remora.operate.console.read_allowance import ReadAllowance
from remora.operate.console.reader.pages import NotHeld, Pages, among, headers_of, parse_id, status_of
from remora.read.browsing import Browsing
from remora.read.document_history import read_document_history
from remora.read.search import HITS_MAX
from remora.read.thread import THREAD_ITEMS_MAX, read_thread

PAGE_ROWS_MAX: Final = 500
PAGE_BYTES_MAX: Final = 8 << 20
HITS_ROWS_MAX: Final = 100
TEXT_MAX: Final = 4_000
CACHING: Final = {"Cache-Control": "private, no-cache"}

_SOURCE: Final = Parameter("source", "the source's name", place="path")
_ID: Final = Parameter("id", "the item's id", place="path", type="integer")
_KEY: Final = Parameter("key", "the document's key", is_required=True)
_LIMIT: Final = Parameter("limit", "how many at most", type="integer", maximum=PAGE_ROWS_MAX, default=100)
ENDPOINTS: Final = (
    Endpoint("/sources", "sources", "every source in the mirror", answers.SourcesAnswer),
    Endpoint("/sources/{source}/items/{id}", "item", "one item", answers.ItemAnswer, (_SOURCE, _ID)),
    Endpoint(
        "/sources/{source}/items/{id}/thread",
        "thread",
        "an item and all replies below it",
        answers.ThreadAnswer,
        (
            _SOURCE,
            _ID,
            Parameter("limit", "how many items at most", type="integer", maximum=THREAD_ITEMS_MAX, default=2_000),
        ),
        is_heavy=True,
    ),
    Endpoint(
        "/sources/{source}/items/{id}/history",
        "item_history",
        "every content of an item",
        answers.HistoryAnswer,
        (_SOURCE, _ID),
    ),
    Endpoint(
        "/sources/{source}/users/{name}",
        "user",
        "one profile",
        answers.UserAnswer,
        (_SOURCE, Parameter("name", "the user's name", place="path")),
    ),
    Endpoint(
        "/sources/{source}/documents",
        "documents",
        "documents by key",
        answers.DocumentsAnswer,
        (_SOURCE, Parameter("after", "the key after which to begin", default=""), _LIMIT),
        is_heavy=True,
    ),
    Endpoint("/sources/{source}/document", "document", "one document", answers.DocumentAnswer, (_SOURCE, _KEY)),
    Endpoint(
        "/sources/{source}/document/history",
        "document_history",
        "every content of a document",
        answers.HistoryAnswer,
        (_SOURCE, _KEY),
    ),
    Endpoint(
        "/changes",
        "changes",
        "what is new or changed after a position",
        answers.ChangesAnswer,
        (Parameter("since", "the position of the last change that was read", default="0"), _LIMIT),
    ),
    Endpoint(
        "/search",
        "search",
        "what matches a query such as: rate limit by:ada score>10",
        answers.SearchAnswer,
        (
            Parameter("q", "words and filters, as for remora search", is_required=True),
            Parameter("source", "only this source"),
            Parameter("order", "what comes first", values=tuple(SearchOrder), default=SearchOrder.RELEVANCE.value),
            Parameter("skip", "how many hits come before", type="integer", maximum=HITS_MAX, default=0),
            Parameter("limit", "how many hits at most", type="integer", maximum=HITS_ROWS_MAX, default=20),
        ),
        is_heavy=True,
    ),
)


class ReadApi(Pages):
    """The read API over one mirror."""

    def __init__(self, browsing: Browsing, *, clock: Clock, allowance: ReadAllowance | None = None) -> None:
        super().__init__(browsing)
        self._clock = clock
        self._allowance = allowance or ReadAllowance()
        self._description = msgspec.json.encode(describe(ENDPOINTS))
        self._index = msgspec.json.encode({"paths": {API + each.path: each.what for each in ENDPOINTS}})

    def routes(self) -> list[web.RouteDef]:
        """Every address of the API."""
        told = [web.get(API + endpoint.path, self._answering(endpoint)) for endpoint in ENDPOINTS]
        return [web.get(API, self.index), *told, web.get(f"{API}/openapi.json", self.description)]

    async def index(self, request: web.Request) -> web.StreamResponse:
        """What there is to ask for."""
        return _answered(request, self._index)

    async def description(self, request: web.Request) -> web.StreamResponse:
        """The OpenAPI document."""
        return _answered(request, self._description)

    def _answering(self, endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """The handler of one address: limits, the read, JSON, ETag; an error with its sentence and its hint."""
        work: Callable[[web.Request], Awaitable[answers.Answer]] = getattr(self, endpoint.name)

        async def answer(request: web.Request) -> web.StreamResponse:
            waits_s = self._allowance.take(now_ns=self._clock.monotonic_ns()) if endpoint.is_heavy else 0
            if waits_s:
                told = answers.ErrorAnswer(error="too many heavy reads", hint=f"ask again in {waits_s:.1f} s")
                return _refused(told, 429, {"Retry-After": str(math.ceil(waits_s))})
            try:
                found = await work(request)
            except RemoraError as error:
                told = answers.ErrorAnswer(error=error.message, hint=error.hint)
                return _refused(told, status_of(error), headers_of(error))
            return _answered(request, await asyncio.to_thread(msgspec.json.encode, found))

        return answer

    async def sources(self, request: web.Request) -> answers.SourcesAnswer:
        """Every source in the mirror."""
        async with self._browsing.reader() as reader:
            held = await reader.sources()
        return answers.SourcesAnswer(
            sources=tuple(
                answers.SourceAnswer(name=each.name, kind="listed" if each.is_listed else "numbered") for each in held
            )
        )

    async def item(self, request: web.Request) -> answers.ItemAnswer:
        """One item."""
        async with self._browsing.reader() as reader:
            return answers.item_answer(await self._item(reader, request))

    async def thread(self, request: web.Request) -> answers.ThreadAnswer:
        """An item and all replies below it."""
        items_max = _number(request, "limit", 2_000, THREAD_ITEMS_MAX)
        async with self._browsing.reader() as reader:
            thread = await read_thread(reader, await self._item(reader, request), items_max=items_max)
        return await asyncio.to_thread(answers.thread_answer, thread)

    async def item_history(self, request: web.Request) -> answers.HistoryAnswer:
        """Every content of an item."""
        async with self._browsing.reader() as reader:
            item = await self._item(reader, request)
            earlier = await reader.revisions(item.source, item.id)
        current = Revision(item.revision, item.body, item.changed_ns, item.last_fetched_ns)
        return answers.history_answer((*earlier, current))

    async def user(self, request: web.Request) -> answers.UserAnswer:
        """One profile."""
        name = request.match_info["name"]
        async with self._browsing.reader() as reader:
            source = await self.numbered(reader, request)
            found = await reader.user(source.name, name)
        if found is None:
            raise NotHeld(f"the mirror holds no profile of {name}", hint="names are case-sensitive")
        return answers.user_answer(found)

    async def documents(self, request: web.Request) -> answers.DocumentsAnswer:
        """Documents by key; fewer than asked for if they are large."""
        limit = _number(request, "limit", 100, PAGE_ROWS_MAX)
        async with self._browsing.reader() as reader:
            source = await self.listed(reader, request)
            after = _text(request, "after")
            found = await reader.document_page(source.name, after=after, fetched_since_ns=0, limit=limit + 1)
        kept, has_more = within(found, rows_max=limit, bytes_max=PAGE_BYTES_MAX)
        return answers.DocumentsAnswer(
            documents=tuple(map(answers.document_answer, kept)), next=kept[-1].key if has_more else None
        )

    async def document(self, request: web.Request) -> answers.DocumentAnswer:
        """One document."""
        async with self._browsing.reader() as reader:
            return answers.document_answer(await self._document(reader, request))

    async def document_history(self, request: web.Request) -> answers.HistoryAnswer:
        """Every content of a document."""
        async with self._browsing.reader() as reader:
            document = await self._document(reader, request)
            return answers.history_answer(await read_document_history(reader, document))

    async def changes(self, request: web.Request) -> answers.ChangesAnswer:
        """What is new or changed after a position."""
        since = _text(request, "since") or "0"
        limit = _number(request, "limit", 100, PAGE_ROWS_MAX)
        async with self._browsing.reader() as reader:
            found = await reader.changes(since, limit=limit)
        return answers.ChangesAnswer(
            changes=tuple(map(answers.change_answer, found)), next=found[-1].position if found else since
        )

    async def search(self, request: web.Request) -> answers.SearchAnswer:
        """What matches a query."""
        order = choice_of(_text(request, "order") or SearchOrder.RELEVANCE, SearchOrder, "order")
        if source := _text(request, "source"):
            async with self._browsing.reader() as reader:
                among(await reader.sources(), source)
        found = await self._browsing.search(
            _text(request, "q"),
            source=source or None,
            order=order,
            skip=_number(request, "skip", 0, HITS_MAX),
            limit=_number(request, "limit", 20, HITS_ROWS_MAX),
        )
        return answers.search_answer(found)

    async def _item(self, reader: BrowsingReader, request: web.Request) -> MirroredItem:
        source = await self.numbered(reader, request)
        item_id = parse_id(request.match_info["id"])
        found = await reader.items(source.name, [item_id])
        if not found:
            raise NotHeld(f"item {item_id} is not in the mirror", hint="it may be owed, absent or not fetched yet")
        return found[0]

    async def _document(self, reader: BrowsingReader, request: web.Request) -> MirroredDocument:
        source = await self.listed(reader, request)
        key = _text(request, "key")
        found = await reader.document(source.name, key)
        if found is None:
            raise NotHeld(f"the document {key} is not in the mirror", hint="/documents lists the keys")
        return found


def _answered(request: web.Request, body: bytes) -> web.Response:
    """The answer, or only its ETag if the caller has it already."""
    tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    known = {each.strip().removeprefix("W/") for each in request.headers.get("If-None-Match", "").split(",")}
    headers = {**CACHING, "ETag": tag}
    if tag in known:
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, content_type="application/json", headers=headers)


def _refused(told: answers.ErrorAnswer, status: int, headers: dict[str, str]) -> web.Response:
    return web.Response(body=msgspec.json.encode(told), status=status, content_type="application/json", headers=headers)


def within(
    documents: Sequence[MirroredDocument], *, rows_max: int, bytes_max: int
) -> tuple[list[MirroredDocument], bool]:
    """The first documents that are not too large together, at least one; and whether there may be more."""
    kept: list[MirroredDocument] = []
    size = 0
    for document in documents[:rows_max]:
        size += len(document.body or b"")
        if kept and size > bytes_max:
            break
        kept.append(document)
    return kept, len(kept) < len(documents) or is_cut_by_size(documents)


def _text(request: web.Request, name: str) -> str:
    text = request.query.get(name, "")
    if len(text) > TEXT_MAX:
        raise ConfigurationError(f"{name} has {len(text):,} characters", hint=f"write at most {TEXT_MAX:,}")
    return text


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name, "")
    if not text:
        return default
    least = 0 if name == "skip" else 1
    if not (text.isascii() and text.isdigit() and len(text) < 8 and least <= int(text) <= most):
        raise ConfigurationError(f'{name} is "{text}"', hint=f"write a whole number from {least} to {most:,}")
    return int(text)
