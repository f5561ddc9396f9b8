"""Which values does a search statement take? The same in every store; only the expression for the words differs."""

from typing import Final

from remora.contracts.search import SearchOrder, SearchQuery

# Words alone may match millions. The best of the newest that match are found, which takes as long in any mirror.
RANKED_MAX: Final = 50_000


def is_ranked(query: SearchQuery, *, source: str | None, order: SearchOrder) -> bool:
    """Whether words alone decide, so that only the newest that match are ranked."""
    return query.has_words and not query.has_filters and source is None and order is SearchOrder.RELEVANCE


def search_values(
    query: SearchQuery, *, match: str | None, source: str | None, order: SearchOrder, limit: int
) -> dict[str, str | int | None]:
    """`match` is the words of the query, as the database's own search expression."""
    return {
        "match": match,
        "source": source,
        "by": query.by,
        "type": query.type,
        "domain": query.domain,
        "since": query.since_s,
        "until": query.until_s,
        "score": query.score_above,
        "order": order.value,
        "limit": limit,
        "ranked": RANKED_MAX,
    }
