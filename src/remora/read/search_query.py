"""What did a person ask for? Words, "phrases", -excluded words and filters such as `by:ada` or `score>100`."""

import re
from typing import Final

from remora.contracts.search import SearchQuery, SearchTerm
from remora.core.errors import ConfigurationError
from remora.read.moments import parse_moment

FILTERS_HINT: Final = "filters are by:NAME, type:TYPE, domain:HOST, since:DATE, until:DATE and score>N"
TERMS_MAX: Final = 32
_WORD: Final = re.compile(r'(-?)(?:"([^"]*)"|((?:by|type|domain|since|until):"[^"]*"|\S+))')
_FILTER: Final = re.compile(r"(by|type|domain|since|until):(.*)")
# What no index holds as a word: a lone underscore would never be found.
_LETTER: Final = re.compile(r"[^\W_]")
_QUOTED: Final = re.compile(r'"([^"]*)"')
_SCORE: Final = re.compile(r"score(>=|>|:)(.*)")


def filter_text(name: str, value: str) -> str | None:
    """A filter as a query has it, between quotation marks where they are needed. None: no query can have this value."""
    if value and not re.search(r"\s", value) and not value.startswith('"'):
        return f"{name}:{value}"
    return f'{name}:"{value}"' if value.strip() and '"' not in value else None


def parse_query(text: str) -> SearchQuery:
    """The query that a text means. Every mistake says what to write instead."""
    terms: list[SearchTerm] = []
    filters: dict[str, str | int] = {}
    for found in _WORD.finditer(text):
        minus, phrase, word = found[1], found[2], found[3]
        if phrase is None and not minus and _take_filter(word, filters):
            continue
        words = word if phrase is None else phrase
        if phrase is None and minus and (_FILTER.match(word) or _SCORE.match(word)):
            raise ConfigurationError(f"-{word} excludes a filter", hint="a minus excludes words only, as -shark")
        if _LETTER.search(words):
            terms.append(SearchTerm(words, is_excluded=bool(minus)))
    if len(terms) > TERMS_MAX:
        raise ConfigurationError(f"the query has {len(terms)} words", hint=f"write at most {TERMS_MAX}")
    query = SearchQuery(tuple(terms), **filters)  # type: ignore[arg-type]
    if not query.has_words and terms:
        raise ConfigurationError("the query only excludes words", hint="add a word that must be there")
    if not query.has_words and not filters:
        raise ConfigurationError("the query has no word to look for", hint=f"write a word; {FILTERS_HINT}")
    return query


def _take_filter(word: str, filters: dict[str, str | int]) -> bool:
    """Whether the word is a filter; then it is kept."""
    if score := _SCORE.fullmatch(word):
        name, value = "score_above", _number(score[2], word) - (score[1] != ">")
        return _keep(filters, name, value, word)
    found = _FILTER.fullmatch(word)
    if found is None:
        return False
    name, text = found[1], found[2]
    if quoted := _QUOTED.fullmatch(text):
        text = quoted[1]
    elif text.startswith('"'):
        raise ConfigurationError(f"{word} has no second quotation mark", hint='write by:"Ada Lovelace"')
    if not text.strip():
        raise ConfigurationError(f"{word} has no value", hint=FILTERS_HINT)
    match name:
        case "since" | "until":
            return _keep(filters, f"{name}_s", parse_moment(text, where=word), word)
        case "domain":
            return _keep(filters, name, text.lower().removeprefix("www."), word)
        case _:
            return _keep(filters, name, text, word)


def _keep(filters: dict[str, str | int], name: str, value: str | int, word: str) -> bool:
    if name in filters:
        raise ConfigurationError(f"{word} is the second filter of its kind", hint="write each filter once")
    filters[name] = value
    return True


def _number(text: str, word: str) -> int:
    if re.fullmatch(r"-?\d{1,15}", text):
        return int(text)
    raise ConfigurationError(f"{word} has no whole number", hint="write score>100")
