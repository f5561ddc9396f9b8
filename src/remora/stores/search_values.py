"""Which values does a search statement take? The same in every store; only the expression for the words differs."""

from remora.contracts.search import SearchOrder, SearchQuery


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
    }
