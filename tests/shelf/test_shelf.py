"""Does every declaration on the shelf mirror its API? Each is run against a fake of it, with faults and kills, to the end."""

import pytest

from remora.sources.shelf import shelf_entry, shelf_names
from remora.testing import World, mirror_declared
from tests.shelf.fakes import FAKES
from tools.shelf_page import PAGE, page

# A small world needs small pages; where the size cannot be chosen, the fake has small ones.
PAGE_SIZE = 5


def test_every_declaration_has_a_fake() -> None:
    assert sorted(FAKES) == list(shelf_names())


# Two with many manners in the quick tests; all of them in the whole suite.
QUICK = ("slack", "stripe-charges")
ALL = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in sorted(FAKES)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_declaration_mirrors_its_api_to_the_last_thing(name: str) -> None:
    fake = FAKES[name](World(things=30, events=40, moving_s=150), faults=0.04, others_every=7)
    mirrored = mirror_declared(shelf_entry(name).text, fake, page_size=PAGE_SIZE)
    assert mirrored.documents == fake.truth()
    assert mirrored.kills > 0
    assert mirrored.refusals > 0
    assert fake.denials == 0


def test_the_page_is_made_from_the_declarations() -> None:
    assert PAGE.read_text() == page(), "write it again: python -m tools.shelf_page"


@pytest.mark.parametrize("name", sorted(FAKES))
def test_a_declaration_says_what_was_tried_and_what_nobody_could_try(name: str) -> None:
    entry = shelf_entry(name)
    assert {"Fill in", "Tried", "Not tried"} <= entry.notes.keys()
    assert "real service" in entry.notes["Not tried"]
    assert entry.about
    assert all(len(line) <= 140 for line in entry.text.splitlines() if line.startswith("#"))
