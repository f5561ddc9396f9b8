"""Does a world whose credential is replaced from time to time keep every promise?"""

import asyncio

import msgspec

from remora.core.units import SECOND_NS
from remora.sim.fuzz.credentials import Rotation, draw_rotation
from remora.sim.fuzz.judge import CANARY
from remora.sim.fuzz.scenario import draw
from remora.sim.fuzz.world import judge_world


def test_only_the_current_credential_is_accepted() -> None:
    moments = [9 * SECOND_NS]
    rotation = Rotation(CANARY, 10.0, lambda: moments[-1])
    first = asyncio.run(rotation.read()).secret.reveal()
    assert rotation.accepted({"Authorization": f"Bearer {first}"}) == {"authorization": f"Bearer {CANARY}"}
    moments.append(10 * SECOND_NS)
    assert rotation.accepted({"Authorization": f"Bearer {first}"}) is None
    assert rotation.accepted({"Authorization": f"Bearer {CANARY}"}) is None
    assert rotation.accepted(None) is None
    assert rotation.accepted({"authorization": f"Bearer {rotation.current()}"}) is not None
    assert not rotation.has_changed()


def test_some_worlds_replace_the_credential_of_their_list() -> None:
    drawn = [draw_rotation(seed) for seed in range(300)]
    assert {0.0, 2_400.0, 7_200.0, 30_000.0} == set(drawn)
    assert all(scenario.shape.paging for seed in range(60) if (scenario := draw(seed)).rotates_every_s)


def test_each_new_credential_costs_one_refusal_and_nothing_is_lost() -> None:
    quiet = msgspec.structs.replace(draw(1534), hours=2.0, every_s=1_800.0, incidents=())
    kept = judge_world(quiet)
    replaced = judge_world(msgspec.structs.replace(quiet, rotates_every_s=1_200.0))
    assert replaced.violations == kept.violations == []
    assert 2 <= replaced.faults - kept.faults <= 10
