"""Where is what in the reader? The address of every page, for templates and for the numbers of the status page.

Pages use them relative to their own place, so that a reverse proxy may serve the console below a path of its own.
"""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlencode

READER: Final = "/read"
SEARCH: Final = "/read/search"
# The number on the status page, and the view that lists what it counts; the same table is in reader_links.js.
COUNTED: Final = {
    "settled": "newest",
    "newest": "newest",
    "changed": "changes",
    "owed": "owed",
    "leased": "owed",
    "dead": "dead",
    "absent": "absent",
    "gone": "gone",
    "pending": "waiting",
    "announced": "waiting",
}


def to_root(raw_path: str) -> str:
    """The way from a page of this path up to the console's root."""
    return "../" * (raw_path.count("/") - 1)


class Relative:
    """The addresses of this module as seen from one page."""

    def __init__(self, root: str) -> None:
        self._root = root

    def below(self, path: str) -> str:
        """An address of the console, relative to the page."""
        return self._root + path.removeprefix("/") or "./"

    def __getattr__(self, name: str) -> Callable[..., str | None]:
        """A function of this module, with its result relative to the page."""
        found = globals()[name]

        def address(*parts: Any, **query: Any) -> str | None:
            path = found(*parts, **query)
            return None if path is None else self.below(path)

        return address


def view(source: str, name: str = "", **query: str | int | None) -> str:
    """A list of one source: `top`, `new`, `owed`, `changes` and so on; the front page without a name."""
    return _with(f"{READER}/{quote(source, safe='')}" + (f"/{name}" if name else ""), query)


def counted(source: str, number: str) -> str:
    """The page with what a number of the status page counts."""
    return view(source, COUNTED[number])


def start() -> str:
    """The list of sources."""
    return READER


def item(source: str, item_id: int | str) -> str:
    """One item with its thread."""
    return f"{view(source)}/item/{item_id}"


def item_history(source: str, item_id: int | str) -> str:
    """Everything an item ever was."""
    return f"{item(source, item_id)}/history"


def user(source: str, name: str, **query: str | int | None) -> str:
    """One author. The name may hold any character."""
    return _with(f"{view(source)}/user", {"name": name, **query})


def document(source: str, key: str) -> str:
    """One document. The key may hold any character."""
    return _with(f"{view(source)}/document", {"key": key})


def document_history(source: str, key: str) -> str:
    """Everything a document ever was."""
    return _with(f"{view(source)}/document/history", {"key": key})


def thing(source: str, kind: str, key: str) -> str | None:
    """The page of what a change, a hit or a gap names; None if there is none."""
    match kind:
        case "item":
            return item(source, quote(key, safe=""))
        case "user":
            return user(source, key)
        case "document":
            return document(source, key)
        case _:
            return None


def search(**query: str | int | None) -> str:
    """A search."""
    return _with(SEARCH, query)


def _with(path: str, query: dict[str, str | int | None]) -> str:
    kept = {name: str(value) for name, value in query.items() if value not in {None, ""}}
    return f"{path}?{urlencode(kept, errors='replace')}" if kept else path
