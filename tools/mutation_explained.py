"""Which changes of core/ cannot be noticed, or need not be? By file and change, with the reason."""

from typing import Final

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
}
