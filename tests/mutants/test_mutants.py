"""Does the fuzzer find what is wrong? A few planted bugs here; `make prove` plants all of them."""

import pytest

from remora.sim.fuzz.__main__ import fits
from remora.sim.fuzz.scenario import draw
from tests.mutants.runner import PACKAGE, catch, is_seen_by_its_test, planted
from tests.mutants.table import MUTANTS, Mutant

ROOMS = {
    "ledger",
    "gate",
    "law",
    "live",
    "rescan",
    "runs",
    "persistence",
    "sharing",
    "readout",
    "search",
    "feed",
    "verify",
    "import",
}
# The quickest to catch, from different rooms; together well under a minute of one core.
FEW = (
    "the cursor passes ids that are still under way",
    "absent ids are called settled",
    "the first of several new ids is skipped",
    "the token is written to the log",
)


def test_at_least_forty_bugs_are_planted_over_all_rooms() -> None:
    assert len(MUTANTS) >= 40
    assert {mutant.room for mutant in MUTANTS} == ROOMS
    assert len({mutant.breaks for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.slow  # it need not stop somebody who changes one of these lines before the change is whole
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_every_bug_can_be_planted_where_the_table_says(mutant: Mutant) -> None:
    for file, text in planted(mutant).items():
        if file.endswith(".py"):
            compile(text, file, "exec")  # or no world could run
        assert text != (PACKAGE / file).read_text()
    wanted = dict(pair.split("=") for pair in mutant.where)
    assert any(fits(draw(seed), wanted) for seed in range(300)), "no world is like that"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.breaks in FEW], ids=lambda mutant: mutant.breaks)
def test_a_planted_bug_is_caught(mutant: Mutant) -> None:
    assert catch(mutant) is not None, f"{mutant.breaks}: no world showed it"


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.guard], ids=lambda mutant: mutant.breaks)
def test_a_bug_that_no_world_can_show_is_seen_by_the_test_that_its_row_names(mutant: Mutant) -> None:
    assert is_seen_by_its_test(mutant)
