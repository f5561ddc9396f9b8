"""Which values does a search statement take? The same in every store; only the expression for the words differs."""

from collections.abc import Callable
from typing import Final

from remora.contracts.search import IndexEntry, SearchOrder, SearchQuery
from remora.core.errors import StoreError
from remora.core.texts import storable

# Words may match millions. The best of the newest that match are found, which takes as long in any mirror.
COMPARED_MAX: Final = 50_000
# Looking up one entry in the words takes as long as going through a hundred that have them.
FEW_MAX: Final = 5_000
# In pairs a text is three times as long, and PostgreSQL keeps at most 1 MB of words: 4 bytes for each of these characters.
TITLE_CHARACTERS_MAX: Final = 50_000
TEXT_CHARACTERS_MAX: Final = 200_000


def search_values(
    query: SearchQuery, *, match: str | None, source: str | None, order: SearchOrder, limit: int
) -> dict[str, str | int | None]:
    """`match` is the words of the query, as the database's own search expression."""
    return {
        "match": match,
        "source": storable(source),
        "by": storable(query.by),
        "type": storable(query.type),
        "domain": storable(query.domain),
        "since": query.since_s,
        "until": query.until_s,
        "score": query.score_above,
        "order": order.value,
        "limit": limit,
        # Without words the newest are looked up in an index, in their order.
        "compared": COMPARED_MAX if query.has_words or order is SearchOrder.SCORE else limit,
    }


def indexed(entry: IndexEntry, prepare: Callable[[str], str]) -> tuple[str, str]:
    """Title and text, prepared as the index takes them."""
    title, text = prepare(storable(entry.title or "")), prepare(storable(entry.text or ""))
    return title[:TITLE_CHARACTERS_MAX], text[:TEXT_CHARACTERS_MAX]


def of_another_form() -> StoreError:
    """What the index holds is not what this version asks for."""
    return StoreError(
        "the search index has the form of another version",
        hint="run `remora search --build` to build it again; `remora up` does so by itself",
    )
