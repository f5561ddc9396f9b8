"""What of an item or a document is searched? Its title, all its other text, and the columns that filters ask for."""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from remora.contracts.reader import MirroredDocument, MirroredItem
from remora.contracts.search import IndexEntry
from remora.core.units import SECOND_NS
from remora.read.plain_text import plain

# The beginning of a longer text is searched, the rest is not: one giant must not stop the index.
TEXT_MAX: Final = 100_000
# Columns of their own, or no text at all.
_NOT_TEXT: Final = frozenset({"by", "id", "kids", "parts", "title", "type", "url"})


def item_entry(item: MirroredItem) -> IndexEntry:
    """The entry of a numbered item."""
    fields = item.fields
    return IndexEntry(
        source=item.source,
        kind="item",
        key=str(item.id),
        title=title_of(fields),
        text=text_of(fields),
        type=item.type,
        by=item.by,
        domain=domain_of(item.url),
        time_s=item.time,
        score=item.score,
    )


def document_entry(document: MirroredDocument) -> IndexEntry:
    """The entry of a document of a listed source. Its time is when it changed: a later read adds no line to the feed."""
    fields = document.fields
    url = fields.get("url")
    seen_ns = document.fetched_ns if document.changed_ns is None else document.changed_ns
    return IndexEntry(
        source=document.source,
        kind="document",
        key=document.key,
        title=title_of(fields),
        text=text_of(fields),
        domain=domain_of(url if isinstance(url, str) else None),
        time_s=None if seen_ns is None else seen_ns // SECOND_NS,
    )


def title_of(fields: Mapping[str, Any]) -> str:
    """The title as plain text."""
    title = fields.get("title")
    return plain(title)[:TEXT_MAX] if isinstance(title, str) else ""


def text_of(fields: Mapping[str, Any]) -> str:
    """Every text in a body, at any depth, as plain text."""
    found, size = list[str](), 0
    for text in _texts({name: value for name, value in fields.items() if name not in _NOT_TEXT}):
        found.append(plain(text[: TEXT_MAX - size]))
        size += len(text)
        if size >= TEXT_MAX:
            break
    return "\n".join(found)


def domain_of(url: str | None) -> str | None:
    """The host of an address, without `www.`."""
    try:
        host = urlsplit(url).hostname if url else None
    except ValueError:
        return None
    return host.removeprefix("www.") if host else None


def _texts(value: object) -> Iterator[str]:
    """Without recursion: a body may be deeper than Python's stack."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as fields:
                waiting.extend(reversed(fields.values()))
            case list() as parts:
                waiting.extend(reversed(parts))
            case _:
                pass
