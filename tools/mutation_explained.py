"""Which changes of core/ cannot be noticed, or need not be? By file and change, with the reason."""

from typing import Final

EXPLAINED: Final[dict[tuple[str, str], str]] = {
    ("src/remora/core/rate/held_time.py", "now_ns - end_ns -> now_ns + end_ns"): (
        "it chooses between a quick and a general way to count the same time"
    ),
    ("src/remora/core/rate/shared_pace.py", "abs(value) <= LARGEST -> abs(value) < LARGEST"): (
        "a number of exactly the bound: no pace is that large"
    ),
}
