"""Does every key come back as it went in, and does every statement say what it is for?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.stores.postgres.statements import MIGRATIONS, SQL, parse
from remora.stores.postgres.values import dump_key, load_key
from remora.stores.rows import dump_json, load_json

any_text = st.text(st.characters(exclude_categories=[]))


@given(any_text)
def test_every_key_survives_and_is_text_that_postgresql_accepts(key: str) -> None:
    dumped = dump_key(key)
    assert load_key(dumped) == key
    assert "\0" not in dumped
    assert "\n" not in dumped
    assert dumped.encode("utf-8").decode("utf-8") == dumped


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\\")))
def test_an_ordinary_key_is_kept_as_it_is(key: str) -> None:
    assert dump_key(key) == key


@given(any_text, any_text)
def test_two_keys_never_become_one(one: str, other: str) -> None:
    assert (dump_key(one) == dump_key(other)) == (one == other)


@given(any_text)
def test_json_is_plain_ascii_and_comes_back(text: str) -> None:
    assert dump_json({"text": text}).isascii()
    assert load_json(dump_json({"text": text})) == {"text": text}


def test_damaged_json_comes_back_as_the_text_it_is() -> None:
    assert load_json("{broken") == "{broken"
    assert load_json(None) is None


def test_a_statement_without_an_explanation_or_with_a_taken_name_is_refused() -> None:
    with pytest.raises(AssertionError, match="what it is for"):
        parse("-- name: one\nSELECT 1;\n")
    with pytest.raises(AssertionError, match="two statements"):
        parse("-- name: one\n-- A.\nSELECT 1;\n\n-- name: one\n-- B.\nSELECT 2;\n")


def test_the_statements_and_migrations_are_there() -> None:
    assert b"UPDATE segments" in SQL["claim"]
    assert [step.number for step in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))
