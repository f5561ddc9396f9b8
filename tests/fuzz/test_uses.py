"""Is a mirror used in some worlds while it is collected, and do the other draws of those worlds stay as they were?"""

import msgspec

from remora.sim.fuzz.scenario import draw
from remora.sim.fuzz.uses import UNUSED
from remora.sim.fuzz.world import judge_world
from tools.prove import USED


def test_every_use_is_drawn_and_has_a_row_on_the_page() -> None:
    uses = [scenario.uses for seed in range(300) if (scenario := draw(seed)).store == "sqlite"]
    assert {word for one in uses for word in one.words()} == set(USED)
    assert {one.readers for one in uses} == {0, 1, 2, 3}
    assert {one.forgets_revisions for one in uses} == {True, False}
    assert UNUSED in uses
    assert all(draw(seed).uses == UNUSED for seed in range(300) if draw(seed).store == "memory")


def test_a_mirror_that_is_searched_followed_and_kept_small_is_collected_as_without() -> None:
    scenario = draw(13)
    assert set(scenario.uses.words()) == {"search", "readers", "retention"}
    used = judge_world(scenario)
    assert used.violations == []
    assert judge_world(msgspec.structs.replace(scenario, uses=UNUSED)).trace == used.trace
