"""How does a person search? With words and filters in a form, and facets that narrow the search by one click."""

from typing import Final

from aiohttp import web

from remora.contracts.search import SearchOrder
from remora.core.choices import choice_of
from remora.core.errors import ConfigurationError, RemoraError
from remora.operate.console.reader import links
from remora.operate.console.reader.front_views import parse_skip
from remora.operate.console.reader.pages import Pages, among, shown, status_of
from remora.operate.console.reader.rendering import page
from remora.read.browsing import SearchPage
from remora.read.search import HITS_MAX
from remora.read.search_query import filter_text
from remora.stores.search_values import COMPARED_MAX

HITS_ROWS: Final = 20
FILTERS: Final = ("by", "type", "domain", "since", "until")
QUERY_MAX: Final = 500


class SearchPages(Pages):
    """The search over all sources or one."""

    def routes(self) -> list[web.RouteDef]:
        """The address of the search. It comes before the sources: no source may be named `search` in an address."""
        return [web.get(links.SEARCH, self.search)]

    @shown
    async def search(self, request: web.Request) -> web.StreamResponse:
        """Hits, or the form with the sentence that says what is wrong."""
        asked = {name: request.query.get(name, "").strip() for name in ("q", "source", "score", "order", *FILTERS)}
        async with self._browsing.reader() as reader:
            sources = await reader.sources()
        found: SearchPage | None = None
        error: RemoraError | None = None
        skip = 0
        try:
            skip = parse_skip(request.query.get("skip", ""))
            text = query_text(asked)
            if asked["source"]:
                among(sources, asked["source"])
            if text:
                found = await self._browsing.search(
                    text,
                    source=asked["source"] or None,
                    order=_order(asked["order"]),
                    skip=skip,
                    limit=HITS_ROWS,
                )
        except RemoraError as refused:
            error = refused
        return await page(
            request,
            "search.html",
            status=200 if error is None else status_of(error),
            source=next((source for source in sources if source.name == asked["source"]), None),
            sources=sources,
            asked=asked,
            found=found,
            error=error,
            skip=skip,
            rows=HITS_ROWS,
            hits_max=HITS_MAX,
            compared_max=COMPARED_MAX,
            orders=tuple(SearchOrder),
            can_be_asked=lambda name, value: filter_text(name, value) is not None,
        )


def query_text(asked: dict[str, str]) -> str:
    """The query in the language of `remora search`: the words, then the filters of the form."""
    parts = [asked["q"], *(_filter(name, asked[name]) for name in FILTERS if asked[name])]
    if asked["score"]:
        parts.append(f"score>{asked['score']}")
    text = " ".join(part for part in parts if part)
    if len(text) > QUERY_MAX:
        raise ConfigurationError(
            f"the query has {len(text):,} characters", hint=f"write at most {QUERY_MAX} characters"
        )
    return text


def _filter(name: str, value: str) -> str:
    text = filter_text(name, value)
    if text is None:
        raise ConfigurationError(
            f"{name} has a quotation mark beside a space", hint="write a value without quotation marks"
        )
    return text


def _order(text: str) -> SearchOrder:
    return choice_of(text, SearchOrder, "order") if text else SearchOrder.RELEVANCE
