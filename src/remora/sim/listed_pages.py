"""How does the simulated archive show its list? In many forms: by offset, page, cursor, header, link, address or last key.

A query, or the JSON of a POST, names the form: the order, what changed `since` a moment, one window `from` and `until`,
and whether the entries are `whole`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from remora.sim.replies import NOT_FOUND, Answer, ok

PAGE_MAX: Final = 100
Query = Mapping[str, str]
Whole = Callable[[str], bytes | None]
_KEPT: Final = ("order", "since", "from", "until", "whole")  # what the address of a next page repeats
_OLDEST: Final = ("oldest", "oldest_created")
_CREATED: Final = ("created", "oldest_created")


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the list."""

    key: str
    mark: str  # of its last update
    title: str
    created: str = ""

    def sorted_by(self, order: str | None) -> str:
        """The mark that a list in this order is sorted by."""
        return self.created if order in _CREATED else self.mark


def in_order(listing: Sequence[Listed], query: Query) -> Sequence[Listed]:
    """The part of the list that the query wants, in its order. The listing itself is sorted by update, newest first."""
    order = query.get("order")
    since, from_, until = query.get("since"), query.get("from"), query.get("until")
    lines = listing
    if since is not None or from_ is not None:
        least, most = since or from_ or "", until or "9999"
        lines = [line for line in listing if least <= line.sorted_by(order) <= most]
    if order is None:
        return lines
    lines = sorted(lines, key=lambda line: line.key)
    # Equal marks are in the order of their keys in both directions, as the cursors need it.
    return sorted(lines, key=lambda line: line.sorted_by(order), reverse=order not in _OLDEST)


def page(path: str, query: Query, listing: Sequence[Listed], whole: Whole) -> Answer:
    """One page of the list. `whole`: the document of an entry; None where the query does not want it."""
    lines = in_order(listing, query)
    size = min(max(1, number(query.get("limit"), PAGE_MAX)), PAGE_MAX)
    match path:
        case "list":
            start = number(query.get("offset"), 0)
            more = start + size < len(lines)
            return _answer(lines[start : start + size], whole, {"total": len(lines), "has_more": more})
        case "pages":
            start = (max(1, number(query.get("page"), 1)) - 1) * size
            return _answer(lines[start : start + size], whole, {"has_more": start + size < len(lines)})
        case "last":
            return _after_key(lines, query.get("starting_after"), size, whole)
        case "cursor" | "header" | "links" | "next":
            shown, cursor = _after_cursor(lines, query, size)
            return _pointed(path, query, shown, cursor, size, whole)
        case _:
            return NOT_FOUND


def _pointed(path: str, query: Query, shown: Sequence[Listed], cursor: str | None, size: int, whole: Whole) -> Answer:
    """A page that says where the list goes on, in the manner of its path."""
    kept = "".join(f"&{name}={quote(query[name], safe='')}" for name in _KEPT if name in query)
    address = f"/archive/{path}?limit={size}&cursor={quote(cursor or '', safe='')}{kept}" if cursor else None
    match path:
        case "header":
            return _answer(shown, whole, {}, {"x-next-cursor": cursor or ""})
        case "links":
            return _answer(shown, whole, {}, {"link": f'<{address}>; rel="next"'} if address else {})
        case "next":
            return _answer(shown, whole, {"next": address})
        case _:
            return _answer(shown, whole, {"next_cursor": cursor})


def _after_cursor(lines: Sequence[Listed], query: Query, size: int) -> tuple[Sequence[Listed], str | None]:
    """Entries behind the cursor: a place between two entries that stays valid when entries come and go."""
    order, start = query.get("order"), 0
    if cursor := query.get("cursor"):
        mark, _space, key = cursor.partition(" ")
        start = sum(1 for line in lines if not _is_behind(line, order, mark, key))
    shown = lines[start : start + size]
    return shown, f"{shown[-1].sorted_by(order)} {shown[-1].key}" if start + size < len(lines) else None


def _is_behind(line: Listed, order: str | None, mark: str, key: str) -> bool:
    own = line.sorted_by(order)
    if own == mark:
        return line.key > key
    return own > mark if order in _OLDEST else own < mark


def _after_key(lines: Sequence[Listed], key: str | None, size: int, whole: Whole) -> Answer:
    """Entries after the one with this key. A key that is no longer listed leads nowhere."""
    start = 0
    if key:
        found = [at for at, line in enumerate(lines) if line.key == key]
        if not found:
            return NOT_FOUND
        start = found[0] + 1
    return _answer(lines[start : start + size], whole, {"has_more": start + size < len(lines)})


def _answer(
    lines: Sequence[Listed],
    whole: Whole,
    beside: Mapping[str, object],
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """A page. Whole documents are sent byte by byte as their details would be."""
    entries = b",".join(whole(line.key) or _line(line) for line in lines)
    fields = [b'"items":[' + entries + b"]", *(_json(name) + b":" + _json(value) for name, value in beside.items())]
    return Answer(200, b"{" + b",".join(fields) + b"}", dict(headers or {}))


def batch(bodies: Sequence[bytes]) -> Answer:
    """Several documents in one answer."""
    return ok(b'{"items":[' + b",".join(bodies) + b"]}")


def _line(line: Listed) -> bytes:
    return _json({"id": line.key, "title": line.title, "update_time": line.mark, "create_time": line.created})


def number(text: str | None, default: int) -> int:
    """A number of a query; the default if it is none."""
    return int(text) if text and text.isascii() and text.isdecimal() else default


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
