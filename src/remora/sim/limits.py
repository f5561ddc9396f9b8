"""How many requests does the provider accept? Hidden limits of the kinds that real providers use.

Each limit is a frozen setting; `limiter` makes the counter for it. Time is monotonic nanoseconds.
"""

from collections import deque
from typing import Literal, Protocol

import msgspec

from remora.core.units import SECOND_NS


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One hidden limit. `kind` decides how requests are counted; a request that is refused counts as `penalty` says."""

    kind: Literal["none", "token_bucket", "sliding_window", "fixed_window", "heat"] = "none"
    per_second: float = 10.0
    burst: int = 10  # token_bucket: how many may arrive at once
    window_s: float = 60.0  # windows: their length
    count: int = 600  # windows and heat: how many requests are allowed
    cools_in_s: float = 240.0  # heat: how long a hot account takes to cool down
    retry_after: bool = False  # whether a refusal says when to come back


class Limiter(Protocol):
    """Counts requests."""

    def refuse_ns(self, now_ns: int) -> int | None:
        """None if this request passes (and is counted), else the time until the next one would pass."""


class Unlimited:
    """Lets everything through."""

    def refuse_ns(self, now_ns: int) -> int | None:
        return None


class TokenBucket:
    """Refills steadily, holds at most `burst`; a refused request costs nothing."""

    def __init__(self, *, per_second: float, burst: int) -> None:
        self._interval_ns = max(1, round(SECOND_NS / per_second))
        self._tolerance_ns = (burst - 1) * self._interval_ns
        self._next_ns: int | None = None

    def refuse_ns(self, now_ns: int) -> int | None:
        next_ns = now_ns if self._next_ns is None else self._next_ns
        early_ns = next_ns - self._tolerance_ns - now_ns
        if early_ns > 0:
            return early_ns
        self._next_ns = max(next_ns, now_ns) + self._interval_ns
        return None


class SlidingWindow:
    """No more than `count` in any window that ends now."""

    def __init__(self, *, count: int, window_s: float) -> None:
        self._count = count
        self._window_ns = round(window_s * SECOND_NS)
        self._passed: deque[int] = deque(maxlen=count)

    def refuse_ns(self, now_ns: int) -> int | None:
        if len(self._passed) == self._count:
            wait_ns = self._passed[0] + self._window_ns - now_ns
            if wait_ns > 0:
                return wait_ns
        self._passed.append(now_ns)
        return None


class FixedWindow:
    """No more than `count` in each window; windows start at fixed times."""

    def __init__(self, *, count: int, window_s: float) -> None:
        self._count = count
        self._window_ns = round(window_s * SECOND_NS)
        self._window = -1
        self._passed = 0

    def refuse_ns(self, now_ns: int) -> int | None:
        window = now_ns // self._window_ns
        if window != self._window:
            self._window, self._passed = window, 0
        if self._passed >= self._count:
            return (window + 1) * self._window_ns - now_ns
        self._passed += 1
        return None


class Heat:
    """Every request heats the account, also refused ones. A hot account refuses until it has cooled down to half."""

    def __init__(self, *, count: int, cools_in_s: float) -> None:
        self._count = count
        self._cool_ns = max(1, round(cools_in_s * SECOND_NS) // count)  # how long one request's heat takes to cool
        self._heat_ns = 0
        self._at_ns: int | None = None
        self._hot = False

    def refuse_ns(self, now_ns: int) -> int | None:
        passed_ns = 0 if self._at_ns is None else now_ns - self._at_ns
        self._at_ns = now_ns
        full_ns = self._count * self._cool_ns
        self._heat_ns = min(max(0, self._heat_ns - passed_ns) + self._cool_ns, full_ns)
        if self._hot:
            self._hot = self._heat_ns > full_ns // 2
        else:
            self._hot = self._heat_ns >= full_ns
        return self._heat_ns - full_ns // 2 if self._hot else None


def limiter(limit: Limit) -> Limiter:
    """The counter for this limit."""
    match limit.kind:
        case "none":
            return Unlimited()
        case "token_bucket":
            return TokenBucket(per_second=limit.per_second, burst=limit.burst)
        case "sliding_window":
            return SlidingWindow(count=limit.count, window_s=limit.window_s)
        case "fixed_window":
            return FixedWindow(count=limit.count, window_s=limit.window_s)
        case "heat":
            return Heat(count=limit.count, cools_in_s=limit.cools_in_s)
