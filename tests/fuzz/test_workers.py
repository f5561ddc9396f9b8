"""Does a hung world end? Its worker is killed, its seed is reported, and the next seed is tried."""

import os
import signal
from contextlib import suppress

import pytest

from remora.sim.fuzz.__main__ import tell
from remora.sim.fuzz.scenario import Scenario, draw
from remora.sim.fuzz.workers import Bounds, Workers
from remora.sim.fuzz.world import Spins, Verdict, at_most

HUNG, NEXT = 1, 2


def well(scenario: Scenario) -> Verdict:
    return Verdict(scenario, trace="well")


def spins_and_swallows_every_interrupt(scenario: Scenario) -> Verdict:
    while scenario.seed == HUNG:
        try:
            with at_most(0.05):
                while True:
                    pass
        except Spins:
            pass
    return well(scenario)


def waits_for_ever(scenario: Scenario) -> Verdict:
    if scenario.seed == HUNG:
        signal.pause()
    return well(scenario)


def dies(scenario: Scenario) -> Verdict:
    if scenario.seed == HUNG:
        os._exit(7)
    return well(scenario)


@pytest.mark.parametrize(
    "judge, told",
    [
        (spins_and_swallows_every_interrupt, "could not be interrupted in test_workers.py:"),
        (waits_for_ever, "the world did nothing for 1 s in test_workers.py:"),
        (dies, "the process of this world ended with 7"),
    ],
)
def test_a_hung_world_is_a_violated_seed_and_the_next_seed_is_tried(judge: object, told: str) -> None:
    workers = Workers(1, judge=judge, bounds=Bounds(processor_s=0.3, standstill_s=1.0))  # type: ignore[arg-type]
    try:
        hung, after = workers.verdicts(iter([HUNG, NEXT]))
    finally:
        workers.close()
    assert (hung.scenario.seed, after.scenario.seed) == (HUNG, NEXT)
    assert told in hung.violations[0]


def spin_on_after_the_first_interrupt() -> None:
    with at_most(0.05):
        with suppress(Spins):
            while True:
                pass
        while True:
            pass


def test_a_world_that_swallows_its_interrupt_is_interrupted_again() -> None:
    with pytest.raises(Spins):
        spin_on_after_the_first_interrupt()


def test_a_violated_world_prints_the_command_that_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    tell(Verdict(draw(7), ["the world did nothing for 120 s"]))
    assert "replay: python -m remora.sim.fuzz --seed 7 " in capsys.readouterr().out
