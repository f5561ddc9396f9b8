"""Which pages does the reader have? Sources, lists, items with their threads, authors, documents, histories, search."""

from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Final

from aiohttp import web

from remora.contracts.browsing import BrowsingReader, ReadTooSlow
from remora.contracts.reader import MirroredSource
from remora.core.errors import ConfigurationError, RemoraError, StoreError
from remora.operate.console.reader import links
from remora.operate.console.reader.rendering import STATIC, page
from remora.read.browsing import Browsing, TooManyReads

Handler = Callable[[Any, web.Request], Coroutine[Any, Any, web.StreamResponse]]
ID_MAX: Final = 2**63 - 1


class NotHeld(RemoraError):
    """The mirror does not have it."""


def status_of(error: RemoraError) -> int:
    """The HTTP status for an error of ours."""
    match error:
        case NotHeld():
            return 404
        case TooManyReads():
            return 429
        case StoreError() | ReadTooSlow():
            return 503
        case _:
            return 400


def headers_of(error: RemoraError) -> dict[str, str]:
    """When to ask again, if it was only too much at once."""
    return {"Retry-After": "1"} if isinstance(error, TooManyReads) else {}


def shown(work: Handler) -> Handler:
    """An error of ours becomes a page with its sentence and its hint."""

    @wraps(work)
    async def answered(pages: Any, request: web.Request) -> web.StreamResponse:
        try:
            return await work(pages, request)
        except RemoraError as error:
            return await page(request, "error.html", status=status_of(error), error=error, source=None)

    return answered


class Pages:
    """What all groups of pages need: the mirror, and the source that an address names."""

    def __init__(self, browsing: Browsing) -> None:
        self._browsing = browsing

    async def named_source(self, reader: BrowsingReader, request: web.Request) -> MirroredSource:
        """The source in the address, if the mirror has it."""
        return among(await reader.sources(), request.match_info["source"])

    async def numbered(self, reader: BrowsingReader, request: web.Request) -> MirroredSource:
        """The same, if it has numbered items."""
        source = await self.named_source(reader, request)
        if source.is_listed:
            raise NotHeld(f"{source.name} has documents, not numbered items", hint="look at its documents")
        return source

    async def listed(self, reader: BrowsingReader, request: web.Request) -> MirroredSource:
        """The same, if it has documents."""
        source = await self.named_source(reader, request)
        if not source.is_listed:
            raise NotHeld(f"{source.name} has numbered items, not documents", hint="look at its items")
        return source


class StartPages(Pages):
    """The list of sources, and the files that pages need."""

    def routes(self) -> list[web.RouteDef]:
        """The addresses of these pages."""
        return [
            web.get(links.READER, self.sources),
            web.get(f"{links.READER}/", self.sources),
            web.get("/reader.css", self.file),
            web.get("/reader.js", self.file),
        ]

    @shown
    async def sources(self, request: web.Request) -> web.StreamResponse:
        """Every source in the mirror. With one source, that one."""
        async with self._browsing.reader() as reader:
            held = await reader.sources()
        if len(held) == 1:
            return go(request, links.view(held[0].name))
        return await page(request, "sources.html", sources=held, source=None)

    async def file(self, request: web.Request) -> web.StreamResponse:
        """A style sheet or a script."""
        name = request.path.removeprefix("/")
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        return web.Response(body=(STATIC / name).read_bytes(), content_type=kind, charset="utf-8")


class OtherPages(Pages):
    """Every other address below the reader's."""

    def routes(self) -> list[web.RouteDef]:
        """These come last."""
        return [
            web.get(f"{links.READER}/{{source}}/", self.without_slash),
            web.get(f"{links.READER}/{{rest:.*}}", self.nothing),
        ]

    async def without_slash(self, request: web.Request) -> web.StreamResponse:
        """The front page of a source, written with a slash at its end."""
        return go(request, links.view(request.match_info["source"]))

    @shown
    async def nothing(self, request: web.Request) -> web.StreamResponse:
        """A page that says so."""
        raise NotHeld("the reader has no such page", hint="see the list of sources")


def among(sources: Sequence[MirroredSource], name: str) -> MirroredSource:
    """The source of this name."""
    for source in sources:
        if source.name == name:
            return source
    raise NotHeld(f"the mirror holds nothing of a source {name}", hint="see the list of sources")


def go(request: web.Request, path: str) -> web.Response:
    """Show another page instead."""
    return web.Response(
        status=303, headers={"Location": links.to_root(request.rel_url.raw_path) + path.removeprefix("/")}
    )


def query_id(request: web.Request, name: str) -> int:
    """An id in the query of an address; the highest there is without one."""
    text = request.query.get(name, "")
    return parse_id(text) if text else ID_MAX


def parse_id(text: str) -> int:
    """An item's id."""
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    raise ConfigurationError(f'"{text}" is not an item id', hint="write the number of an item")
