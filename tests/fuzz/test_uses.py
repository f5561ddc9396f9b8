"""Is a mirror used in some worlds while it is collected, and do the other draws of those worlds stay as they were?"""

import msgspec

from remora.sim.fuzz.scenario import draw
from remora.sim.fuzz.uses import UNUSED, Dump, Uses
from remora.sim.fuzz.world import judge_world
from tools.prove import USED


def test_every_use_is_drawn_and_has_a_row_on_the_page() -> None:
    uses = [scenario.uses for seed in range(300) if (scenario := draw(seed)).store == "sqlite"]
    assert {word for one in uses for word in one.words()} == set(USED)
    assert {one.readers for one in uses} == {0, 1, 2, 3}
    assert {one.forgets_revisions for one in uses} == {True, False}
    assert UNUSED in uses
    in_memory = [scenario.uses for seed in range(300) if (scenario := draw(seed)).store == "memory"]
    assert {word for one in in_memory for word in one.words()} == {"verify", "second source"}
    assert {dump.at_s > 0 for one in uses if (dump := one.dump) is not None} == {True, False}


def test_a_mirror_that_is_searched_followed_and_kept_small_is_collected_as_without() -> None:
    scenario = draw(29)
    assert {"search", "readers", "retention"} <= set(scenario.uses.words())
    used = judge_world(scenario)
    assert used.violations == []
    unused = msgspec.structs.replace(scenario, uses=Uses(verified=scenario.uses.verified))
    assert judge_world(unused).trace == used.trace


def test_a_damaged_dump_that_is_imported_in_the_middle_of_a_life_leaves_nothing_out() -> None:
    dump = Dump(at_s=200.0, age_s=600.0, share=0.7, damaged=0.5, is_shuffled=True)
    scenario = msgspec.structs.replace(draw(171), uses=Uses(dump=dump), incidents=())
    assert (scenario.shape.paging, scenario.store, scenario.backstop) == (None, "sqlite", True)
    assert judge_world(scenario).violations == []


def test_two_sources_of_one_account_are_both_served_within_its_ceiling() -> None:
    scenario = msgspec.structs.replace(draw(124), ceiling_per_s=10.0)
    assert scenario.uses.second
    assert judge_world(scenario).violations == []
