"""Does the code use the words of the glossary? Every name the glossary gives exists, and no retired word comes back."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs_reader import PACKAGE, SPAN, page
from tests.syntax import parsed

# One process reads the code once for all of them.
pytestmark = pytest.mark.xdist_group("glossary")

# Words that nobody would search for, and the word of the glossary that replaced each.
RETIRED = {
    "back_fill": "backfill",
    "beforehand": "startup_checks",
    "bunch": "burst",
    "catch_up": "backfill",
    "fleet": "shared",
    "teller": "pace_events",
    "was_young": "near_newest",
}


def test_every_name_in_the_glossary_exists_in_the_code() -> None:
    known = {name for path in sources() for name in names(path)} | set(places())
    assert not sorted(set(glossary_names()) - known)


def test_no_retired_word_is_a_name_in_the_code() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {name}: say {RETIRED[word]}"
        for path in sources()
        for name in names(path)
        for word in RETIRED
        if is_made_of(name, word)
    }
    assert not sorted(found)


def test_no_retired_word_is_the_name_of_a_file() -> None:
    assert not sorted(
        f"{path.relative_to(PACKAGE)}: say {RETIRED[word]}"
        for path in PACKAGE.rglob("*")
        for word in RETIRED
        if is_made_of(path.stem, word)
    )


@pytest.mark.parametrize("name", ["catch_up", "CATCH_UP", "CatchUp", "_catch_up_once", "plan_catch_up"])
def test_a_retired_word_is_noticed_in_every_spelling(name: str) -> None:
    assert is_made_of(name, "catch_up")


@pytest.mark.parametrize("name", ["catchup", "uncatch_upper", "match_up"])
def test_another_word_is_not_taken_for_a_retired_one(name: str) -> None:
    assert not is_made_of(name, "catch_up")


def glossary_names() -> Iterator[str]:
    """What is in backticks in the last column of the glossary's tables."""
    glossary = page("docs/glossary.md")
    assert glossary is not None, "docs/glossary.md is missing"
    rows = re.findall(r"^\|[^|]+\|[^|]+\|([^|]*)\|$", glossary.prose, re.MULTILINE)
    assert len(rows) > 20, "the glossary has lost its tables"
    for row in rows:
        yield from SPAN.findall(row)


def is_made_of(name: str, word: str) -> bool:
    """Whether a name, in any spelling, has the word as one or more whole parts."""
    return re.search(rf"(?:^|_){word}(?:_|$)", snake(name)) is not None


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def places() -> Iterator[str]:
    """Modules and packages, by their own name and by their path."""
    for path in PACKAGE.rglob("*"):
        if path.is_dir() or path.suffix == ".py":
            yield path.stem
            yield path.relative_to(PACKAGE).with_suffix("").as_posix()


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def names(path: Path) -> frozenset[str]:
    """Every name a module defines or uses: classes, functions, parameters, variables, attributes, keywords."""
    found: set[str] = set()
    for node in ast.walk(parsed(path.read_text(), str(path))):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.arg(arg=name) | ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name):
                found.add(name)
            case ast.keyword(arg=str(name)):
                found.add(name)
            case _:
                pass
    return frozenset(found)
