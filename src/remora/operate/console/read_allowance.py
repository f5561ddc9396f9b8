"""How often may programs ask for something heavy? So often on average, with a burst; time is an argument."""

from dataclasses import dataclass
from typing import Final

from remora.core.units import SECOND_NS

READS_PER_S: Final = 10
BURST: Final = 40


@dataclass(slots=True)
class ReadAllowance:
    """A token bucket. It starts full."""

    per_s: int = READS_PER_S
    burst: int = BURST
    free_at_ns: int = 0  # when the bucket is full again

    def take(self, *, now_ns: int) -> float:
        """Take one turn. Returns 0, or after how many seconds a turn is free; then nothing was taken."""
        step_ns = SECOND_NS // self.per_s
        full_at_ns = max(self.free_at_ns, now_ns)
        waits_ns = full_at_ns + step_ns - now_ns - self.burst * step_ns
        if waits_ns > 0:
            return waits_ns / SECOND_NS
        self.free_at_ns = full_at_ns + step_ns
        return 0.0
