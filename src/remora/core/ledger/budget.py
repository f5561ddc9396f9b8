"""May this run continue? One budget for wall-clock time and requests, both unlimited unless the owner set a limit."""

import msgspec
from msgspec.structs import replace

from remora.core.reasons import GapReason


class Budget(msgspec.Struct, frozen=True):
    """What a run may spend and what it has spent. Times are monotonic."""

    started_at_ns: int
    max_wall_ns: int | None = None
    max_fetches: int | None = None
    fetches: int = 0

    def after_fetch(self) -> "Budget":
        """One more request was sent."""
        return replace(self, fetches=self.fetches + 1)

    def cap(self, *, now_ns: int) -> GapReason | None:
        """The run cap that is reached, if any. Never a pressure reason."""
        if self.max_fetches is not None and self.fetches >= self.max_fetches:
            return GapReason.MAX_FETCHES
        left_ns = self.left_ns(now_ns=now_ns)
        if left_ns is not None and left_ns <= 0:
            return GapReason.MAX_WALL_CLOCK
        return None

    def left_ns(self, *, now_ns: int) -> int | None:
        """The wall-clock time that is left, or None when it is not limited."""
        if self.max_wall_ns is None:
            return None
        return max(0, self.started_at_ns + self.max_wall_ns - now_ns)

    def half(self, *, now_ns: int) -> "Budget":
        """The same budget, at its end when half of what is left now is spent."""
        wall_ns, fetches = self.max_wall_ns, self.max_fetches
        if wall_ns is not None:
            wall_ns -= (self.left_ns(now_ns=now_ns) or 0) // 2
        if fetches is not None:
            fetches -= -(-max(0, fetches - self.fetches) // 2)
        return replace(self, max_wall_ns=wall_ns, max_fetches=fetches)

    def covers(self, wait_ns: int, *, now_ns: int) -> bool:
        """Whether a wait of this length ends before the budget does."""
        left_ns = self.left_ns(now_ns=now_ns)
        return left_ns is None or wait_ns < left_ns
