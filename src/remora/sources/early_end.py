"""Does a list really end here?

A list that ends with its first page may be short, or its declaration looks for the next page in the wrong place. A page
without entries may be the end, or it says itself that more follow.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from remora.sources.json_path import NOT_THERE, as_cursor, fields_inside, find, has_left_out, place_to_write
from remora.sources.list_settings import ListSettings, Paging
from remora.sources.request_body import holds

_FIELD: Final = re.compile(r"[A-Za-z_@][\w.@-]{0,39}", re.ASCII)
_LEADS_ON: Final = re.compile("next|cursor|continu", re.IGNORECASE)
_LEADS_BACK: Final = re.compile("prev|before|self|start(?!ing)", re.IGNORECASE)
_OF_ADDRESS: Final = re.compile("ur[li]|link|href", re.IGNORECASE)
# How deep another field is looked for, as `data.issues.pageInfo.endCursor`; down to the first of them any kind of it counts.
_ANY_KIND_DOWN_TO: Final = 2
_DEPTH_MAX: Final = 4


class NoNextPage(Exception):
    """The page does not say reliably where the list goes on. One sentence, and what to write."""


def next_setting(settings: ListSettings) -> str:
    """The setting that names the next page."""
    cursor = "list.next_cursor" if settings.cursor_header is None else "list.cursor_header"
    return {Paging.CURSOR: cursor, Paging.NEXT: "list.next"}.get(settings.paging, "list.paging")


def told_more(settings: ListSettings, page: object) -> bool | None:
    """Whether a field of the page says that more follow; None if none says it."""
    if settings.end is not None and isinstance(ended := find(page, settings.end), bool):
        return not ended
    more = find(page, settings.more) if settings.more is not None else None
    return more if isinstance(more, bool) else None


def goes_on(settings: ListSettings, page: object) -> bool:
    """Whether more follow a page without entries: a field says so, or a filter left out all that it shows."""
    return told_more(settings, page) is True or has_left_out(page, settings.entries)


class Doubt(NamedTuple):
    """Why a first page without a next one is doubtful, and what to write."""

    why: str
    is_full: bool = False  # the page is full, which may be by chance


def early_end(
    settings: ListSettings, page: object, listed: int, headers: Mapping[str, str], *, is_again: bool = False
) -> Doubt | None:
    """Whether a first page without a next one is doubtful; None if it is a short list.

    `is_again`: the same entries and one more were seen before.
    """
    if settings.paging is Paging.NONE:
        return _cut_only_page(settings, listed, is_again=is_again)
    cursor_at = settings.next_cursor if settings.cursor_header is None else ""
    at = {Paging.CURSOR: cursor_at, Paging.NEXT: settings.next, Paging.LINK: ""}.get(settings.paging)
    if settings.cursor_header is not None and settings.cursor_header.lower() in headers:
        return None  # an empty header in the right place is an end
    if at is None or (at and find(page, at) is not NOT_THERE):
        return None  # numbered pages end differently, and a null in the right place is an end
    where = f'at "{at}"' if at else f"in a {settings.cursor_header or 'Link'} header"
    if (other := _other_next(settings, page)) is not None:
        named = ".".join(other.names)
        told = f'the first page names no next page {where}, but has "{named}"'
        return Doubt(f"{told}; write {_to_write(settings, other)} if that is it")
    if listed < settings.page_size:
        return None
    check = f"check {next_setting(settings)}"
    if is_again and listed == settings.page_size:
        return Doubt(f"a page of {listed} entries names no next page {where}, but there are more; {check}")
    only = f"or write page_size = {max(1, listed - 1)} if the list has exactly {listed} entries"
    return Doubt(
        f"the first page is full ({listed} entries) and names no next page {where}; {check}, {only}",
        is_full=listed == settings.page_size,
    )


def _cut_only_page(settings: ListSettings, listed: int, *, is_again: bool) -> Doubt | None:
    """Whether the only page of a list holds as many entries as were asked for, so that there may be more."""
    is_chosen = bool(settings.size_param) if settings.body is None else holds(settings.body, "size")
    full = settings.page_size + int(is_again)
    if not is_chosen or full == 1 or listed != settings.page_size:
        return None
    return Doubt(
        f"the only page holds {full} entries, as many as were asked for, so there may be more; write how the list goes on "
        "(list.paging), or a list.page_size above the number of its entries",
        is_full=True,
    )


class _Other(NamedTuple):
    """A field beside the entries whose name suggests that it leads to the next page."""

    names: tuple[str, ...]
    is_address: bool


def _other_next(settings: ListSettings, page: object) -> _Other | None:
    """The first such field, the outermost ones first; one that is deep inside only if it is of the declared kind."""
    for names, value in fields_inside(page, depth_max=_DEPTH_MAX):
        if not _leads_on(names) or (text := as_cursor(value)) is None:
            continue
        other = _Other(names, _is_address(text, names[-1]))
        declared = Paging.NEXT if other.is_address else Paging.CURSOR
        if len(names) <= _ANY_KIND_DOWN_TO or settings.paging is declared:
            return other
    return None


def _leads_on(names: tuple[str, ...]) -> bool:
    """Whether the name of a field, or of the object that it is in, suggests that the list goes on there."""
    is_plain = all(_FIELD.fullmatch(name) for name in names)
    return is_plain and not _LEADS_BACK.match(names[-1]) and _LEADS_ON.search(".".join(names[-2:])) is not None


def _is_address(text: str, name: str) -> bool:
    is_path = text.startswith("/") and ("?" in text or _OF_ADDRESS.search(name) is not None)
    return is_path or text.startswith(("http://", "https://", "?"))


def _to_write(settings: ListSettings, other: _Other) -> str:
    """The settings with which the next page is found in this field."""
    paging, setting = (Paging.NEXT, "next") if other.is_address else (Paging.CURSOR, "next_cursor")
    written = f"{setting} = {place_to_write(*other.names)}"
    return written if settings.paging is paging else f'paging = "{paging}" and {written}'
