"""Which values does a search statement take? The same in every store; only the expression for the words differs."""

import re
import unicodedata
from typing import Final

from remora.contracts.search import SearchOrder, SearchQuery

# Words may match millions. The best of the newest that match are found, which takes as long in any mirror.
COMPARED_MAX: Final = 50_000
# Looking up one entry in the words takes as long as going through a hundred that have them.
FEW_MAX: Final = 5_000
# Accents and other marks over Latin, Greek and Cyrillic letters. Marks of other scripts tell letters apart.
_ACCENTS: Final = re.compile("[\u0300-\u036f]")
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")


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


def storable(text: str | None) -> str | None:
    """The text without NUL and lone surrogates: no database holds both, and a request may have either."""
    return None if text is None else text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


def words_of(text: str) -> str:
    """The words of a text with one space between them, in small letters without accents, in any locale of a database."""
    return _BETWEEN_WORDS.sub(" ", without_accents(text)).strip()


def without_accents(text: str) -> str:
    """The text in small letters without accents."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", text))).lower()
