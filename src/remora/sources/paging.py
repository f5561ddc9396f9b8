"""Where is the next page of a list? Seven ways of paging; a position is the text that one of them needs to go on.

A list ends only when the source says so: with an empty page, an exhausted total, or no next page. A page that is merely
shorter than requested proves nothing, because servers cap page sizes as they like.

If entries are skipped by number and one is deleted, all later ones move up by one, and the next page would begin one
too late. So each such page begins a little before the end of the last one: entries on both prove that none is missing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from remora.core.item import Order
from remora.sources.address import RELATIVE, with_query, within_origin, without_parameter
from remora.sources.cursors import cursor_parameters, cursor_sent, next_cursor
from remora.sources.early_end import NoNextPage as NoNextPage
from remora.sources.early_end import early_end, next_setting, told_more
from remora.sources.json_path import NOT_THERE, as_key, find
from remora.sources.list_scope import WHOLE, Part, parameters
from remora.sources.list_settings import PAGE_MARK
from remora.sources.list_settings import ListSettings as ListSettings
from remora.sources.list_settings import Paging as Paging
from remora.sources.request_body import Values, filled, holds

FIRST: Final = ""  # the position of the first page
# The first page again, one entry shorter. If it then names a next page, a full page without one was the whole list.
SHORTER: Final = "remora:first-page-one-shorter"
POSITION_MAX: Final = 10**12
# One entry in this many is read twice, plus one, so that a single deletion never forces a step back.
OVERLAP_EVERY: Final = 20
_OVERLAPPED: Final = re.compile(r"([0-9]{1,12})-([0-9]{1,12})")  # entries to skip, minus those to see again
OVERLAPPED_PAGE: Final = re.compile(r"([0-9]{1,12}):([0-9]{1,12}):([0-9]{1,5})")  # seen before, number, size
PAGE_OVERLAP: Final = 2
# Pages are cut to round numbers: 10, 25, 50, 100. Totals are counted up to rounder ones: 1,000 or 10,000.
CUT_LEAST: Final = 10
CUT_EVERY: Final = 5
COUNTED_TO: Final = 1_000
_RANGE_OF_NONE: Final = re.compile(r"\*/([0-9]{1,12})$")
_LINK: Final = re.compile(r'<([^<>]*)>((?:\s*;\s*[\w*-]+\s*=\s*(?:"[^"]*"|[^\s",;]+))*)')
_NEXT: Final = re.compile(r';\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next\b)', re.IGNORECASE)


class Request(NamedTuple):
    """Where a request goes, and the body it sends; None: it is a GET."""

    url: str
    body: bytes | None = None


def page_request(
    settings: ListSettings, base_url: str, position: str, part: Part = WHOLE, *, of_entry: Values | None = None
) -> Request:
    """The request for the page at a position inside a part of the list."""
    settings, position = _as_asked(settings, position)
    asked = parameters(settings.since, settings.window, part)
    if settings.body is None:
        url = page_url(settings, base_url, position)
        is_named = settings.paging in {Paging.LINK, Paging.NEXT} and RELATIVE.fullmatch(position)
        # The address of a next page already names the part.
        return Request(url if is_named else with_query(url, *asked.values()))
    values = {**_values(settings, position), **(of_entry or {}), **{name: value for name, (_, value) in asked.items()}}
    url = f"{base_url}{settings.path.replace(PAGE_MARK, str(values['page']))}"
    if settings.paging in {Paging.LINK, Paging.NEXT} and RELATIVE.fullmatch(position):
        url = f"{_origin(base_url)}{position}"
    return Request(url, filled(settings.body, values))


def _as_asked(settings: ListSettings, position: str) -> tuple[ListSettings, str]:
    """The page size and the position that a request for this position names."""
    if position != SHORTER:
        return settings, position
    return msgspec.structs.replace(settings, page_size=settings.page_size - 1), FIRST


def _can_be_shorter(settings: ListSettings) -> bool:
    """Whether the page size can be chosen."""
    is_chosen = bool(settings.size_param) if settings.body is None else holds(settings.body, "size")
    return is_chosen and settings.page_size > 1


def _values(settings: ListSettings, position: str) -> Values:
    """What the placeholders of a body become. None: the field is left out."""
    offset, shared = offset_place(position) if settings.paging is Paging.OFFSET else (0, 0)
    place = page_place(settings, position if settings.paging is Paging.PAGE else FIRST)
    return {
        "offset": offset - shared,
        "page": place.number,
        "size": place.size,
        "cursor": cursor_sent(settings, position),
        "last": position or None,
        "since": None,
        "from": None,
        "until": None,
    }


def page_url(settings: ListSettings, base_url: str, position: str) -> str:
    """The address of the page at a position."""
    url = f"{base_url}{settings.path}"
    size = (settings.size_param, str(settings.page_size))
    match settings.paging:
        case Paging.OFFSET:
            offset, shared = offset_place(position)
            return with_query(url, (settings.offset_param, str(offset - shared)), size)
        case Paging.PAGE:
            place = page_place(settings, position)
            number, size = str(place.number), (settings.size_param, str(place.size))
            if PAGE_MARK in url:
                return with_query(url.replace(PAGE_MARK, number), size)
            return with_query(url, (settings.page_param, number), size)
        case Paging.CURSOR:
            return with_query(url, *cursor_parameters(settings, position), size)
        case Paging.LAST if position != FIRST:
            return with_query(url, (settings.last_param, position), size)
        case Paging.LINK | Paging.NEXT if RELATIVE.fullmatch(position):
            # Stored without scheme and host: a position can only lead to the address that the owner configured.
            return f"{_origin(base_url)}{position}"
        case Paging.LAST | Paging.LINK | Paging.NEXT | Paging.NONE:
            return with_query(url, size)


def shared_with_last(settings: ListSettings, position: str) -> int:
    """How many entries of the page at a position were on the page before it, unless the list moved."""
    match settings.paging:
        case Paging.OFFSET:
            return offset_place(position)[1]
        case Paging.PAGE:
            return page_place(settings, position).shared
        case _:
            return 0


def proves_an_end(settings: ListSettings, position: str) -> bool:
    """Whether the page at a position should be empty: the one before it showed nothing new. Entries on it moved there."""
    is_by_offset = settings.paging is Paging.OFFSET and _OVERLAPPED.fullmatch(position) is not None
    return is_by_offset and not offset_place(position)[1]


def resume_position(settings: ListSettings, position: str, following: str | None) -> str | None:
    """Where a walk that ends after this page can resume without reading it again; None if it must read it again.

    An overlapping page proves that nothing is missing, and a cursor stays valid when entries come and go.
    """
    match settings.paging:
        case Paging.OFFSET:
            onward = position if following is None else following
            return onward if _OVERLAPPED.fullmatch(onward) and shared_with_last(settings, onward) else None
        case Paging.PAGE:
            onward = position if following is None else following
            return onward if OVERLAPPED_PAGE.fullmatch(onward) and shared_with_last(settings, onward) else None
        case Paging.CURSOR | Paging.LINK | Paging.NEXT | Paging.LAST:
            onward = position if following is None else following
            return FIRST if onward == SHORTER else onward  # until then the list may have become shorter itself
        case Paging.NONE:
            return None


def begins_again(settings: ListSettings, part: Part) -> bool:
    """Whether a walk that was interrupted inside this part begins it again: there is no proof where it could go on."""
    is_unsorted = settings.order is Order.NONE and settings.paging in {Paging.OFFSET, Paging.PAGE}
    return part.each is not None or (is_unsorted and part != WHOLE)


class PageRead(NamedTuple):
    """A page as it came: its value, the entries in it, the headers, and the address it came from, without its secret."""

    value: object
    lines: Sequence[object]
    headers: Mapping[str, str]
    url: str
    secret_param: str = ""  # the query parameter that carries the secret


def next_position(settings: ListSettings, position: str, page: PageRead) -> str | None:
    """Where the list goes on after this page; None at its end. Raises `NoNextPage`."""
    is_again = position == SHORTER
    settings, position = _as_asked(settings, position)
    if not page.lines:
        _check_range(settings, position, page.headers)
    more = told_more(settings, page.value)
    if more is False:
        return _confirming(settings, position, page) if _may_be_cut(settings, position, len(page.lines)) else None
    following = _following(settings, position, page)
    if following is None and more is True:
        at, named = ("more", f'"{settings.more}" is true') if settings.more else ("end", f'"{settings.end}" is false')
        raise NoNextPage(f"{named}, but the page names no next page; check list.{at} and {next_setting(settings)}")
    ends_unsaid = following is None and position == FIRST and settings.more is None and settings.end is None
    if not ends_unsaid:
        return following
    doubt = early_end(settings, page.value, len(page.lines), page.headers, is_again=is_again)
    if doubt is None:
        return None
    if doubt.is_full and not is_again and _can_be_shorter(settings):
        return SHORTER
    raise NoNextPage(doubt.why)


def _check_range(settings: ListSettings, position: str, headers: Mapping[str, str]) -> None:
    """A page without entries is not the end if its range (`*/57`) counts entries behind those that were skipped."""
    counted = _RANGE_OF_NONE.search(headers.get("content-range", ""))
    skipped, shared = offset_place(position) if settings.paging is Paging.OFFSET else (0, 0)
    is_placed = settings.paging is Paging.OFFSET or position == FIRST
    if counted is not None and is_placed and skipped - shared < int(counted[1]):
        raise NoNextPage(f"a page shows no entries, but counts {int(counted[1]):,} of them; check list.paging")


def _may_be_cut(settings: ListSettings, position: str, listed: int) -> bool:
    """Whether so many entries may be what a page is cut to, and not the rest of the list: a full page, or a round number."""
    size = page_place(settings, position).size if settings.paging is Paging.PAGE else settings.page_size
    return listed >= size or (listed >= CUT_LEAST and listed % CUT_EVERY == 0)


def _confirming(settings: ListSettings, position: str, page: PageRead) -> str | None:
    """The page behind one that says it is the last, and may be cut: a field that always says so would hide the rest."""
    try:
        following = _following(settings, position, page)
    except NoNextPage:
        return None
    # Some providers refuse a number behind the last page. A page that overlaps always exists.
    is_counted = settings.paging in {Paging.OFFSET, Paging.PAGE}
    return None if following is None or (is_counted and not shared_with_last(settings, following)) else following


def missing_is_end(settings: ListSettings, following: str | None) -> bool:
    """Whether a missing next page is the end of the list: pages are numbered, and no entry is shown twice."""
    if following is None:
        return False
    return settings.paging in {Paging.PAGE, Paging.OFFSET} and not shared_with_last(settings, following)


def _following(settings: ListSettings, position: str, page: PageRead) -> str | None:
    match settings.paging:
        case Paging.OFFSET:
            return _next_offset(settings, position, page.value, len(page.lines))
        case Paging.PAGE:
            return next_page(settings, position, len(page.lines))
        case Paging.CURSOR:
            return next_cursor(settings, position, page.value, page.headers, is_empty=not page.lines)
        case Paging.LINK:
            link = page.headers.get("link", "")
            target = next((found[1] for found in _LINK.finditer(link) if _NEXT.search(found[2])), None)
            return _next_address(target, page, "the Link header")
        case Paging.NEXT:
            found = find(page.value, settings.next)
            if found is not NOT_THERE and found and not isinstance(found, str):
                raise NoNextPage(f'"{settings.next}" is no address; check list.next')
            return _next_address(found or None if isinstance(found, str) else None, page, f'"{settings.next}"')
        case Paging.LAST:
            return _last_key(settings, position, page.lines)
        case Paging.NONE:
            return None


def _last_key(settings: ListSettings, position: str, lines: Sequence[object]) -> str | None:
    if not lines:
        return None
    key = as_key(find(lines[-1], settings.key))
    if key is None or key == position:
        why = "has no key" if key is None else "is the one that the page was asked to begin after"
        raise NoNextPage(f"the last entry of a page {why}; check list.key and list.last_param")
    return key


class PagePlace(NamedTuple):
    """Which numbered page to ask for, how long it is, and how many of its entries were seen before."""

    number: int
    size: int
    shared: int = 0


def page_place(settings: ListSettings, position: str) -> PagePlace:
    """The page that a position means. A position that cannot be read means the first page."""
    overlapped = OVERLAPPED_PAGE.fullmatch(position)
    if overlapped is None:
        return PagePlace(_number(position, settings.first_page), settings.page_size)
    shared, number, size = (int(group) for group in overlapped.groups())
    return PagePlace(number, min(max(1, size), settings.page_size), shared)


def next_page(settings: ListSettings, position: str, listed: int) -> str | None:
    """The position after a numbered page. Pages overlap if the page size can be chosen and was obeyed.

    A page of another size begins at another entry: after 100 entries, page 2 of size 98 shows the last two of them again.
    """
    place = page_place(settings, position)
    if not listed:
        return None
    if listed > place.size and place.size < settings.page_size:
        raise NoNextPage(
            f"a page of {place.size} entries was asked for and {listed} came, so the provider ignores the page size; "
            'write size_param = "" if it cannot be chosen'
        )
    is_obeyed = bool(settings.size_param) and listed == place.size
    seen = (place.number - settings.first_page) * place.size + listed
    if not is_obeyed or (overlapping := _overlapping_page(seen, settings.page_size)) is None:
        # A page that is suddenly short is the last one; the page after it will be empty.
        return f"0:{place.number + 1}:{place.size}" if OVERLAPPED_PAGE.fullmatch(position) else str(place.number + 1)
    index, size = overlapping
    return f"{seen - index * size}:{index + settings.first_page}:{size}"


def _overlapping_page(seen: int, size_max: int) -> tuple[int, int] | None:
    """The page, counted from 0, and its size, that shows some of the entries seen again and the most new ones.

    It shows two of them again or, where no page of any size does that, one. No page does, where `seen` is a multiple of
    every size.
    """
    for overlap in range(PAGE_OVERLAP, 0, -1):
        pages = [((seen - overlap) // size, size) for size in range(size_max, 1, -1)]
        index, size = max(pages, key=lambda page: (page[0] + 1) * page[1], default=(0, 0))
        if (index + 1) * size > seen:
            return index, size
    return None


def _next_offset(settings: ListSettings, position: str, page: object, listed: int) -> str | None:
    skipped, shared = offset_place(position)
    offset = skipped - shared + listed
    total = find(page, settings.total) if settings.total is not None else None
    if not listed:
        return None
    # A list that shows more entries than its total does not end there. A total may also be the number of entries on this page,
    # or the most that the provider counts to.
    may_be_cut = _may_be_cut(settings, position, listed) if position == FIRST else offset % COUNTED_TO == 0
    if isinstance(total, int) and not isinstance(total, bool) and offset == total and not may_be_cut:
        return None
    if listed <= shared:
        return f"{offset}-0"  # nothing new: the list seems to end here, and an empty page will confirm it
    overlap = min(-(-listed // OVERLAP_EVERY) + 1, listed - 1)
    return f"{offset}-{overlap}" if overlap else str(offset)


def _next_address(target: str | None, page: PageRead, named_by: str) -> str | None:
    if target is None:
        return None
    following = within_origin(page.url, target)
    if following is None:
        raise NoNextPage(
            f"{named_by} leads to another host, port or scheme, where your token must not go; write the url of that host"
        )
    if page.secret_param:  # a position is stored, and a later request is signed with the secret of its own time
        following = without_parameter(following, page.secret_param)
    if f"{_origin(page.url)}{following}" == page.url:
        if not page.lines:
            return None  # some addresses are never missing: at the end they stay the same
        raise NoNextPage(f"{named_by} leads to this page again; check list.path")
    return following


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def offset_place(position: str) -> tuple[int, int]:
    """Entries to skip, and how many of them to see again."""
    overlapped = _OVERLAPPED.fullmatch(position)
    if overlapped is None:
        return _number(position, 0), 0
    offset = min(int(overlapped[1]), POSITION_MAX)
    return offset, min(int(overlapped[2]), offset)


def _number(position: str, first: int) -> int:
    """A numeric position. An unreadable one means the first page, which costs requests and loses nothing."""
    if not position.isascii() or not position.isdigit() or len(position) > 12:
        return first
    return min(int(position), POSITION_MAX)
