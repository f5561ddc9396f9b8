"""Which page is before, which behind another one, and what is it called? Known only where pages are counted."""

from remora.sources.list_settings import ListSettings, Paging
from remora.sources.paging import FIRST, OVERLAPPED_PAGE, SHORTER, offset_place, page_place


def behind_page(settings: ListSettings, position: str) -> str | None:
    """The position after a page that cannot be read; it shows nothing again."""
    match settings.paging:
        case Paging.OFFSET:
            offset, shared = offset_place(position)
            return str(offset - shared + settings.page_size)
        case Paging.PAGE:
            place = page_place(settings, position)
            following = place.number + 1
            return f"0:{following}:{place.size}" if OVERLAPPED_PAGE.fullmatch(position) else str(following)
        case Paging.CURSOR | Paging.LINK | Paging.NEXT | Paging.LAST | Paging.NONE:
            return None


def page_before(settings: ListSettings, position: str) -> str | None:
    """The position one page before this one; None at the beginning. It shows nothing again."""
    match settings.paging:
        case Paging.OFFSET:
            offset, shared = offset_place(position)
            start = offset - shared
            if start <= 0:
                return None
            return FIRST if start <= settings.page_size else str(start - settings.page_size)
        case Paging.PAGE:
            place = page_place(settings, position)
            before = place.number - 1
            if before < settings.first_page:
                return None
            if before == settings.first_page and place.size == settings.page_size:
                return FIRST
            return f"0:{before}:{place.size}" if OVERLAPPED_PAGE.fullmatch(position) else str(before)
        case Paging.CURSOR | Paging.LINK | Paging.NEXT | Paging.LAST | Paging.NONE:
            return None


def page_in_words(settings: ListSettings, position: str) -> str:
    """Which page this is: its entries or its number where pages are counted."""
    match settings.paging:
        case Paging.OFFSET:
            offset, shared = offset_place(position)
            first = offset - shared
            return f"the page with entries {first + 1:,} to {first + settings.page_size:,}"
        case Paging.PAGE:
            place = page_place(settings, position)
            return f"page {place.number:,} of {place.size:,} entries each"
        case Paging.CURSOR | Paging.LINK | Paging.NEXT | Paging.LAST | Paging.NONE:
            return "the first page" if position in {FIRST, SHORTER} else "a later page"
