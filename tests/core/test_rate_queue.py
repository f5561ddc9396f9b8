"""Is a queue of our own drained, and everything else that makes answers slow left alone?"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest

from bench.controllers.ours import Remora
from bench.controllers.providers import Reply
from bench.controllers.world import Trace, run
from remora.core.rate.law import Answer, Answered, after, cold_start
from remora.core.rate.pace import Pace
from remora.core.units import MILLISECOND_NS, SECOND_NS

CEILING_PER_S = 20


def slow_answers(pace: Pace, count: int, latency_ns: int, *, pace_bound: bool = True) -> Pace:
    """So many answers that took this long, one after the other as they left."""
    left_ns = max(pace.answered_at_ns, pace.last_cut_at_ns) + SECOND_NS
    for _ in range(count):
        left_ns += pace.interval_ns
        pace = after(pace, Answered(Answer.GOOD, left_ns, left_ns + latency_ns, pace_bound=pace_bound))
    return pace


def used_to(latency_ns: int) -> Pace:
    cold = cold_start(ceiling_interval_ns=MILLISECOND_NS, now_ns=0)
    resting = replace(cold, rate_per_s=9.0, octave_per_s=9.0, edges_per_s=(10.0,), clean=500, chain_ns=0.0)
    return slow_answers(resting, 20, latency_ns)


def test_a_queue_that_the_pace_holds_up_is_drained() -> None:
    pace = slow_answers(used_to(200 * MILLISECOND_NS), 20, 2 * SECOND_NS)
    assert pace.rate_per_s < 6.0
    assert pace.edges_per_s[0] <= 10.0


def test_a_provider_that_has_become_slower_is_not_taken_for_a_queue_for_ever() -> None:
    pace = slow_answers(used_to(200 * MILLISECOND_NS), 2_000, 2 * SECOND_NS)
    assert pace.rate_per_s >= 9.0


def test_a_few_slow_answers_in_a_row_cut_nothing() -> None:
    before = used_to(200 * MILLISECOND_NS)
    assert slow_answers(before, 12, 2 * SECOND_NS).rate_per_s >= before.rate_per_s


def test_answers_that_take_a_little_longer_cut_nothing() -> None:
    before = used_to(20 * MILLISECOND_NS)
    assert slow_answers(before, 40, 90 * MILLISECOND_NS).rate_per_s >= before.rate_per_s


def test_a_delay_that_is_not_the_paces_doing_cuts_nothing() -> None:
    before = used_to(200 * MILLISECOND_NS)
    assert slow_answers(before, 40, 2 * SECOND_NS, pace_bound=False).rate_per_s >= before.rate_per_s


def test_idleness_before_a_queue_does_not_make_the_provider_look_slow() -> None:
    idle = used_to(200 * MILLISECOND_NS)
    idle = replace(idle, answered_at_ns=idle.answered_at_ns - 3_600 * SECOND_NS)
    assert slow_answers(idle, 16, 2 * SECOND_NS).rate_per_s >= 1.0


@dataclass
class Unlimited:
    """A provider that takes all that is sent, and whose answers take as long as they take."""

    latency_ms: Callable[[Random, float], float]
    chance: Random

    def reply(self, at_ns: int) -> Reply:
        latency_ms = self.latency_ms(self.chance, at_ns / SECOND_NS)
        return Reply(Answer.GOOD, max(1, int(latency_ms * MILLISECOND_NS)))

    def capacity_per_s(self, at_ns: int) -> float:
        return CEILING_PER_S


def share_of_ceiling(latency_ms: Callable[[Random, float], float], *, in_flight: int, seed: int = 1) -> float:
    """How much of the ceiling is used in the last five of ten minutes."""
    until_ns, half_ns = 600 * SECOND_NS, 300 * SECOND_NS
    trace = met(Unlimited(latency_ms, Random(seed)), in_flight=in_flight, until_ns=until_ns)
    return sum(at_ns > half_ns for at_ns in trace.good_at_ns) / (CEILING_PER_S * half_ns / SECOND_NS)


def met(provider: Unlimited, *, in_flight: int, until_ns: int) -> Trace:
    ceiling_ns = SECOND_NS // CEILING_PER_S
    ours = Remora(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0))
    return run(ours, provider, in_flight=in_flight, ceiling_interval_ns=ceiling_ns, until_ns=until_ns)


VARIED: dict[str, Callable[[Random, float], float]] = {
    "now and then a long one": lambda chance, _: 20 + chance.expovariate(1 / 300),
    "one in five not from the cache": lambda chance, _: 800 if chance.random() < 0.2 else 30,
    "half of them not from the cache": lambda chance, _: 800 if chance.random() < 0.5 else 30,
    "a long tail": lambda chance, _: 150 * chance.lognormvariate(0, 1),
    "a little uneven": lambda chance, _: 50 + chance.gammavariate(4, 50),
}


@pytest.mark.parametrize("latency_ms", VARIED.values(), ids=VARIED)
@pytest.mark.slow
def test_answers_that_differ_much_are_not_taken_for_a_queue(latency_ms: Callable[[Random, float], float]) -> None:
    assert share_of_ceiling(latency_ms, in_flight=32) > 0.97


@pytest.mark.slow
def test_a_provider_whose_latency_doubles_for_good_is_soon_used_as_before() -> None:
    assert share_of_ceiling(lambda _, at_s: 250 if at_s < 250 else 600, in_flight=32) > 0.97


@pytest.mark.slow
def test_a_provider_that_is_slow_for_a_minute_now_and_then_does_not_keep_the_pace_low() -> None:
    assert share_of_ceiling(lambda _, at_s: 900 if at_s % 300 < 60 else 200, in_flight=32) > 0.9


@pytest.mark.slow
def test_a_machine_that_stands_still_for_three_seconds_each_minute_keeps_most_of_the_pace() -> None:
    def standing_still(_: Random, at_s: float) -> float:
        return max(200.0, 1_000 * (3 - at_s % 60))

    assert share_of_ceiling(standing_still, in_flight=16) > 0.7


def test_one_in_flight_is_held_back_by_its_latency_and_not_by_the_pace() -> None:
    assert share_of_ceiling(lambda _, at_s: 45 if at_s < 250 else 200, in_flight=1) > 0.97 * 5 / CEILING_PER_S


def test_one_long_standstill_costs_no_more_than_a_few_seconds() -> None:
    before = used_to(200 * MILLISECOND_NS)
    now_ns, pace = before.answered_at_ns + 60 * SECOND_NS, before
    for number in range(16):
        pace = after(pace, Answered(Answer.GOOD, now_ns - (60 - number) * SECOND_NS, now_ns, pace_bound=True))
    assert pace.rate_per_s >= before.rate_per_s / 4
    recovered = slow_answers(pace, 64, 200 * MILLISECOND_NS)
    assert recovered.rate_per_s >= before.rate_per_s / 2 * 0.9


def test_a_clock_that_steps_makes_neither_a_queue_nor_an_error() -> None:
    before = used_to(200 * MILLISECOND_NS)
    now_ns, pace = before.answered_at_ns, before
    for latency_ns in (-SECOND_NS, 3_600 * SECOND_NS, 200 * MILLISECOND_NS, 200 * MILLISECOND_NS):
        now_ns += SECOND_NS
        pace = after(pace, Answered(Answer.GOOD, now_ns - latency_ns, now_ns, pace_bound=True))
    assert slow_answers(pace, 200, 200 * MILLISECOND_NS).rate_per_s >= before.rate_per_s


def test_a_slow_spell_during_a_test_does_not_keep_the_test_open() -> None:
    cold = cold_start(ceiling_interval_ns=40 * MILLISECOND_NS, now_ns=0)
    probing = replace(
        cold, rate_per_s=12.0, octave_per_s=12.0, edges_per_s=(10.0,), clean=500, chain_ns=0.0, held=5_000
    )
    usual = replace(slow_answers(probing, 20, 100 * MILLISECOND_NS), rate_per_s=12.0)
    left_ns = usual.answered_at_ns + SECOND_NS
    tested = after(usual, Answered(Answer.REFUSED, left_ns, left_ns + 100 * MILLISECOND_NS, pace_bound=True))
    assert tested.below_per_s == 10.0
    slowed = slow_answers(tested, 60, 2 * SECOND_NS)
    recovered = slow_answers(slowed, 1_500, 100 * MILLISECOND_NS)
    assert recovered.below_per_s == 0.0
    assert recovered.rate_per_s >= 12.0, "nothing was refused, so it climbs again"


def test_spells_of_slow_answers_at_a_rate_that_has_held_leave_the_edge_where_it_is() -> None:
    pace = replace(used_to(200 * MILLISECOND_NS), rate_per_s=9.0, edges_per_s=(10.0,), account=-3_000.0, held=5_000)
    edge = pace.edges_per_s[0]
    for _ in range(20):
        pace = slow_answers(pace, 20, 900 * MILLISECOND_NS)
        assert pace.rate_per_s < 9.0, "the queue is drained each time"
        pace = slow_answers(pace, 100, 200 * MILLISECOND_NS)
    assert pace.edges_per_s[0] >= 0.97 * edge


@dataclass
class OneServer:
    """Answers in turn, stands still now and then, and serves at a rate that depends on the time."""

    per_s: Callable[[float], float]
    still_ms: float = 0.0  # for so long every ten seconds
    free_at_ns: int = 0

    def reply(self, at_ns: int) -> Reply:
        done_ns = max(at_ns + 40 * MILLISECOND_NS, self.free_at_ns)
        into_ns, still_ns = done_ns % (10 * SECOND_NS), int(self.still_ms * MILLISECOND_NS)
        done_ns += max(0, still_ns - into_ns) if done_ns > 10 * SECOND_NS else 0
        self.free_at_ns = done_ns + int(SECOND_NS / self.per_s(done_ns / SECOND_NS))
        return Reply(Answer.GOOD, done_ns - at_ns)

    def capacity_per_s(self, at_ns: int) -> float:
        return self.per_s(at_ns / SECOND_NS)


def rates_sent(provider: OneServer, per_s: int, *, until_s: int) -> list[int]:
    """How many requests are sent in each second."""
    ceiling_ns = SECOND_NS // per_s
    ours = Remora(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0))
    until_ns = until_s * SECOND_NS
    trace = run(ours, provider, in_flight=1_024, ceiling_interval_ns=ceiling_ns, until_ns=until_ns)
    counts = [0] * until_s
    for at_ns in trace.sent_at_ns:
        counts[at_ns // SECOND_NS] += 1
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("still_ms", [80, 120, 200, 300])
def test_answers_that_come_together_after_a_standstill_are_no_queue(still_ms: float) -> None:
    """At 2,600/s some hundred requests are sent during a standstill, and all of them are late at once."""
    sent = rates_sent(OneServer(lambda _: 10_000.0, still_ms), 2_600, until_s=60)
    assert min(sent[25:]) > 2_500


@pytest.mark.slow
def test_a_real_queue_at_a_high_rate_is_drained_within_a_second() -> None:
    sent = rates_sent(OneServer(lambda now_s: 3_000.0 if now_s < 30 else 1_000.0), 2_600, until_s=40)
    assert min(sent[25:30]) > 2_500
    assert min(sent[30:33]) < 900, "less than is served, so that the queue drains"
