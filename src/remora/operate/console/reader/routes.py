"""Which addresses belong to the reader? Those of all its groups of pages, the more special ones first."""

from aiohttp import web

from remora.operate.console.reader.item_pages import ItemPages
from remora.operate.console.reader.listed_pages import ListedPages
from remora.operate.console.reader.pages import OtherPages, StartPages
from remora.operate.console.reader.search_pages import SearchPages
from remora.read.browsing import Browsing


def reader_routes(browsing: Browsing) -> list[web.RouteDef]:
    """Every page of the reader over one mirror."""
    groups = (
        StartPages(browsing),
        SearchPages(browsing),
        ListedPages(browsing),
        ItemPages(browsing),
        OtherPages(browsing),
    )
    return [route for group in groups for route in group.routes()]
