"""What does a search find? Hits with title and snippet, read from the mirror; the index gives only their keys."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from remora.contracts.reader import MirroredDocument, MirroredItem, Reader, moment
from remora.contracts.search import IndexSize, SearchIndex, SearchOrder, SearchQuery
from remora.core.errors import ConfigurationError
from remora.core.words import pattern_of, without_accents
from remora.read.index_entries import text_of, title_of
from remora.read.indexing import load_progress
from remora.read.plain_text import one_line

SNIPPET_CHARACTERS: Final = 160
HITS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One thing that was found. In `snippet` the words that were looked for are between « and »."""

    source: str
    kind: str  # item or document
    key: str
    title: str
    snippet: str
    thing: MirroredItem | MirroredDocument


@dataclass(frozen=True, slots=True)
class IndexReport:
    """How large the index is, and how far behind the mirror."""

    size: IndexSize
    is_building: bool  # some sources were not read whole yet
    waits_since_ns: int | None  # when the oldest change that is not indexed was written; None: all are

    def words(self, *, now_ns: int) -> str:
        """The report in one line."""
        size = f"{self.size.entries:,} entries, {self.size.bytes / 1e6:,.1f} MB"
        if self.is_building:
            return f"{size}, still being built"
        if self.waits_since_ns is None:
            return f"{size}, up to date"
        return f"{size}, {max(0, now_ns - self.waits_since_ns) / 1e9:,.0f} s behind (since {moment(self.waits_since_ns):%Y-%m-%d %H:%M:%S})"


def no_index() -> ConfigurationError:
    """The mirror can be searched only after an index was built."""
    return ConfigurationError(
        "this mirror has no search index", hint="build it with `remora search --build`; `remora up` keeps it up to date"
    )


async def find(
    reader: Reader, index: SearchIndex, query: SearchQuery, *, source: str | None, order: SearchOrder, limit: int
) -> Sequence[SearchHit]:
    """The best hits. What is no longer in the mirror is left out."""
    if limit < 1:
        raise ConfigurationError(f"the limit of a search is {limit}", hint=f"write a number from 1 to {HITS_MAX:,}")
    keys = await index.find(query, source=source, order=order, limit=min(limit, HITS_MAX))
    return await hits_of(reader, keys, query)


async def hits_of(reader: Reader, keys: Sequence[tuple[str, str, str]], query: SearchQuery) -> Sequence[SearchHit]:
    """The hits that the index named, read from the mirror. What is no longer there is left out."""
    items: dict[tuple[str, str], MirroredItem] = {}
    for name in {name for name, kind, _ in keys if kind == "item"}:
        ids = [int(key) for found, kind, key in keys if found == name and kind == "item"]
        items.update(((name, str(item.id)), item) for item in await reader.items(name, ids))
    hits: list[SearchHit] = []
    for name, kind, key in keys:
        thing = items.get((name, key)) if kind == "item" else await reader.document(name, key)
        if thing is not None:
            hits.append(_hit(name, kind, key, thing, query))
    return hits


async def report(reader: Reader, index: SearchIndex) -> IndexReport:
    """How large the index is, and how far behind."""
    size = await index.size()  # first: it refuses an index of another form, whose progress says nothing
    is_building, waits_since_ns = await lag_of(reader, index)
    return IndexReport(size, is_building, waits_since_ns)


async def lag_of(reader: Reader, index: SearchIndex) -> tuple[bool, int | None]:
    """Whether the index is still being built, and since when the oldest change waits. Never counts the entries."""
    kept = await index.progress()
    if kept is None:
        return True, None
    progress = load_progress(kept)
    waiting = await reader.changes(progress.position, limit=1)
    return bool(progress.scans), waiting[0].changed_ns if waiting else None


def _hit(source: str, kind: str, key: str, thing: MirroredItem | MirroredDocument, query: SearchQuery) -> SearchHit:
    fields: Mapping[str, Any] = thing.fields
    return SearchHit(source, kind, key, one_line(title_of(fields)), snippet(text_of(fields), query), thing)


def snippet(text: str, query: SearchQuery) -> str:
    """The part of a text around the first word that was looked for, or its beginning."""
    line = unicodedata.normalize("NFC", one_line(text))
    pattern = _pattern(query)
    first = pattern.search(_as_found(line)) if pattern else None
    begin = _beginning(line, first.start()) if first else 0
    part = line[begin : begin + SNIPPET_CHARACTERS]
    if begin + SNIPPET_CHARACTERS < len(line):
        words = part.rpartition(" ")[0]
        part = (words if len(words) > SNIPPET_CHARACTERS // 2 else part) + "…"
    marked = _marked(part, pattern) if pattern else part
    return f"…{marked}" if begin else marked


def _beginning(line: str, found: int) -> int:
    """Where a snippet begins that shows what was found: before a word, if one begins shortly before it."""
    begin = max(0, found - SNIPPET_CHARACTERS // 3)
    return 0 if begin == 0 else line.find(" ", begin, found) + 1 or begin


def _pattern(query: SearchQuery) -> re.Pattern[str] | None:
    """The words that were looked for, whatever is between those of a phrase."""
    patterns = [pattern_of(one_line(term.text)) for term in query.terms if not term.is_excluded]
    phrases = [pattern for pattern in patterns if pattern is not None]
    return re.compile("|".join(phrases)) if phrases else None


def _as_found(line: str) -> str:
    """The line as the index holds its words, each character at its place."""
    if line.isascii():
        return line.lower()
    return "".join(bare if len(bare := without_accents(letter)) == 1 else letter for letter in line)


def _marked(part: str, pattern: re.Pattern[str]) -> str:
    done, marked = 0, ""
    for found in pattern.finditer(_as_found(part)):
        marked += f"{part[done : found.start()]}«{part[found.start() : found.end()]}»"
        done = found.end()
    return marked + part[done:]
