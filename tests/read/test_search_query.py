"""Is a query read as a person means it, and is every mistake told?"""

import pytest

from remora.contracts.search import SearchQuery, SearchTerm
from remora.core.errors import ConfigurationError
from remora.read.search_query import filter_text, parse_query


def words(*texts: str) -> tuple[SearchTerm, ...]:
    return tuple(SearchTerm(text) for text in texts)


@pytest.mark.parametrize(
    "text, query",
    [
        ("rate limit", SearchQuery(words("rate", "limit"))),
        ('"rate limit" gate', SearchQuery(words("rate limit", "gate"))),
        ("fish -shark", SearchQuery((SearchTerm("fish"), SearchTerm("shark", is_excluded=True)))),
        ('fish -"great white"', SearchQuery((SearchTerm("fish"), SearchTerm("great white", is_excluded=True)))),
        ("by:ada", SearchQuery(by="ada")),
        ('by:"Ada Lovelace" fish', SearchQuery(words("fish"), by="Ada Lovelace")),
        ('by:"ada" type:"long story"', SearchQuery(by="ada", type="long story")),
        ("type:story domain:www.Example.com x", SearchQuery(words("x"), type="story", domain="example.com")),
        ("score>100", SearchQuery(score_above=100)),
        ("score>=100", SearchQuery(score_above=99)),
        ("since:1970-01-02 until:1971", SearchQuery(since_s=86_400, until_s=31_536_000)),
        ("http://a.b/c", SearchQuery(words("http://a.b/c"))),
        ("note:this", SearchQuery(words("note:this"))),
        ("fish _ -__ tank_", SearchQuery(words("fish", "tank_"))),
        ('AND OR NOT NEAR( * ^ "', SearchQuery(words("AND", "OR", "NOT", "NEAR("))),
    ],
)
def test_a_query_is_words_and_filters(text: str, query: SearchQuery) -> None:
    assert parse_query(text) == query


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "no word"),
        ("???", "no word"),
        ("-shark", "only excludes"),
        ("by:ada -shark", "only excludes"),
        ("fish -by:ada", "excludes a filter"),
        ("fish -score>10", "excludes a filter"),
        ("by:", "has no value"),
        ('by:""', "has no value"),
        ('by:"Ada Lovelace', "no second quotation mark"),
        ('fish -by:"Ada Lovelace"', "excludes a filter"),
        ("score>many", "no whole number"),
        ("since:yesterday", "no date"),
        ("by:ada by:bob", "second filter"),
        ("w " * 33, "33 words"),
    ],
)
def test_a_mistake_says_what_to_write_instead(text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as refused:
        parse_query(text)
    assert refused.value.hint


@pytest.mark.parametrize("value", ["ada", "Ada Lovelace", 'a"b', "score>3 by:eve", "ада", "a\tb"])
def test_a_filter_is_written_so_that_it_is_read_again(value: str) -> None:
    text = filter_text("by", value)
    assert text is not None
    assert parse_query(text) == SearchQuery(by=value)


@pytest.mark.parametrize("value", ['Ada "Ace" Lovelace', '"ada', " "])
def test_what_no_query_can_ask_for_is_not_written(value: str) -> None:
    assert filter_text("by", value) is None
