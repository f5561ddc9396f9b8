"""Is a world's "too many" what the product understands, in every dialect?"""

import msgspec
import pytest

from remora.core.translation import Means, Translation
from remora.core.units import SECOND_NS
from remora.core.verdict import Reply
from remora.sim.fuzz.dialects import Dialect, draw_dialect, rules_of, said_in
from remora.sim.fuzz.scenario import draw
from remora.sim.fuzz.world import judge_world
from remora.sim.limits import Limit
from remora.sim.replies import NOT_FOUND, Answer, Reset, rate_limited
from remora.sources.dialects import Dialects

SPOKEN = [dialect for dialect in Dialect if dialect is not Dialect.STATUS]


def understood(dialect: Dialect, wait_ns: int | None) -> Translation:
    said = said_in(dialect, rate_limited(wait_ns))
    assert isinstance(said, Answer)
    assert said.status != 429
    return Dialects(rules_of(dialect)).translate(Reply(said.status, said.body, 1, 2, said.headers), now_wall_ns=0)


@pytest.mark.parametrize("dialect", SPOKEN)
def test_a_refusal_in_a_dialect_is_understood_with_its_wait(dialect: Dialect) -> None:
    told = understood(dialect, 90 * SECOND_NS)
    assert (told.means, told.wait_ns) == (Means.PRESSURE, 90 * SECOND_NS)
    assert understood(dialect, None) == Translation(Means.PRESSURE, None)


def test_every_other_answer_is_said_as_it_is() -> None:
    for dialect in Dialect:
        assert said_in(dialect, NOT_FOUND) is NOT_FOUND
        assert said_in(dialect, Reset()) == Reset()
    assert said_in(Dialect.STATUS, rate_limited(None)) == rate_limited(None)


def test_every_dialect_is_drawn_and_most_worlds_say_it_with_a_status() -> None:
    drawn = [draw_dialect(seed) for seed in range(300)]
    assert set(drawn) == set(Dialect)
    assert 0.6 < drawn.count(Dialect.STATUS) / len(drawn) < 0.9


@pytest.mark.parametrize("dialect", [Dialect.OWN, Dialect.STACK])
def test_a_world_that_refuses_in_a_dialect_keeps_every_promise(dialect: Dialect) -> None:
    tight = Limit(kind="fixed_window", window_s=60, count=4, retry_after=True)
    scenario = msgspec.structs.replace(draw(1534), limit=tight, hours=2.0, incidents=(), dialect=dialect)
    verdict = judge_world(scenario)
    assert verdict.violations == []
    assert verdict.faults > 0, "nothing was refused"
