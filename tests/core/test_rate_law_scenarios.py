"""Is each rate scenario of the request true, under its own name?"""

from dataclasses import replace

from remora.core.rate.law import Answer, Answered, Pace, after, cold_start
from remora.core.rate.pace_record import DEFAULT_STALE_AFTER_NS, LEAST_STALE_AFTER_NS, Restore, restore, to_record
from remora.core.units import MILLISECOND_NS, SECOND_NS

CEILING_NS = 100 * MILLISECOND_NS
WALL_NS = 1_800_000_000 * SECOND_NS


def a_learned_pace() -> Pace:
    pace = cold_start(ceiling_interval_ns=CEILING_NS, now_ns=0)
    return replace(pace, rate_per_s=4.0, octave_per_s=4.0, edges_per_s=(4.1,), learned_at_ns=SECOND_NS)


def test_additive_increase_floors_at_the_rate_ceiling() -> None:
    pace, now_ns, intervals_ns, steps = cold_start(ceiling_interval_ns=CEILING_NS, now_ns=0), 0, [], []
    for _ in range(500):
        now_ns += pace.interval_ns
        faster = after(pace, Answered(Answer.GOOD, now_ns, now_ns + MILLISECOND_NS, pace_bound=True))
        steps.append(round(faster.rate_per_s - pace.rate_per_s, 9))
        pace = faster
        intervals_ns.append(pace.interval_ns)
    assert intervals_ns == sorted(intervals_ns, reverse=True)
    assert min(intervals_ns) == CEILING_NS
    assert pace.rate_per_s == pace.ceiling_per_s
    # Additive: the step is the same all through an octave.
    assert len(set(steps[:16])) == 1


def test_a_fresh_resume_restores_the_prior_runs_learned_interval() -> None:
    learned = a_learned_pace()
    record = to_record(learned, now_ns=2 * SECOND_NS, now_wall_ns=WALL_NS)
    fresh = restore(record, ceiling_interval_ns=CEILING_NS, now_ns=0, now_wall_ns=WALL_NS + LEAST_STALE_AFTER_NS)
    assert fresh.how is Restore.WARM
    assert fresh.pace.interval_ns == learned.interval_ns
    slower_ceiling_ns = SECOND_NS
    clamped = restore(record, ceiling_interval_ns=slower_ceiling_ns, now_ns=0, now_wall_ns=WALL_NS)
    assert clamped.pace.interval_ns == slower_ceiling_ns


def test_a_stale_resume_falls_back_to_the_cold_discovery_interval() -> None:
    record = to_record(a_learned_pace(), now_ns=SECOND_NS, now_wall_ns=WALL_NS)
    later_ns = WALL_NS + DEFAULT_STALE_AFTER_NS + 1
    stale = restore(record, ceiling_interval_ns=CEILING_NS, now_ns=5, now_wall_ns=later_ns)
    assert stale.how is Restore.COLD_STALE
    assert stale.pace == cold_start(ceiling_interval_ns=CEILING_NS, now_ns=5)
