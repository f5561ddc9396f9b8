"""Which of many equal failures are worth a line in the log? The first, then one a minute, and that it is over."""

from typing import Final

from remora.core.units import MINUTE_NS

TELL_EVERY_NS: Final = MINUTE_NS


class Repeats:
    """Counts failures in a row."""

    def __init__(self) -> None:
        self.failures = 0
        self._told_at_ns = 0

    def is_worth_telling(self, *, now_ns: int) -> bool:
        """Count one more failure; whether to log it."""
        self.failures += 1
        if self.failures > 1 and now_ns - self._told_at_ns < TELL_EVERY_NS:
            return False
        self._told_at_ns = now_ns
        return True

    def over(self) -> int:
        """It worked: how many failures that ends, 0 if there was none."""
        ended, self.failures = self.failures, 0
        return ended
