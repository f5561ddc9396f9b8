"""How may the list of a listed source be declared? Every setting, checked where it enters."""

import re
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from remora.core.errors import ConfigurationError
from remora.core.item import Order
from remora.sources.address import check_path, holds_parameter
from remora.sources.json_path import check_place
from remora.sources.list_scope import SinceSettings, WindowSettings
from remora.sources.request_body import JsonTable, Method, check_body, holds

_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
PAGE_MARK: Final = "{page}"
# A text that may be empty, which says "there is none".
OrNone = Annotated[str, msgspec.Meta(min_length=0)]


class Paging(StrEnum):
    """How a list is cut into pages."""

    OFFSET = "offset"  # how many entries to skip
    CURSOR = "cursor"  # a mark in the body says where to go on
    PAGE = "page"  # pages are numbered
    LINK = "link"  # a Link header names the next page
    NEXT = "next"  # a field of the body holds the address of the next page
    LAST = "last"  # the key of a page's last entry leads to the next page
    NONE = "none"  # the list is one page


# What the body of a POST must hold, or every page would be the first one.
PLACEHOLDERS: Final = {
    Paging.OFFSET: "offset",
    Paging.PAGE: "page",
    Paging.CURSOR: "cursor",
    Paging.LAST: "last",
}


class ListSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the list of a listed source is walked. A place in the JSON is a path or an expression; "." is the body.

    Encoded, it holds what differs from the defaults: a hash of it stays the same when a later version has more settings.
    """

    path: str = "/list"
    paging: Paging = Paging.OFFSET
    page_size: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    entries: str = "items"
    key: str = "id"
    updated: OrNone = "update_time"  # empty: the list has no marks
    size_param: OrNone = "limit"  # empty: the page size cannot be chosen
    offset_param: str = "offset"
    page_param: str = "page"
    first_page: Annotated[int, msgspec.Meta(ge=0, le=1)] = 1
    cursor_param: OrNone = "cursor"  # empty: the cursor is an object, and each of its members is a parameter
    first_cursor: str | None = None  # what the first page is asked with, where the provider insists on a cursor
    next_cursor: str = "next_cursor"
    cursor_header: str | None = None  # the header that has the next cursor, if the body has none
    next: str = "next"  # where the body has the address of the next page (next)
    last_param: str = "starting_after"  # takes the last entry's key (last)
    total: str | None = None  # where the body says how many entries there are in all (offset)
    more: str | None = None  # where the body says whether there is a next page (offset, page, cursor)
    order: Order = Order.UPDATED
    created: str | None = None  # the mark that the list is sorted by, if it is not the update mark
    end: str | None = None  # where the body says with `true` that this was the last page
    since: SinceSettings | None = None
    window: WindowSettings | None = None
    method: Method = Method.GET
    body: JsonTable | None = None  # what a POST sends, with placeholders as "{cursor}"

    def __post_init__(self) -> None:
        check_path(self.path, "list.path")
        self._check_paging()

    def _check_paging(self) -> None:
        if PAGE_MARK in self.path and self.paging is not Paging.PAGE:
            raise ConfigurationError(
                f'list.path holds {PAGE_MARK}, but list.paging is "{self.paging}"', hint='write paging = "page"'
            )
        self._check_body()
        self._check_parts()
        for name in ("entries", "key", "updated", "created", "next_cursor", "next", "total", "more", "end"):
            check_place(getattr(self, name) or None, f"list.{name}")
        if self.cursor_header is not None and (
            self.paging is not Paging.CURSOR or not _HEADER.fullmatch(self.cursor_header)
        ):
            raise ConfigurationError(
                f'list.cursor_header is "{self.cursor_header}" and list.paging is "{self.paging}"',
                hint='write the name of one header, as cursor_header = "x-next-cursor", and paging = "cursor"',
            )
        self._check_cursor()
        if "[?" in self.entries and self.paging in {Paging.OFFSET, Paging.PAGE, Paging.LAST}:
            raise ConfigurationError(
                f'list.entries leaves entries out, but list.paging is "{self.paging}", which needs all of them',
                hint="write a path without a filter: a page of which nothing is left would end the list",
            )
        if self.created is not None and self.order is Order.UPDATED:
            raise ConfigurationError(
                'list.created is given, but list.order is "updated"',
                hint='write order = "created" if the list is sorted by it, or leave created out',
            )

    def _check_cursor(self) -> None:
        """Only a list with cursors has a first one, and each is sent in one place."""
        if self.first_cursor is not None and self.paging is not Paging.CURSOR:
            raise ConfigurationError(
                f'list.first_cursor is given, but list.paging is "{self.paging}"',
                hint='write paging = "cursor", or leave first_cursor out',
            )
        is_nameless = self.paging is Paging.CURSOR and self.body is None and not self.cursor_param
        if is_nameless and (self.first_cursor is not None or self.cursor_header is not None):
            other = "first_cursor" if self.cursor_header is None else "cursor_header"
            raise ConfigurationError(
                f'list.cursor_param is "", but list.{other} is given, which has no members',
                hint='write the name of its parameter, as cursor_param = "cursor"',
            )
        is_in_path = self.body is None and holds_parameter(self.path, self.cursor_param)
        if self.paging is Paging.CURSOR and is_in_path:
            raise ConfigurationError(
                f'list.path holds the parameter "{self.cursor_param}", which every later page would have twice',
                hint='leave it out of the path, and write its value as first_cursor = "*"',
            )

    def _check_body(self) -> None:
        """A body says itself where it wants the next page."""
        named = PLACEHOLDERS.get(self.paging, "size")
        check_body(self.method, self.body, "list", f'body = {{ limit = "{{size}}", {named} = "{{{named}}}" }}')
        is_in_path = self.paging is Paging.PAGE and PAGE_MARK in self.path
        if self.body is not None and self.paging in PLACEHOLDERS and not is_in_path and not holds(self.body, named):
            raise ConfigurationError(
                f'list.paging is "{self.paging}", but list.body has no "{{{named}}}"',
                hint=f'write "{{{named}}}" where it belongs, as body = {{ {named} = "{{{named}}}" }}',
            )

    def _check_parts(self) -> None:
        if self.since is None and self.window is None:
            return
        if self.since is not None and self.window is not None:
            raise ConfigurationError(
                "list has both since and window", hint="write since alone, unless the provider wants both ends"
            )
        if not self.mark_at:
            raise ConfigurationError(
                "list has since or window, but no marks",
                hint='write where an entry has its mark, as updated = "updated_at"',
            )
        if self.window is not None and self.order not in {Order.OLDEST, Order.NONE}:
            raise ConfigurationError(
                f'list.window is given, but list.order is "{self.order}", and windows are read from the oldest on',
                hint='write order = "oldest", or order = "none" if the entries of a window are not sorted by their mark',
            )

    @property
    def headers_read(self) -> tuple[str, ...]:
        """The headers of a page that say where the list goes on, besides `Link`."""
        return () if self.cursor_header is None else (self.cursor_header.lower(),)

    @property
    def mark_at(self) -> str:
        """Where the mark is that the list is sorted by; empty if the list has none."""
        return self.updated if self.created is None else self.created
