"""Which cursor is sent, and which one does a page name for the next page?"""

from collections.abc import Mapping

from remora.sources.early_end import NoNextPage
from remora.sources.json_path import CURSOR_MAX_CHARACTERS, NOT_THERE, as_cursor, find
from remora.sources.list_settings import ListSettings


def cursor_sent(settings: ListSettings, position: str) -> str | None:
    """The cursor that a request for this position sends; None: it sends none, as most first pages do."""
    return position or settings.first_cursor


def next_cursor(
    settings: ListSettings, position: str, page: object, headers: Mapping[str, str], *, is_empty: bool
) -> str | None:
    """The position of the page that the cursor in a page leads to; None at the end of the list. Raises `NoNextPage`."""
    header = settings.cursor_header
    if header is None:
        value, where, setting = find(page, settings.next_cursor), f'"{settings.next_cursor}"', "list.next_cursor"
    else:
        value, where, setting = headers.get(header.lower(), NOT_THERE), f"the header {header}", "list.cursor_header"
    if value is NOT_THERE or value is None or value is False or value == "":
        return None
    cursor = as_cursor(value)
    if cursor is None:
        long = f"more than {CURSOR_MAX_CHARACTERS:,} characters, or some that cannot be printed"
        fault = f"holds {long}" if isinstance(value, str) else "is no text and no number"
        raise NoNextPage(f"{where} {fault}; check {setting}")
    if cursor != cursor_sent(settings, position):
        return cursor
    if is_empty:
        return None  # some cursors are never null: they stay the same at the end
    raise NoNextPage(f"the cursor at {where} leads to this page again; check {setting} and list.cursor_param")
