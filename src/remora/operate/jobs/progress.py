"""How does a long job show its progress? As a bar on a terminal, plain lines elsewhere, or JSON lines.

A job calls `show` as often as it likes; each view draws at its own bounded pace. Human views write to stderr, so that
stdout holds only results.
"""

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol, TextIO

import msgspec
import structlog

from remora.core.quantities import format_duration, format_rate
from remora.core.rate.gate_types import RateFacts
from remora.core.status.limits import gate_limit, wait_in_words
from remora.core.units import SECOND_NS
from remora.operate.observe.logs import tell, write_line

log = structlog.get_logger()

PLAIN_EVERY_S: Final = 5.0
LOGGED_EVERY_S: Final = 60.0
JSON_EVERY_S: Final = 1.0
TERMINAL_EVERY_S: Final = 0.1
# From one request per second to hundreds takes about half a minute. After this time the rate counts as learned.
LEARNING_MAX_S: Final = 60.0
# Views draw at their own intervals. This bounds the age of what they draw.
SHOW_EVERY_S: Final = 0.1


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a job. None means unknown."""

    source: str
    done: int
    total: int | None = None
    gaps: int | None = None  # owed by this job so far
    rate_per_second: float | None = None  # measured over a recent window
    ceiling_per_second: float | None = None
    limited_by: str | None = None
    waits: str | None = None  # until when nothing is sent, and why
    eta_s: float | None = None
    is_learning: bool = False  # the pace still changes, so the time left is unknown
    outcomes: Mapping[str, int] = {}


def eta_s(progress: Progress) -> float | None:
    """The time left at the present rate. Unknown without a rate, during a wait, and while the pace is being learned."""
    if progress.is_learning or progress.waits:
        return None
    if progress.eta_s is not None:
        return progress.eta_s
    if progress.total is None or not progress.rate_per_second or progress.rate_per_second <= 0:
        return None
    return max(0, progress.total - progress.done) / progress.rate_per_second


def with_rate(progress: Progress, rate: RateFacts, *, elapsed_s: float = LEARNING_MAX_S) -> Progress:
    """The same progress, with what the gate says."""
    return msgspec.structs.replace(
        progress,
        rate_per_second=rate.recent_per_s,
        ceiling_per_second=rate.ceiling_per_s,
        limited_by=gate_limit(rate),
        waits=wait_in_words(rate),
        is_learning=is_learning(rate, elapsed_s=elapsed_s),
    )


def is_learning(rate: RateFacts, *, elapsed_s: float) -> bool:
    """Whether the pace still rises, or the measured rate has not reached it yet."""
    if elapsed_s >= LEARNING_MAX_S:
        return False
    is_rising = rate.per_s < rate.ceiling_per_s and rate.edge_per_s is None
    return is_rising or rate.recent_per_s is None or rate.recent_per_s < rate.per_s / 2


def left_in_words(progress: Progress) -> str:
    """The time left, or why it is unknown; empty when nothing is left."""
    if progress.waits:
        return progress.waits
    if progress.is_learning:
        return "learning the pace"
    left_s = eta_s(progress)
    return f"{format_duration(max(1, round(left_s)) * SECOND_NS)} left" if left_s else ""


class ProgressView(Protocol):
    """Shows the progress of a job."""

    def say(self, text: str) -> None:
        """One sentence about what happens now."""

    def show(self, progress: Progress) -> None:
        """Show the progress; may be called very often."""

    def close(self) -> None:
        """Draw the last progress and stop."""


class SilentView:
    """Shows nothing."""

    def say(self, text: str) -> None: ...

    def show(self, progress: Progress) -> None: ...

    def close(self) -> None: ...


class _PacedView(ABC):
    """Draws the first progress, then one per interval, and the last one always."""

    def __init__(self, every_s: float, monotonic_s: Callable[[], float]) -> None:
        self._pace = _Pace(every_s, monotonic_s)
        self._last: Progress | None = None  # None when it was drawn

    def show(self, progress: Progress) -> None:
        self._last = progress
        if self._pace.is_due():
            self._draw_last()

    def close(self) -> None:
        self._draw_last()

    def _draw_last(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            self._draw(last)

    @abstractmethod
    def _draw(self, progress: Progress) -> None: ...


class PlainView(_PacedView):
    """One line every few seconds, for a pipe that a person reads."""

    def __init__(self, out: TextIO | None = None, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(PLAIN_EVERY_S, monotonic_s)
        self._out = out

    def say(self, text: str) -> None:
        if self._out is None:
            write_line(text)
        else:
            print(text, file=self._out, flush=True)

    def _draw(self, progress: Progress) -> None:
        self.say(in_words(progress))


class JsonView(_PacedView):
    """One JSON object per line, on stdout."""

    def __init__(self, out: TextIO | None = None, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(JSON_EVERY_S, monotonic_s)
        self._out = out or sys.stdout

    def say(self, text: str) -> None:
        self._write({"event": "note", "text": text})

    def _draw(self, progress: Progress) -> None:
        fields: dict[str, object] = msgspec.to_builtins(progress)
        self._write({"event": "progress", **fields, "eta_s": eta_s(progress)})

    def _write(self, fields: Mapping[str, object]) -> None:
        print(msgspec.json.encode(fields).decode(), file=self._out, flush=True)


class ServiceView:
    """Where the output is a log: how a backfill is going, once a minute, and nothing while nothing is pending."""

    def __init__(self, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._due_s: dict[str, float] = {}  # of the sources that have something pending
        self._told: set[str] = set()

    def say(self, text: str) -> None:
        tell(text)

    def show(self, progress: Progress) -> None:
        source, now_s = progress.source, self._monotonic_s()
        if progress.total is None or progress.done >= progress.total:
            self._due_s.pop(source, None)
            if source in self._told:
                self._told.remove(source)
                self._tell(progress)
            return
        # Not told at once: each new item is pending for a moment.
        if now_s >= self._due_s.setdefault(source, now_s + LOGGED_EVERY_S):
            self._due_s[source] = now_s + LOGGED_EVERY_S
            self._told.add(source)
            self._tell(progress)

    def close(self) -> None: ...

    def _tell(self, progress: Progress) -> None:
        log.info(
            "backfill_progress",
            source=progress.source,
            done=progress.done,
            total=progress.total,
            gaps=progress.gaps,
            rate_per_s=progress.rate_per_second,
            left_s=eta_s(progress),
        )


def in_words(progress: Progress) -> str:
    """Progress as one line: `hackernews 1,200 of 20,000 (6 %), 240/s of at most 250/s, 3 gaps, 1m 18s left`."""
    whole = f" of {progress.total:,}" if progress.total is not None else ""
    share = f" ({progress.done * 100 // progress.total}%)" if progress.total else ""
    parts = [f"{progress.source} {progress.done:,}{whole}{share}", rate_in_words(progress)]
    if progress.gaps:
        parts.append(f"{progress.gaps:,} gap{'' if progress.gaps == 1 else 's'}")
    if left := left_in_words(progress):
        parts.append(left)
    return ", ".join(parts)


def rate_in_words(progress: Progress) -> str:
    """The rate, its ceiling, and what limits it."""
    rate = "rate unknown" if progress.rate_per_second is None else format_rate(progress.rate_per_second)
    ceiling = "" if progress.ceiling_per_second is None else f" of at most {format_rate(progress.ceiling_per_second)}"
    limited = (
        ""
        if progress.limited_by is None or progress.waits
        else f" (limited by {progress.limited_by.replace('_', ' ')})"
    )
    return f"{rate}{ceiling}{limited}"


def short_rate(progress: Progress) -> str:
    """`42.2/s of 250/s`, for a narrow terminal."""
    rate = "rate unknown" if progress.rate_per_second is None else format_rate(progress.rate_per_second)
    return rate if progress.ceiling_per_second is None else f"{rate} of {format_rate(progress.ceiling_per_second)}"


class _Pace:
    """Lets the first call through, then one per interval."""

    def __init__(self, every_s: float, monotonic_s: Callable[[], float]) -> None:
        self._every_s = every_s
        self._monotonic_s = monotonic_s
        self._next_s: float | None = None

    def is_due(self) -> bool:
        now_s = self._monotonic_s()
        if self._next_s is not None and now_s < self._next_s:
            return False
        self._next_s = now_s + self._every_s
        return True


@asynccontextmanager
async def shown(show: Callable[[], None]) -> AsyncIterator[None]:
    """Show the progress while the block runs, and once more at its end."""

    async def keep_showing() -> None:
        while True:
            show()
            await asyncio.sleep(SHOW_EVERY_S)

    showing = asyncio.get_running_loop().create_task(keep_showing(), name="progress")
    try:
        yield
    finally:
        showing.cancel()
        show()
