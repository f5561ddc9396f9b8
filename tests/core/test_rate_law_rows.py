"""Does the law keep the ceiling with every provider it is held to, and are the models what their names say?"""

from random import Random

import pytest

from bench.controllers.ablate import RULES, without
from bench.controllers.hard_providers import BanOnRefusals, QuotaWindow, TwoLimits
from bench.controllers.ours import Remora
from bench.controllers.providers import Latency, TokenBucket
from bench.controllers.rows import ROWS
from bench.controllers.table import PEERS, attempt_case, cases, worst_minute
from bench.controllers.world import run
from remora.core.rate import constants
from remora.core.rate.law import Answer, cold_start
from remora.core.units import MINUTE_NS, SECOND_NS

SHORT_REQUESTS = 2_000


def latency() -> Latency:
    return Latency(SECOND_NS / 100, Random(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_no_provider_makes_the_law_cross_the_ceiling(name: str) -> None:
    row = ROWS[name]
    ceiling_ns = row.ceiling_interval_ns
    for in_flight in row.in_flight:
        ours = Remora(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0))
        until_ns = min(row.until_ns, SHORT_REQUESTS * ceiling_ns)
        provider = row.provider(in_flight, 1)
        trace = run(ours, provider, in_flight=in_flight, ceiling_interval_ns=ceiling_ns, until_ns=until_ns)
        assert trace.sent_at_ns
        assert trace.crossings == 0


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_every_peer_can_be_measured(peer: str) -> None:
    (case,) = cases(["ban, b=10, 0.2/s"], [peer], [1], in_flight=1)
    assert attempt_case(case).goodput >= 0.0


def test_five_refusals_within_a_minute_are_a_ban_for_an_hour_and_four_are_none() -> None:
    provider = BanOnRefusals(TokenBucket(0.01, 1, latency()))
    provider.reply(0)
    for at_s in (1, 2, 3, 4):
        assert provider.reply(at_s * SECOND_NS).answer is Answer.REFUSED
    assert provider.bans == 0
    provider.reply(5 * SECOND_NS)
    assert provider.bans == 1
    assert provider.reply(3_000 * SECOND_NS).answer is Answer.REFUSED, "a token is there, but the caller is banned"
    assert provider.reply(3_700 * SECOND_NS).answer is Answer.GOOD


def test_a_quota_says_what_is_left_and_when_it_is_full_again() -> None:
    provider = QuotaWindow(2, MINUTE_NS, latency(), phase_ns=10 * SECOND_NS, tells=True)
    told = [provider.reply(0).quota, provider.reply(0).quota, provider.reply(0).quota]
    assert [quota and quota.remaining for quota in told] == [1, 0, 0]
    assert all(quota and quota.reset_in_ns == 50 * SECOND_NS for quota in told)
    assert provider.reply(50 * SECOND_NS).answer is Answer.GOOD


def test_what_the_second_limit_refuses_costs_nothing_of_the_first() -> None:
    first = TokenBucket(1.0, 5, latency())
    provider = TwoLimits(first, QuotaWindow(1, MINUTE_NS, latency()))
    assert [provider.reply(0).answer for _ in range(3)] == [Answer.GOOD, Answer.REFUSED, Answer.REFUSED]
    assert first.tokens >= 4


def test_the_worst_minute_is_the_one_with_the_most_refusals() -> None:
    assert worst_minute([]) == 0
    assert worst_minute([second * SECOND_NS for second in (0, 30, 61, 62, 63, 200)]) == 4


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_of_the_ablation_is_switched_off_by_constants_of_the_law_and_then_back_on(rule: str) -> None:
    names = RULES[rule]
    before = {name: getattr(constants, name) for name in names}
    with without(rule):
        assert {name: getattr(constants, name) for name in names} == names != before
    assert {name: getattr(constants, name) for name in names} == before
