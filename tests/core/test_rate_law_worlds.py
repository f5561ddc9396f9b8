"""Does the law do in a hidden-limit world what the docs say of it?"""

import pytest

from bench.controllers.measure import steady
from bench.controllers.ours import Remora
from bench.controllers.providers import Banning
from bench.controllers.scenarios import LEVEL_REQUESTS, MODELS, Scenario, stepping
from bench.controllers.trials import OTHERS, OURS, Trial, attempt
from bench.controllers.world import Trace, run
from remora.core.rate.law import cold_start

pytestmark = pytest.mark.slow

EASY = [
    "token bucket b=1",
    "token bucket b=10",
    "token bucket b=100",
    "token bucket b=10, Retry-After",
    "sliding window 100",
    "flaky 5xx 5 %",
]
TOKEN_BUCKETS = [model for model in MODELS if model.startswith("token bucket")]
EQUAL = 0.002  # of an oracle's goodput: a dozen requests of a trial


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


@pytest.mark.parametrize("model", TOKEN_BUCKETS)
def test_in_token_buckets_it_is_refused_five_times_less_often_than_the_usual_ways_at_equal_or_better_goodput(
    model: str,
) -> None:
    ours = attempt(Trial(OURS, model, limit_per_s=10.0, in_flight=1, seed=1)).measured
    for other in OTHERS:
        theirs = attempt(Trial(other, model, limit_per_s=10.0, in_flight=1, seed=1)).measured
        assert 5 * ours.refused_share <= theirs.refused_share, other
        assert ours.goodput_share >= theirs.goodput_share - EQUAL, other


@pytest.mark.parametrize("model", ["capacity steps x2", "capacity steps x5"])
def test_a_limit_that_falls_and_rises_again_is_followed(model: str) -> None:
    followed = attempt(Trial(OURS, model, limit_per_s=10.0, in_flight=8, seed=1))
    assert followed.measured.goodput_share >= 0.85
    assert followed.seconds_after_rise is not None
    assert followed.seconds_after_rise <= (120 if model.endswith("x5") else 60)


def test_a_limit_that_rises_by_no_more_than_a_burst_carries_is_found_as_well() -> None:
    scenario = Scenario("capacity steps x1.3", 10.0, 1, stepping(1.3), requests=4 * LEVEL_REQUESTS)
    provider = scenario.provider(seed=1)
    ceiling_ns = scenario.ceiling_interval_ns
    ours = Remora(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0))
    trace = run(ours, provider, in_flight=1, ceiling_interval_ns=ceiling_ns, until_ns=scenario.until_ns)
    assert steady(trace, provider, since_ns=scenario.settled_ns).goodput_share >= 0.97
