"""What does the rate law decide? Drawn paces and answers, near every bound of the law."""

from collections.abc import Mapping
from typing import Any, Final

from remora.core.quota import Quota
from remora.core.rate import edges, law, outage, probing, quota, steady
from remora.core.rate.constants import (
    ACCOUNT_MOST,
    BURST_MOST,
    CAREFUL,
    DIP,
    ELSEWHERE,
    FAR,
    FAR_BELOW,
    HARDLY_ANY,
    MANY,
    NEAR,
    SAME_PLACE,
    STRAY_LEAST,
    STRAY_MOST,
    STRAYS_USUAL,
    TROUBLE_LEAST,
)
from remora.core.rate.law import Answer, Answered, Pace
from remora.core.rate.pace import changed, cold_start, cut, describe, possible, remember
from remora.core.rate.refusal_limit import RefusalLimit
from remora.core.units import HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from tests.core.decisions.drawing import Case, Decision, Draw

MOMENT_NS: Final = 1_000 * SECOND_NS
PLACES: Final = (
    *(1 - DIP, 1 - DIP / 2, 1.0, 1 + DIP, 1 + ELSEWHERE, 1 + ELSEWHERE + DIP, FAR, 1 / FAR),
    *(0.03, 0.11, 0.45, 0.8, 0.96, 0.9745, 0.98, 0.99, 1.01, 1.04, 1.12, 1.13, 1.3, 1.6, 3.0),
)
# How long answers take, and how long they usually do: at and around the bounds of a queue.
LATENCIES: Final = (
    *((0.0, 1e6), (1e6, 0.0), (1e6, 1e6), (30e6, 15e6), (130e6, 30e6), (131e6, 30e6), (40e6, 20e6), (41e6, 20e6)),
    *((15e6, 5e6), (150e6, 100e6), (300e6, 100e6), (100e6, 1e6), (140e6, 140e6)),
)
ANSWERS: Final = (0, 1, 3, 4, 5, 15, 16, 20, 63, 64, 65, 80, 127, 128, 1_000, 9_999, 10_000)


def drawn_pace(draw: Draw) -> Pace:
    """Any pace, with its numbers at or near the bounds."""
    edge = draw.one(0.004, 0.3, 1.0, 5.0, 8.0, 64.0, 400.0)
    known = draw.one((), (edge,), (edge,), (edge,), (edge, edge * 1.3), (edge, edge * 2.0))
    ceiling_ns = draw.one(2 * MILLISECOND_NS, 10 * MILLISECOND_NS, 50 * MILLISECOND_NS, 500 * MILLISECOND_NS)
    most = SECOND_NS / ceiling_ns
    rate = most if draw.chance(0.15) else min(most, edge * draw.one(*PLACES))
    pace = cold_start(ceiling_interval_ns=ceiling_ns, now_ns=MOMENT_NS)
    pace = changed(pace, rate_per_s=rate, edges_per_s=known, octave_per_s=rate * draw.one(1.0, 0.5, 0.4, 0.7))
    if draw.chance(0.3):
        pace = changed(pace, refusal_limit=draw.one(RefusalLimit(4, MINUTE_NS), RefusalLimit(20, HOUR_NS)))
    if draw.chance(0.15):
        spread_ns = draw.one(0, ceiling_ns, pace.learned_interval_ns, pace.learned_interval_ns + 1, SECOND_NS)
        pace = changed(pace, quota_interval_ns=spread_ns, quota_until_ns=MOMENT_NS + draw.one(0, SECOND_NS, HOUR_NS))
    pace = _with_latency(draw, _with_evidence(draw, pace))
    return _refused(draw, _probed(draw, pace, edge), edge) if known else pace


def _with_evidence(draw: Draw, pace: Pace) -> Pace:
    if draw.chance(0.25):  # nothing under way
        return changed(
            pace, held=draw.one(*ANSWERS), clean=draw.one(*ANSWERS), account=draw.one(-1.0, 0.0, 126.5, 128.0)
        )
    return changed(
        pace,
        account=draw.one(-75_000.0, -2_400.0, -128.0, -64.0, -16.0, -0.5, 0.0, 0.5, 126.5, 127.0, 127.5, ACCOUNT_MOST),
        stray_share=draw.one(STRAY_LEAST, STRAY_LEAST, 0.0041, 0.0055, 0.006, STRAYS_USUAL, 0.0075, STRAY_MOST),
        trouble_share=draw.one(TROUBLE_LEAST, TROUBLE_LEAST, 0.0201, 0.05, 0.125, 0.1249),
        trouble_evidence=draw.one(0.0, 0.0, 0.03, 1.0, 5.7, 6.5),
        evidence=draw.one(0.0, 0.0, 0.05, 1.0, 2.5, 4.5, 4.7, 5.0, 7.4),
        clean=draw.one(*ANSWERS),
        clean_before=draw.one(*ANSWERS),
        alike=draw.one(0, 0, 1, 2),
        held=draw.one(*ANSWERS, 192, 799, 800, 9_000),
        suspect_per_s=pace.rate_per_s * draw.one(0.0, 1.0, FAR, 1 / FAR, 1.3, 0.7),
        last_cut_at_ns=draw.one(-1, MOMENT_NS - SECOND_NS, MOMENT_NS),
        left_at_ns=draw.one(0, MOMENT_NS - SECOND_NS, MOMENT_NS - MILLISECOND_NS),
        answered_at_ns=draw.one(0, MOMENT_NS - SECOND_NS, MOMENT_NS + 5 * MILLISECOND_NS),
    )


def _with_latency(draw: Draw, pace: Pace) -> Pace:
    baseline_ns = draw.one(0.0, 1e6, 20e6, 20e6, 50e6, 150e6)
    noise_ns = max(20 * MILLISECOND_NS, pace.interval_ns)
    longer = (0.0, 0.0, 1e6, 20e6, 100e6, 100e6 + 1, 300e6, baseline_ns, noise_ns, noise_ns + 1)
    return changed(
        pace,
        baseline_ns=baseline_ns,
        latency_ns=baseline_ns + draw.one(*longer) if draw.chance(0.9) else 0.0,
        slow=draw.one(0, 0, 0, 1, 2, 3, 9),
        slow_share=draw.one(0.01, 0.01, 0.0101, 0.4, 0.899, 0.9),
        gap_ns=draw.one(0.0, 5e6, 30e6, 800e6, float(pace.interval_ns)),
        queued=draw.one(0, 0, 0, 0, 1, 3, 4, 15, 16),
        queue_ns=draw.one(0.0, 0.0, 0.0, 30e6, 200e6),
    )


def _probed(draw: Draw, pace: Pace, edge: float) -> Pace:
    """What was learned while probing."""
    chain_good = draw.one(*ANSWERS)
    below = draw.one(1 / (1 + ELSEWHERE), 1 / FAR, 0.9, 1 / (1 + NEAR), 1.1, 0.3, 1.0)
    return changed(
        pace,
        below_per_s=edge * below if draw.chance(0.3) else 0.0,
        best_per_s=draw.one(0.0, pace.rate_per_s, edge, FAR_BELOW * edge, FAR_BELOW * edge * 1.1, 100 * edge),
        met_per_s=pace.rate_per_s * draw.one(0.0, 1.0, 1 - SAME_PLACE, 1.002, 1.004, 0.9),
        bursts=draw.chance(),
        filled=draw.one(0.0, 0.0, 0.5, -1.0, -2.0, -2.5, 5.0, 511.5, BURST_MOST),
        lasted=draw.one(0, 0, 800, 2_048, 100_000),
        left_per_s=edge * draw.one(0.0, 1.0, FAR, 1 / FAR, 1.5, 0.4, 4.0),
        chain_good=chain_good,
        chain_ns=draw.one(-1.0, 0.0, 0.5, 1e9, chain_good * 1.02e9 / edge, chain_good * 0.97e9 / edge),
    )


def _refused(draw: Draw, pace: Pace, edge: float) -> Pace:
    """A streak of refusals, and the outage before."""
    pace = changed(
        pace, outage_ns=draw.one(0, 0, SECOND_NS, *(int(k * 1e9 / edge) for k in (1, CAREFUL, 40, MANY, 90)))
    )
    if draw.chance(0.45):
        return changed(pace, overshot=draw.chance())
    began_ns = MOMENT_NS - draw.one(0, SECOND_NS, 30 * SECOND_NS, int(90e9 / edge))
    return changed(
        pace,
        streak=draw.one(1, 1, 2, 2, 3),
        streak_began_at_ns=began_ns,
        last_refused_at_ns=draw.one(began_ns, MOMENT_NS - SECOND_NS // 2),
        provisional=not pace.below_per_s and draw.chance(0.3),  # a test has an edge below it
        probed=draw.chance(),
        overshot=draw.chance(),
        wait_ns=draw.one(0, 0, SECOND_NS, 10 * SECOND_NS, 500 * SECOND_NS),
        quiet_until_ns=draw.one(0, 0, MOMENT_NS - SECOND_NS, MOMENT_NS + SECOND_NS),
        asked_ns=draw.one(0, 0, SECOND_NS, int(HARDLY_ANY * 1e9 / edge), int(3e9 / edge), 1),
    )


def drawn_answer(draw: Draw, pace: Pace, *, from_ns: int = MOMENT_NS) -> Answered:
    """Any answer, sent at this moment or soon after."""
    departed_ns = from_ns + draw.one(0, -1, MILLISECOND_NS, SECOND_NS)
    noise_ns = max(20 * MILLISECOND_NS, pace.interval_ns)
    usual_ns = int(pace.baseline_ns)
    took_ns = draw.one(0, -5, 1, 50 * MILLISECOND_NS, usual_ns, 2 * usual_ns, usual_ns + noise_ns, 400 * MILLISECOND_NS)
    answer = draw.one(Answer.GOOD, Answer.GOOD, Answer.GOOD, Answer.REFUSED, Answer.REFUSED, Answer.TROUBLED)
    asked_ns = draw.one(0, 0, 0, 1, SECOND_NS, 20 * SECOND_NS) if answer is Answer.REFUSED else 0
    told = Quota(
        draw.one(0, 1, -1, 3, 100), None, draw.one(0, 1, SECOND_NS, HOUR_NS, 30 * 24 * HOUR_NS, 31 * 24 * HOUR_NS)
    )
    return Answered(
        answer, departed_ns, departed_ns + took_ns, draw.chance(0.8), asked_ns, told if draw.chance(0.15) else None
    )


def _new(before: Pace, then: Pace) -> Mapping[str, object]:
    """What is different."""
    was = vars(before)
    return {name: value for name, value in vars(then).items() if value != was[name]}


def after_one(draw: Draw) -> Case:
    """One answer, by the quick way and by the general one."""
    pace = drawn_pace(draw)
    event = drawn_answer(draw, pace)
    then, heard = steady.after_steady(pace, (event,))
    general = law.after_any(pace, event)
    quick = law.after(pace, event)
    said = (_new(pace, general), _new(general, quick), _new(general, then) if heard else 0, describe(pace, general))
    return Case((pace, event), said)


def after_some(draw: Draw) -> Case:
    """Several answers, one after the other and at once."""
    pace = drawn_pace(draw)
    events, at_ns = [], MOMENT_NS
    for _ in range(draw.one(2, 4, 6)):
        events.append(drawn_answer(draw, pace, from_ns=at_ns))
        at_ns = max(at_ns, events[-1].answered_at_ns) + draw.one(0, pace.interval_ns, SECOND_NS)
    one_by_one = [pace]
    for event in events:
        one_by_one.append(law.after_any(one_by_one[-1], event))
    return Case(
        (pace, events),
        (_new(pace, law.after_many(pace, events)), [(one.rate_per_s, one.edges_per_s) for one in one_by_one]),
    )


def steady_run(draw: Draw) -> Case:
    """A run of good answers at rest or at the ceiling."""
    edge = draw.one(1.0, 8.0, 64.0)
    ceiling_ns = draw.one(5 * MILLISECOND_NS, 100 * MILLISECOND_NS)
    place = draw.one(1 - DIP, 1 - DIP / 2, 1.0, 0.99, 1.01, 0.9)
    pace = cold_start(ceiling_interval_ns=ceiling_ns, now_ns=MOMENT_NS)
    known = (edge,) if draw.chance(0.7) else ()
    rate = min(pace.ceiling_per_s, edge * place) if known else pace.ceiling_per_s
    latency_ns, baseline_ns = draw.one(*LATENCIES)
    pace = changed(
        pace,
        rate_per_s=rate,
        octave_per_s=rate * draw.one(1.0, 0.5, 0.51),
        edges_per_s=known,
        latency_ns=latency_ns,
        baseline_ns=baseline_ns,
        account=draw.one(-100.0, -3.0, -1.0, 0.0, 125.0, 127.0, 128.0),
        slow=draw.one(0, 0, 1, 2, 4),
        slow_share=draw.one(0.01, 0.01, 0.0101, 0.3, 0.9),
        chain_ns=draw.one(-1.0, 0.0, 5e9),
        filled=draw.one(0.0, -2.0, 3.0, 511.0, BURST_MOST),
        last_cut_at_ns=draw.one(-1, MOMENT_NS),
        refusal_limit=RefusalLimit(4, MINUTE_NS) if draw.chance(0.3) else None,
        gap_ns=draw.one(0.0, 1e7),
        left_at_ns=MOMENT_NS - draw.one(0, SECOND_NS, 10 * SECOND_NS),
        answered_at_ns=MOMENT_NS - draw.one(0, -SECOND_NS, SECOND_NS),
    )
    if draw.chance(0.3):
        name = draw.one("streak", "below_per_s", "evidence", "trouble_evidence", "quota_until_ns", "queued", "queue_ns")
        busy: dict[str, Any] = {name: draw.one(1, 2)}
        pace = changed(pace, **busy)
    pace = changed(
        pace, stray_share=draw.one(STRAY_LEAST, STRAY_LEAST, 0.005), trouble_share=draw.one(0.02, 0.02, 0.03)
    )
    events = [drawn_answer(draw, pace, from_ns=MOMENT_NS + at * pace.interval_ns) for at in range(6)]
    events = [msg if draw.chance(0.2) else _good(msg) for msg in events]
    first = draw.one(0, 0, 1)
    then, heard = steady.after_steady(pace, events, first)
    return Case((pace, events), (_new(pace, then), heard))


def _good(event: Answered) -> Answered:
    return Answered(Answer.GOOD, event.departed_at_ns, event.answered_at_ns, event.pace_bound)


def cost_of_probing(draw: Draw) -> Case:
    """All that `probing` says about one pace."""
    pace = drawn_pace(draw)
    known = pace.edges_per_s
    said = (
        [probing.is_probing(pace), probing.is_far_below(pace), probing.is_alike(pace), edges.is_test_passed(pace)],
        [probing.price(pace), probing.least_price(pace), probing.meaning(pace), probing.accepted_per_s(pace)],
        [probing.accepted_at_most_per_s(pace), probing.proven_edge(pace), known and probing.may_be_a_burst(pace)],
        [probing.filled(pace, for_ns=for_ns, taken=taken) for for_ns, taken in ((0.0, 0), (1e9, 1), (5e10, 3))],
        [probing.charged(pace, share).account for share in (0.0, 0.3, 1.0, 40.0)],
        [_new(pace, probing.moved(pace, 3.0)), probing.with_best(pace).best_per_s],
        [probing.with_a_stray(pace).stray_share, probing.without_strays(pace).stray_share],
        [quota.is_spread(pace), pace.interval_ns, pace.learned_interval_ns, pace.ceiling_per_s],
        _new(pace, edges.passed_test(pace)) if known else None,
    )
    return Case(pace, said)


def shut_out(draw: Draw) -> Case:
    """A further refusal in a row, and the first good answer after it."""
    pace = drawn_pace(draw)
    if not pace.edges_per_s or not pace.streak:
        pace = changed(pace, edges_per_s=(draw.one(0.3, 5.0, 64.0),), streak=draw.one(1, 2))
    event = drawn_answer(draw, pace)
    return Case(
        (pace, event), (_new(pace, outage.refused_in_a_row(pace, event)), _new(pace, outage.resumed(pace, event)))
    )


def bounds_of_a_rate(draw: Draw) -> Case:
    """How a rate is limited, and which edges are kept."""
    pace = drawn_pace(draw)
    wanted = pace.rate_per_s * draw.one(0.0001, 0.5, 1.0, 2.0, 1000.0)
    edge = draw.one(0.0001, 1.0, wanted)
    higher = tuple(edge * times for times in (draw.one(1.0, 1.04, 1 + 2 * DIP, 1.06), draw.one(1.2, 1.5)))
    kept = remember(higher, edge)
    then = cut(pace, wanted, MOMENT_NS + 5)
    started = cold_start(ceiling_interval_ns=draw.one(1, SECOND_NS - 1, SECOND_NS, 3 * SECOND_NS), now_ns=7)
    return Case(
        (pace, wanted, edge), (possible(pace, wanted), kept, then, describe(pace, then), describe(then, pace), started)
    )


def a_queue(draw: Draw) -> Case:
    """A good answer while answers take much longer than usual."""
    pace = drawn_pace(draw)
    latency_ns = 150e6 * draw.one(1.0, 2.0, 4.0)
    queued = draw.one(2, 3, 4, 14, 15, 16)
    pace = changed(
        pace,
        streak=0,
        latency_ns=latency_ns,
        baseline_ns=draw.one(1e6, 30e6),
        slow=draw.one(2, 5, 30),
        slow_share=0.01,
        queued=queued,
        queue_ns=draw.one(0.0, 0.5, latency_ns, latency_ns * 0.9, latency_ns * 1.3),
        held=draw.one(62, 63, 64, 65),
        gap_ns=draw.one(0.0, 0.5, 1.9e8, SECOND_NS / pace.rate_per_s * draw.one(0.9, 1.5, 3.0)),
        below_per_s=pace.below_per_s if draw.chance(0.3) else 0.0,
        quota_interval_ns=0,
        quota_until_ns=0,
        last_cut_at_ns=-1,
    )
    took_ns = int(latency_ns * draw.one(1.0, 1.1))
    event = Answered(Answer.GOOD, MOMENT_NS, MOMENT_NS + took_ns, draw.chance(0.9))
    return Case((pace, event), _new(pace, law.after_any(pace, event)))


DECISIONS: Final[Mapping[str, tuple[Decision, int]]] = {
    "law: one answer": (after_one, 6_000),
    "law: some answers": (after_some, 1_000),
    "law: a steady run": (steady_run, 1_500),
    "law: a queue": (a_queue, 600),
    "law: the cost of probing": (cost_of_probing, 1_000),
    "law: shut out": (shut_out, 2_000),
    "law: bounds of a rate": (bounds_of_a_rate, 200),
}
