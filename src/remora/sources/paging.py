"""Where is the next page of a list? Four ways of paging; a position is the text that one of them needs to go on.

A list ends only when the source says so: with an empty page, an exhausted total, or no next page. A page that is merely
shorter than it was asked to be proves nothing, because servers cap page sizes as they like.

Where entries are skipped by number, one that is deleted moves all that follow up by one, and the next page would begin
one too late. So each such page begins a little before the end of the last one: what both show proves that they join.
"""

import re
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from remora.core.errors import ConfigurationError
from remora.core.item import Order
from remora.sources.address import RELATIVE, check_path
from remora.sources.json_path import NOT_THERE, as_key, check_place, find

FIRST: Final = ""  # the position of the first page
POSITION_MAX: Final = 10**12
# One entry in this many is read twice, and one more: so that the loss of a single one never costs a step back.
OVERLAP_EVERY: Final = 20
_OVERLAPPED: Final = re.compile(r"([0-9]{1,12})-([0-9]{1,12})")  # entries to skip, less the ones to see again
_LINK: Final = re.compile(r'<([^<>]*)>((?:\s*;\s*[\w*-]+\s*=\s*(?:"[^"]*"|[^\s",;]+))*)')
_FIELD: Final = re.compile(r"[A-Za-z_@][\w.@-]{0,39}", re.ASCII)
_NEXT: Final = re.compile(r';\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next\b)', re.IGNORECASE)


class Paging(StrEnum):
    """How a list is cut into pages."""

    OFFSET = "offset"  # how many entries to skip
    CURSOR = "cursor"  # a mark in the body says where to go on
    PAGE = "page"  # pages are numbered
    LINK = "link"  # a Link header names the next page


class ListSettings(msgspec.Struct, frozen=True):
    """How the list of a listed source is walked. A place in the JSON is a path or an expression; "." is the body."""

    path: str = "/list"
    paging: Paging = Paging.OFFSET
    page_size: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    entries: str = "items"
    key: str = "id"
    updated: str = "update_time"  # empty: the list has no marks
    size_param: str = "limit"
    offset_param: str = "offset"
    page_param: str = "page"
    first_page: Annotated[int, msgspec.Meta(ge=0, le=1)] = 1
    cursor_param: str = "cursor"
    next_cursor: str = "next_cursor"
    total: str | None = None  # where the body says how many entries there are in all (offset)
    more: str | None = None  # where the body says whether there is a next page (offset, page, cursor)
    order: Order = Order.UPDATED
    created: str | None = None  # the mark that the list is sorted by, where that is not the update mark

    def __post_init__(self) -> None:
        check_path(self.path, "list.path")
        for name in ("entries", "key", "updated", "created", "next_cursor", "total", "more"):
            check_place(getattr(self, name) or None, f"list.{name}")
        if self.created is not None and self.order is Order.UPDATED:
            raise ConfigurationError(
                'list.created is given, but list.order is "updated"',
                hint='write order = "created" if the list is sorted by it, or leave created out',
            )

    @property
    def mark_at(self) -> str:
        """Where the mark is that the list is sorted by; empty where the list has none."""
        return self.updated if self.created is None else self.created


class NoNextPage(Exception):
    """The page does not say, in a way that can be trusted, where the list goes on. One sentence, and what to write."""


def page_url(settings: ListSettings, base_url: str, position: str) -> str:
    """The address of the page at a position."""
    url = f"{base_url}{settings.path}"
    size = (settings.size_param, str(settings.page_size))
    match settings.paging:
        case Paging.OFFSET:
            offset, shared = _offset(position)
            return _with_query(url, (settings.offset_param, str(offset - shared)), size)
        case Paging.PAGE:
            return _with_query(url, (settings.page_param, str(_number(position, settings.first_page))), size)
        case Paging.CURSOR if position == FIRST:
            return _with_query(url, size)
        case Paging.CURSOR:
            return _with_query(url, (settings.cursor_param, position), size)
        case Paging.LINK if RELATIVE.fullmatch(position):
            # Kept without its origin: a position can only ever lead to the address the owner configured.
            return f"{_origin(base_url)}{position}"
        case Paging.LINK:
            return _with_query(url, size)


def shared_with_last(settings: ListSettings, position: str) -> int:
    """How many entries of the page at a position were on the page before it, unless the list moved."""
    return _offset(position)[1] if settings.paging is Paging.OFFSET else 0


def resume_position(settings: ListSettings, position: str, following: str | None) -> str | None:
    """Where a walk that ends after this page may go on later without reading it again; None where it must.

    An overlapping page proves by itself that it joins, and a cursor stays where it is when entries come and go.
    """
    match settings.paging:
        case Paging.OFFSET:
            onward = position if following is None else following
            return onward if _OVERLAPPED.fullmatch(onward) else None
        case Paging.CURSOR | Paging.LINK:
            return position if following is None else following
        case Paging.PAGE:
            return None


def next_position(
    settings: ListSettings, position: str, page: object, *, listed: int, link: str, url: str
) -> str | None:
    """Where the list goes on after this page of `listed` entries; None at its end. Raises `NoNextPage`."""
    more = find(page, settings.more) if settings.more is not None else None
    if more is False:
        return None
    following = _following(settings, position, page, listed=listed, link=link, url=url)
    if following is None and more is True:
        raise NoNextPage(
            f'"{settings.more}" is true, but the page names no next page; check list.more and {_next_setting(settings)}'
        )
    if following is None and position == FIRST and settings.more is None:
        _refuse_early_end(settings, page, listed)
    return following


def missing_is_end(settings: ListSettings, following: str | None) -> bool:
    """Whether a next page that does not exist is the end of the list: pages are counted, and nothing is shown twice."""
    if following is None:
        return False
    return settings.paging is Paging.PAGE or (settings.paging is Paging.OFFSET and not _offset(following)[1])


def _following(settings: ListSettings, position: str, page: object, *, listed: int, link: str, url: str) -> str | None:
    match settings.paging:
        case Paging.OFFSET:
            return _next_offset(settings, position, page, listed)
        case Paging.PAGE:
            return str(_number(position, settings.first_page) + 1) if listed else None
        case Paging.CURSOR:
            return _next_cursor(settings, position, page, listed)
        case Paging.LINK:
            return _next_link(link, url)


def _next_setting(settings: ListSettings) -> str:
    return "list.next_cursor" if settings.paging is Paging.CURSOR else "list.paging"


def _refuse_early_end(settings: ListSettings, page: object, listed: int) -> None:
    """A first page without a next one is a short list, or a declaration that looks in the wrong place."""
    if settings.paging not in {Paging.CURSOR, Paging.LINK}:
        return
    is_cursor = settings.paging is Paging.CURSOR
    if is_cursor and find(page, settings.next_cursor) is not NOT_THERE:
        return  # a null in the right place
    where = f'at "{settings.next_cursor}"' if is_cursor else "in a Link header"
    if (other := _other_next(page)) is not None:
        write = f'next_cursor = "{other}"' if is_cursor else f'paging = "cursor" and next_cursor = "{other}"'
        raise NoNextPage(f'the first page names no next page {where}, but has "{other}"; write {write} if that is it')
    if listed >= settings.page_size:
        raise NoNextPage(
            f"the first page is full ({listed} entries) and names no next page {where}; check {_next_setting(settings)}, "
            f"or write page_size = {max(1, listed - 1)} if the list has exactly {listed} entries"
        )


def _other_next(page: object) -> str | None:
    """A field beside the entries whose name says that it leads to the next page."""
    if not isinstance(page, dict):
        return None
    fields = list(page.items())
    fields += [
        (f"{name}.{key}", value)
        for name, inner in page.items()
        if isinstance(inner, dict)
        for key, value in inner.items()
    ]
    for name, value in fields:
        is_named = _FIELD.fullmatch(str(name)) and re.search("next|cursor|continu", str(name), re.IGNORECASE)
        if is_named and as_key(value) is not None:
            return str(name)
    return None


def _next_offset(settings: ListSettings, position: str, page: object, listed: int) -> str | None:
    skipped, shared = _offset(position)
    offset = skipped - shared + listed
    total = find(page, settings.total) if settings.total is not None else None
    if not listed or (isinstance(total, int) and not isinstance(total, bool) and offset >= total):
        return None
    if listed <= shared:
        return f"{offset}-0"  # nothing but what was seen: the list seems to end here, and an empty page will say so
    overlap = min(-(-listed // OVERLAP_EVERY) + 1, listed - 1)
    return f"{offset}-{overlap}" if overlap else str(offset)


def _next_cursor(settings: ListSettings, position: str, page: object, listed: int) -> str | None:
    value = find(page, settings.next_cursor)
    if value is NOT_THERE or value is None or value is False or value == "":
        return None
    cursor = as_key(value)
    if cursor is None:
        raise NoNextPage(f'"{settings.next_cursor}" is no text and no number; check list.next_cursor')
    if cursor == position and not listed:
        return None  # some cursors are never null: they stay where they are once nothing follows
    if cursor == position:
        raise NoNextPage(
            f'the cursor at "{settings.next_cursor}" leads to this page again; check list.next_cursor and list.cursor_param'
        )
    return cursor


def _next_link(link: str, url: str) -> str | None:
    target: str | None = next((found[1] for found in _LINK.finditer(link) if _NEXT.search(found[2])), None)
    if target is None:
        return None
    absolute = urljoin(url, target.strip())
    if absolute == url:
        raise NoNextPage("the Link header leads to this page again; check list.path")
    origin = _origin(url)
    # Compared as whole text up to the path: a foreign host, port, scheme or user would receive our token.
    if not absolute.startswith(f"{origin}/") or not RELATIVE.fullmatch(absolute.removeprefix(origin)):
        raise NoNextPage(
            "the Link header leads to another host, port or scheme, where your token must not go; write the url of that host"
        )
    return absolute.removeprefix(origin).partition("#")[0]


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _offset(position: str) -> tuple[int, int]:
    """Entries to skip, and how many of them to see again."""
    overlapped = _OVERLAPPED.fullmatch(position)
    if overlapped is None:
        return _number(position, 0), 0
    offset = min(int(overlapped[1]), POSITION_MAX)
    return offset, min(int(overlapped[2]), offset)


def _number(position: str, first: int) -> int:
    """A numeric position; one that cannot be read means the first page, which costs requests and loses nothing."""
    if not position.isascii() or not position.isdigit() or len(position) > 12:
        return first
    return min(int(position), POSITION_MAX)


def _with_query(url: str, *pairs: tuple[str, str]) -> str:
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
    return f"{url}{'&' if '?' in url else '?'}{query}"
