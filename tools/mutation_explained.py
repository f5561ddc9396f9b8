"""Which changes of core/ cannot be noticed, or need not be? By file and change, with the reason."""

from typing import Final

_LAW: Final = "src/remora/core/rate/law.py"
_EDGES: Final = "src/remora/core/rate/edges.py"
_STEADY: Final = "src/remora/core/rate/steady.py"
_OUTAGE: Final = "src/remora/core/rate/outage.py"
_A_SUM: Final = "a sum of logarithms or shares of exactly the bound: no number of answers gives it"
_NEXT_STEP: Final = "a rate of exactly the bound: the next step is beyond it"
# Both ways give the same value, because nothing is added or a bound holds on both sides.
_SAME: Final = "at the bound both ways give the same value"

EXPLAINED: Final[dict[tuple[str, str], str]] = {
    ("src/remora/core/rate/held_time.py", "now_ns - end_ns -> now_ns + end_ns"): (
        "it chooses between a quick and a general way to count the same time"
    ),
    ("src/remora/core/rate/shared_pace.py", "abs(value) <= LARGEST -> abs(value) < LARGEST"): (
        "a number of exactly the bound: no pace is that large"
    ),
    ("src/remora/core/rate/edges.py", "meaning(pace) > DOUBTFUL -> meaning(pace) >= DOUBTFUL"): (
        "a share of exactly the bound, computed from counts of answers: one answer more or less decides the same"
    ),
    (
        "src/remora/core/rate/edges.py",
        "event.departed_at_ns < pace.last_cut_at_ns -> event.departed_at_ns <= pace.last_cut_at_ns",
    ): ("a request that was sent in the very nanosecond of the cut"),
    ("src/remora/core/rate/law.py", "pace.account >= -_may_owe(pace) -> pace.account > -_may_owe(pace)"): (
        "an account of exactly the bound: the next answer moves it"
    ),
    (
        "src/remora/core/rate/law.py",
        "rate_per_s > edges_per_s[0] * FAR -> rate_per_s >= edges_per_s[0] * FAR",
    ): "a rate of exactly the bound: the next step is beyond it",
    ("src/remora/core/rate/pace_record.py", "quiet_left_ns > 0 -> quiet_left_ns >= 0"): (
        "a wait that ends at this very moment holds nothing back"
    ),
    (
        "src/remora/core/rate/probing.py",
        "pace.rate_per_s <= pace.edges_per_s[0] * (1 + ELSEWHERE + DIP) -> pace.rate_per_s < pace.edges_per_s[0] * (1 + ELSEWHERE + DIP)",
    ): "a rate of exactly the bound: the next step is beyond it",
    # As an earlier version read, of which a sample is on record.
    (
        "src/remora/core/rate/law.py",
        "rate_per_s > edges_per_s[0] * LEFT_BEHIND -> rate_per_s >= edges_per_s[0] * LEFT_BEHIND",
    ): "a rate of exactly the bound: the next step is beyond it",
    (
        "src/remora/core/rate/probing.py",
        "pace.rate_per_s <= pace.edges_per_s[0] * (1 + PROBE_HEIGHT + DIP) -> pace.rate_per_s < pace.edges_per_s[0] * (1 + PROBE_HEIGHT + DIP)",
    ): "a rate of exactly the bound: the next step is beyond it",
    (_LAW, "pace.streak > 1 -> pace.streak >= 1"): "a streak of one is set to one",
    (_LAW, "latency < baseline -> latency <= baseline"): _SAME,
    (_LAW, "strays > STRAY_LEAST -> strays >= STRAY_LEAST"): _SAME,
    (_LAW, "faults > TROUBLE_LEAST -> faults >= TROUBLE_LEAST"): _SAME,
    (
        _LAW,
        "pace.account >= 0 -> pace.account > 0",
    ): "an account of zero owes nothing: the other half of the condition holds",
    (_LAW, "rate < edge -> rate <= edge"): _SAME,
    (_LAW, "rate < rest -> rate <= rest"): "at rest the step is decided before",
    (_LAW, "rate <= edges[0] -> rate < edges[0]"): _NEXT_STEP,
    (_LAW, "rate > edges[0] * LEFT_BEHIND -> rate >= edges[0] * LEFT_BEHIND"): _NEXT_STEP,
    (_LAW, "rate > edges[0] * FAR -> rate >= edges[0] * FAR"): _NEXT_STEP,
    (_LAW, "evidence < OFTEN_BELIEVED -> evidence <= OFTEN_BELIEVED"): _A_SUM,
    (
        _LAW,
        "pace.slow * log(SLOW_QUEUED / pace.slow_share) > OFTEN_BELIEVED -> pace.slow * log(SLOW_QUEUED / pace.slow_share) >= OFTEN_BELIEVED",
    ): _A_SUM,
    (
        _EDGES,
        "pace.evidence > EVIDENCE_MOST - CLOGGED * DENSE_SHARE -> pace.evidence >= EVIDENCE_MOST - CLOGGED * DENSE_SHARE",
    ): _A_SUM,
    (_EDGES, "evidence >= TEST_FAILED + needed -> evidence > TEST_FAILED + needed"): _A_SUM,
    (_EDGES, "evidence < EDGE_BELIEVED + needed -> evidence <= EDGE_BELIEVED + needed"): _A_SUM,
    (
        _EDGES,
        "accepted_per_s(pace) >= enough -> accepted_per_s(pace) > enough",
    ): "a quotient of a count and a time: never exactly the mean of two rates",
    (_EDGES, "new_rate < edges[0] * (1 - ELSEWHERE) -> new_rate <= edges[0] * (1 - ELSEWHERE)"): _NEXT_STEP,
    (_STEADY, "slow > 0 -> slow >= 0"): "without a slow answer there is no queue: it only saves the computation",
    (_STEADY, "account < ACCOUNT_MOST - 1.0 -> account <= ACCOUNT_MOST - 1.0"): _SAME,
    (_STEADY, "slow_share > SLOW_LEAST -> slow_share >= SLOW_LEAST"): _SAME,
    (_STEADY, "latency < baseline_ns -> latency <= baseline_ns"): _SAME,
    (
        _STEADY,
        "slow * log(SLOW_QUEUED / slow_share) > OFTEN_BELIEVED -> slow * log(SLOW_QUEUED / slow_share) >= OFTEN_BELIEVED",
    ): _A_SUM,
    (_OUTAGE, "outage_ns > FAR * pace.outage_ns > 0 -> outage_ns >= FAR * pace.outage_ns > 0"): (
        "an outage of exactly six fifths of the last one, to the nanosecond"
    ),
    ("src/remora/core/rate/probing.py", "rate <= pace.best_per_s -> rate < pace.best_per_s"): _SAME,
    (
        "src/remora/core/status/alarms.py",
        "rate.per_s > rate.ceiling_per_s * CEILING_TOLERANCE -> rate.per_s >= rate.ceiling_per_s * CEILING_TOLERANCE",
    ): "a quotient of exactly a thousandth above the ceiling: one nanosecond more or less decides",
    # Of the sample with seed 31.
    ("src/remora/core/ledger/sampling.py", "share >= 1 -> share > 1"): "nothing reached it; it is gone",
    ("src/remora/core/ledger/sampling.py", "1.0 -> 2.0"): "a guard that is gone hid it: noticed since",
    ("src/remora/core/verdict.py", "return Found(thing) -> return None"): "nothing reached it; it is gone",
    (
        "src/remora/core/rate/stretches.py",
        "ends_ns - tail.starts_ns >= grant.interval_ns -> ends_ns - tail.starts_ns > grant.interval_ns",
    ): "noticed since: the records hold a stretch of exactly one interval",
    (
        "src/remora/core/rate/shared_pace.py",
        "False -> True",
    ): "noticed since: the records hold common paces that are not possible",
}
