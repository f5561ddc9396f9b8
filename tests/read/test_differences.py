"""Is what changed between two contents told word by word, the most telling field first?"""

import json
import time

from hypothesis import given
from hypothesis import strategies as st

from remora.contracts.reader import Revision
from remora.read.as_text import history_text
from remora.read.differences import WORDS_MAX, Mark, changes_of, compare, field_changes


def revision(number: int, **fields: object) -> Revision:
    return Revision(number, json.dumps(fields).encode(), number, number)


def test_an_edit_is_told_word_by_word() -> None:
    told = [(piece.mark, piece.text) for piece in compare("a red fish", "a blue fish")]
    assert told == [
        (Mark.SAME, "a "),
        (Mark.REMOVED, "red"),
        (Mark.ADDED, "blue"),
        (Mark.SAME, " fish"),
    ]


@given(st.text(alphabet="ab \n", max_size=40), st.text(alphabet="ab \n", max_size=40))
def test_the_pieces_give_back_both_texts(before: str, after: str) -> None:
    pieces = compare(before, after)
    assert "".join(piece.text for piece in pieces if piece.mark is not Mark.ADDED) == before
    assert "".join(piece.text for piece in pieces if piece.mark is not Mark.REMOVED) == after


def test_a_long_text_is_shown_whole_before_and_after() -> None:
    assert len(compare("a " * WORDS_MAX, "b " * WORDS_MAX)) == 2


def numbered_words(word: str) -> str:
    """As long as a text that is still compared word by word may be."""
    return " ".join(f"{word}{number} and" for number in range(WORDS_MAX // 8))


def test_a_long_text_that_was_rewritten_is_compared_in_time() -> None:
    began_s = time.process_time()
    pieces = compare(numbered_words("red"), numbered_words("blue"))
    assert time.process_time() - began_s < 1.0
    assert [piece.mark for piece in pieces[:2]] == [Mark.REMOVED, Mark.ADDED]


def test_one_word_of_a_long_text_is_told_alone() -> None:
    text = numbered_words("red")
    told = [piece.text for piece in compare(text, text.replace("red99 ", "blue ")) if piece.mark is not Mark.SAME]
    assert told == ["red99", "blue"]


def test_a_deletion_upstream_is_named_and_its_text_is_kept() -> None:
    first, last = changes_of([revision(1, text="<i>kept</i> words", id=1), revision(2, deleted=True, id=1)])
    assert not first.is_deletion
    assert last.is_deletion
    assert [change.name for change in last.changes] == ["deleted", "text"]
    assert [(piece.mark, piece.text) for piece in last.changes[1].pieces] == [(Mark.REMOVED, "kept words")]


def test_a_time_is_also_told_as_a_date() -> None:
    (change,) = field_changes({}, {"time": 1_160_418_111})
    assert [piece.text for piece in change.pieces] == ["1160418111 (2006-10-09 18:21:51 UTC)"]
    for absurd in (-5, 10**30, "soon"):
        (change,) = field_changes({}, {"time": absurd})
        assert "UTC" not in change.pieces[0].text


def test_a_change_of_a_body_that_is_no_object_is_told() -> None:
    history = [Revision(1, b'["red", "fish"]', 1, 1), Revision(2, b'["blue", "fish"]', 2, 2), Revision(3, b"{}", 3, 3)]
    told = [{change.name: change.pieces for change in each.changes} for each in changes_of(history)]
    assert [piece.text for piece in told[1]["the whole body"] if piece.mark is not Mark.SAME] == ['["red",', '["blue",']
    assert [piece.mark for piece in told[2]["the whole body"]] == [Mark.REMOVED]
    assert '- the whole body: ["red", "fish"]' in history_text(history)
    assert '+ the whole body: ["blue", "fish"]' in history_text(history)
