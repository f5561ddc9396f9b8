"""Which cursor is sent, and which one does a page name for the next page?

A cursor is a text or a number. Some providers name a list or an object instead, with several members: it is kept as JSON text
and goes back as it came.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from remora.sources.early_end import NoNextPage
from remora.sources.json_path import CURSOR_MAX_CHARACTERS, NOT_THERE, as_cursor, as_text, find, load
from remora.sources.list_settings import ListSettings

MEMBERS: Final = "remora:members:"  # begins the position of a cursor with several members
_JSON: Final = msgspec.json.Encoder(decimal_format="number")


def cursor_sent(settings: ListSettings, position: str) -> str | msgspec.Raw | None:
    """The cursor that the body of a request for this position sends; None: it sends none, as most first pages do."""
    if position.startswith(MEMBERS):
        return msgspec.Raw(position.removeprefix(MEMBERS).encode())
    return _as_text(settings, position)


def cursor_parameters(settings: ListSettings, position: str) -> list[tuple[str, str]]:
    """The parameters that the query of a request for this position sends: one, or one for each member."""
    if position.startswith(MEMBERS) and not settings.cursor_param:
        members = load(position.removeprefix(MEMBERS).encode())
        return [(name, as_text(value) or "") for name, value in members.items()] if isinstance(members, dict) else []
    cursor = _as_text(settings, position)
    return [] if cursor is None else [(settings.cursor_param, cursor)]


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
    cursor = _of_members(settings, value, where) if isinstance(value, dict | list) and value else as_cursor(value)
    if cursor is None:
        long = f"more than {CURSOR_MAX_CHARACTERS:,} characters, or some that cannot be printed"
        fault = f"holds {long}" if isinstance(value, str | list | dict) and value else "is no text and no number"
        raise NoNextPage(f"{where} {fault}; check {setting}")
    if settings.body is None and not settings.cursor_param and not isinstance(value, dict):
        raise NoNextPage(f'{where} has no members, but list.cursor_param is ""; write the name of its parameter')
    if cursor != _as_text(settings, position):
        return cursor
    if is_empty:
        return None  # some cursors are never null: they stay the same at the end
    raise NoNextPage(f"the cursor at {where} leads to this page again; check {setting} and list.cursor_param")


def _as_text(settings: ListSettings, position: str) -> str | None:
    """The cursor of a position, as it is kept."""
    return position or settings.first_cursor


def _of_members(settings: ListSettings, value: dict[str, object] | list[object], where: str) -> str | None:
    """The position for a cursor with several members; None if it cannot be kept. Raises `NoNextPage` if it cannot be sent."""
    if settings.body is None:
        _check_for_query(settings, value, where)
    try:
        text = _JSON.encode(value).decode()
        load(text.encode())
    except (ValueError, RecursionError):  # half of a character, or a number that JSON does not have
        return None
    return f"{MEMBERS}{text}" if len(text) <= CURSOR_MAX_CHARACTERS else None


def _check_for_query(settings: ListSettings, value: dict[str, object] | list[object], where: str) -> None:
    one = "name one of its members in list.next_cursor"
    if isinstance(value, list):
        raise NoNextPage(f"{where} is a list, which only the body of a POST can take back; {one}, or write list.body")
    if settings.cursor_param:
        raise NoNextPage(f'{where} has several members; write cursor_param = "" to send each by its own name, or {one}')
    if any(as_text(member) is None for member in value.values()):
        raise NoNextPage(f"a member of {where} is no text and no number, which a query cannot take; {one}")
