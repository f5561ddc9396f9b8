"""Which fields does a body have? Names and types for whoever writes a declaration, never a value."""

import re
from collections.abc import Sequence
from typing import Final

from remora.sources.json_path import as_key, fields_inside, find, load, place_to_write, why_unreadable

FIELDS_SHOWN_MAX: Final = 20
KEY_DEPTH_MAX: Final = 3
ENTRIES_DEPTH_MAX: Final = 4
# A name that looks like data (an id, an address) is not shown.
_NAME: Final = re.compile(r"[A-Za-z_@$][A-Za-z0-9_.@$-]{0,39}", re.ASCII)


def fields_in_words(body: bytes, path: str) -> str:
    """One phrase: what is at a place of a body, and the names of its fields."""
    try:
        value = find(load(body), path)
    except (ValueError, RecursionError) as error:
        return f"the body is {why_unreadable(body, error)}"
    match value:
        case dict():
            shown = [f"{name} ({_kind(inner)})" for name, inner in value.items() if _NAME.fullmatch(str(name))]
            return f"fields {', '.join(_few(shown))}" if shown else "an object without fields"
        case _:
            return _kind(value)


def place_of_key(body: bytes, key: str) -> str | None:
    """Where a document names its own key, as it is written in a declaration; None if it does not, or only deep inside."""
    try:
        document = load(body)
    except (ValueError, RecursionError):
        return None
    for names, value in fields_inside(document, depth_max=KEY_DEPTH_MAX):
        if as_key(value) == key and all(_NAME.fullmatch(name) for name in names):
            return place_to_write(*names)
    return None


def tells_an_error(body: bytes) -> bool:
    """Whether a body says at its top that something failed, as `{"ok": false}` or `{"error": …}`."""
    try:
        value = load(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict):
        return False
    return any(value.get(name) is False for name in ("ok", "success")) or any(map(value.get, ("error", "errors")))


def entries_elsewhere(page: object, declared: str) -> str | None:
    """Which other field of a page holds a list of objects, as entries would be; None if there is none, or an error.

    The outermost is the most likely one.
    """
    if not isinstance(page, dict) or any("error" in str(name).lower() for name in page):
        return None
    for names, value in fields_inside(page, depth_max=ENTRIES_DEPTH_MAX):
        is_list = isinstance(value, list) and value and isinstance(value[0], dict)
        if is_list and all(_NAME.fullmatch(name) and "error" not in name.lower() for name in names):
            write = f"write entries = {place_to_write(*names)} if that is it"
            return f'there are no entries at "{declared}", but a list at "{".".join(names)}"; {write}'
    return None


def _few(shown: Sequence[str]) -> Sequence[str]:
    more = len(shown) - FIELDS_SHOWN_MAX
    return [*shown[:FIELDS_SHOWN_MAX], f"and {more} more"] if more > 0 else shown


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "object"
        case list():
            return f"list of {len(value):,}"
        case str():
            return "text"
        case _:
            return "number" if isinstance(value, int) or hasattr(value, "is_finite") else "nothing"


def keys_in_words(keys: set[str]) -> str:
    """Of which kind and length the keys of entries are."""
    if not keys:
        return "(none)"
    lengths = sorted(len(key) for key in keys)
    kind = "whole numbers" if all(key.isascii() and key.isdigit() for key in keys) else "texts"
    span = str(lengths[0]) if lengths[0] == lengths[-1] else f"{lengths[0]} to {lengths[-1]}"
    return f"({kind} of {span} characters)"
