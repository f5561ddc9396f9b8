"""Does the law do in a hidden-limit world what the docs say of it?"""

import pytest

from bench.controllers.measure import steady
from bench.controllers.ours import Remora
from bench.controllers.providers import Banning
from bench.controllers.scenarios import MODELS, Scenario
from bench.controllers.world import Trace, run
from remora.core.rate_law import cold_start

pytestmark = pytest.mark.slow

EASY = [
    "token bucket b=1",
    "token bucket b=10",
    "token bucket b=100",
    "token bucket b=10, Retry-After",
    "sliding window 100",
    "flaky 5xx 5 %",
]


def meet(model: str, *, limit_per_s: float = 10.0, requests: int = 6_000, in_flight: int = 1) -> tuple[Scenario, Trace]:
    scenario = Scenario(model, limit_per_s, in_flight, MODELS[model], requests=requests)
    ours = Remora(cold_start(ceiling_interval_ns=scenario.ceiling_interval_ns, now_ns=0))
    provider = scenario.provider(seed=1)
    ceiling_ns = scenario.ceiling_interval_ns
    trace = run(ours, provider, in_flight=in_flight, ceiling_interval_ns=ceiling_ns, until_ns=scenario.until_ns)
    assert not (isinstance(provider, Banning) and provider.banned)
    return scenario, trace


@pytest.mark.parametrize("model", EASY)
def test_it_comes_within_five_per_cent_of_an_oracle_and_is_refused_less_than_once_in_200(model: str) -> None:
    scenario, trace = meet(model)
    measured = steady(trace, scenario.provider(seed=1), since_ns=scenario.settled_ns)
    assert measured.goodput_share >= 0.95
    assert measured.refused_share <= 0.005


@pytest.mark.parametrize("model", MODELS)
def test_no_world_makes_it_cross_the_ceiling(model: str) -> None:
    _, trace = meet(model, requests=1_000, in_flight=8)
    assert trace.sent_at_ns
    assert trace.crossings == 0


@pytest.mark.parametrize("model", ["penalty doubles, forgiven", "penalty doubles, never forgiven"])
def test_a_penalty_that_doubles_with_each_refusal_leaves_more_than_half(model: str) -> None:
    scenario, trace = meet(model)
    assert steady(trace, scenario.provider(seed=1), since_ns=scenario.settled_ns).goodput_share >= 0.5
