"""Is a text found by its words and by every part of a run without spaces, in any script?"""

import re

from hypothesis import given
from hypothesis import strategies as st

from remora.core.words import pattern_of, searchable, wanted_words, without_accents, words_of

RUNS = st.text(alphabet="東京都大阪かなカナー々서울시", min_size=1, max_size=8)
TEXTS = st.text(alphabet="aB9é_ .,-’ßΣς東京都かカ서울「・\u3001\u0301\u1109\u1165\U00020000", max_size=30)
# What an index does with a text: its words are ASCII letters and digits, and all that is not ASCII.
TOKEN = re.compile(r"[A-Za-z0-9\x80-\U0010ffff]+")


def indexed(text: str) -> list[str]:
    return [token.lower() for token in TOKEN.findall(searchable(text))]


def is_found(wanted: str, text: str) -> bool:
    """Whether an index of this text has the wanted words in a row."""
    (words, is_beginning), held = wanted_words(wanted), indexed(text)
    for place in range(len(held) - len(words) + 1):
        *whole, last = held[place : place + len(words)]
        if whole == list(words[:-1]) and (last.startswith(words[-1]) if is_beginning else last == words[-1]):
            return True
    return False


def test_a_run_without_spaces_is_indexed_in_pairs_and_its_last_character_alone() -> None:
    assert words_of("東京都 in 日本、서울") == "東京 京都 都 in 日本 本 서울 울"
    assert words_of("iPhone用") == "iphone 用"
    assert words_of("カラー 時々 〇") == "カラ ラー ー 時々 々 〇"


@given(RUNS, RUNS)
def test_a_part_of_a_run_is_found_and_nothing_that_is_no_part_of_it(text: str, part: str) -> None:
    assert is_found(part, text) == (part in text)


@given(RUNS, st.data())
def test_every_part_of_a_run_is_found(text: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(begin + 1, len(text)))
    assert is_found(text[begin:end], f"a line with {text}, and more")


def test_pairs_that_are_apart_are_not_found_as_one_word() -> None:
    assert not is_found("東京都", "東京と京都")
    assert not is_found("東京 B", "東京都 B")
    assert is_found("京都 B", "東京都 B")


@given(TEXTS)
def test_both_ways_to_index_a_text_give_the_same_words(text: str) -> None:
    assert indexed(text) == words_of(text).split()


@given(TEXTS)
def test_the_words_of_words_are_the_same_words_unless_they_are_pairs(text: str) -> None:
    words = [word for word in words_of(text).split() if re.match("[a-z0-9\x80-\u03ff]", word)]
    assert [words_of(word) for word in words] == words


@given(st.text(alphabet=st.characters(max_codepoint=0x7F), max_size=50))
def test_a_text_in_ascii_is_indexed_as_it_is(text: str) -> None:
    assert searchable(text) is text


def test_letters_that_databases_fold_differently_are_folded_before() -> None:
    assert without_accents("ΟΔΟΣ οδός ſtraße Straße") == "οδοσ οδοσ straße straße"
    assert words_of("Ἀθῆναι, CAFÉ, cafe\u0301") == "αθηναι cafe cafe"


def test_signs_around_what_was_looked_for_need_not_be_in_the_line() -> None:
    for wanted in ("「東京」", "【東京", "東京・"):
        assert re.search(pattern_of(wanted) or "nothing", "今日は東京へ")
    assert pattern_of("「」") is None


@given(TEXTS, st.data())
def test_what_is_marked_in_a_line_is_what_was_looked_for(text: str, data: st.DataObject) -> None:
    part = data.draw(st.sampled_from(sorted({text, text[:3], text[-3:], text[5:9]})))
    pattern = pattern_of(part)
    assert (pattern is None) == (words_of(part) == "")
    if pattern is not None and is_found(part, text):
        assert re.search(pattern, without_accents(text))
