"""How is progress shown on a terminal? As a bar with rate, ceiling, gaps and time left."""

import sys
import time
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from remora.core.texts import escaped
from remora.operate.jobs.progress import TERMINAL_EVERY_S, Progress, left_in_words, rate_in_words, short_rate
from remora.operate.observe.terminal_guard import terminal_of

REFRESH_PER_S: Final = 5
# On a narrower terminal the counts would be cut off, so the rate is told without its cause.
WIDE_COLUMNS: Final = 112
NARROW_BAR: Final = 6


class TerminalView:
    """A live bar on stderr."""

    def __init__(self, console: Console | None = None) -> None:
        console = console or Console(file=terminal_of(sys.stderr))
        self._is_wide = console.width >= WIDE_COLUMNS
        self._bar = Bar(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None if self._is_wide else NARROW_BAR),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[gaps]}"),
            TextColumn("{task.fields[left]}"),
            console=console,
            refresh_per_second=REFRESH_PER_S,
            transient=False,
        )
        self._tasks: dict[str, TaskID] = {}
        self._next_s = 0.0
        self._last: Progress | None = None

    def say(self, text: str) -> None:
        self._bar.console.print(escaped(text), highlight=False)

    def show(self, progress: Progress) -> None:
        self._last = progress
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + TERMINAL_EVERY_S
            self._draw(progress)

    def close(self) -> None:
        if self._last is not None:
            self._draw(self._last)
        self._bar.stop()

    def _draw(self, progress: Progress) -> None:
        if not self._tasks:
            self._bar.start()
        gaps = "" if progress.gaps is None else f"{progress.gaps:,} gap{'' if progress.gaps == 1 else 's'}"
        rate = rate_in_words(progress) if self._is_wide else short_rate(progress)
        left = left_in_words(progress)
        if progress.source not in self._tasks:
            self._tasks[progress.source] = self._bar.add_task(
                progress.source, total=progress.total, rate=rate, gaps=gaps, left=left
            )
        task = self._tasks[progress.source]
        self._bar.update(task, completed=progress.done, total=progress.total, rate=rate, gaps=gaps, left=left)
