"""What is the shortest world that still fails? Incidents, hours and processes are removed one by one."""

from collections.abc import Callable, Iterator

import msgspec

from remora.sim.fuzz.scenario import Scenario

Fails = Callable[[Scenario], bool]


def shrink(scenario: Scenario, fails: Fails, *, tries_max: int = 200) -> Scenario:
    """The smallest scenario found that still fails; `scenario` itself must fail."""
    tries = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(scenario):
            tries += 1
            if tries > tries_max:
                return scenario
            if fails(candidate):
                scenario, smaller = candidate, True
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    for index in range(len(scenario.incidents)):
        yield scenario.without(index)
    if scenario.processes > 1:
        yield msgspec.structs.replace(scenario, processes=1)
    if scenario.hours > 0.25:
        yield msgspec.structs.replace(scenario, hours=round(scenario.hours / 2, 3))
    if scenario.items > 20:
        yield msgspec.structs.replace(scenario, items=max(20, scenario.items // 2))
