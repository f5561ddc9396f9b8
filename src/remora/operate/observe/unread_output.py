"""What if nobody reads what we write to stderr? Lines are left out and counted; nothing waits for a reader for long.

The reader of a pipe may pause (`remora up 2>&1 | less`) or hang. A write that waits for it would stop the whole process:
its loops, its console, and the signal that asks it to end. A file on a full disk takes no lines either, for as long as it is full.
"""

import os
import select
import sys
from collections.abc import Callable
from threading import Lock
from typing import Final

from remora.core.errors import DISK_ERRORS
from remora.operate.observe.terminal_guard import terminal_of

# A reader that is slow is waited for once; until it reads again, nothing waits.
READER_MAX_S: Final = 0.5
LINES_LEFT_OUT: Final = "log_lines_left_out"


class UnblockedStderr:
    """What logs write to. Looks up stderr at every write, because a progress bar may have replaced it."""

    def __init__(self, left_out_line: Callable[[int], str]) -> None:
        """`left_out_line` says how many lines were left out, as one more line."""
        self._left_out_line = left_out_line
        self._left_out = 0
        self._rest = b""  # of a line that was begun
        self._is_stuck = False
        self._writing = Lock()

    def write(self, text: str) -> int:
        """Write whole lines, or leave them out."""
        descriptor = _descriptor_of_stderr()
        if descriptor is None:
            return terminal_of(sys.stderr).write(text)
        with self._writing:
            if not self._write_rest(descriptor):
                self._left_out += 1
                return len(text)
            if self._left_out:
                text = f"{self._left_out_line(self._left_out)}\n{text}"
                self._left_out = 0
            self._rest = text.encode("utf-8", "backslashreplace")
            self._write_rest(descriptor)
        return len(text)

    def flush(self) -> None:
        """Every write is one."""
        if _descriptor_of_stderr() is None:
            terminal_of(sys.stderr).flush()

    def _write_rest(self, descriptor: int) -> bool:
        """Write what was begun, as far as there is room; whether all of it is written."""
        rest, self._rest = self._rest, b""  # forgotten if stderr is closed
        while rest:
            wait_s = 0.0 if self._is_stuck else READER_MAX_S
            self._is_stuck = not select.select([], [descriptor], [], wait_s)[1]
            if self._is_stuck:
                self._rest = rest
                return False
            try:
                rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]  # so much fits where there is room at all
            except OSError as error:
                if error.errno not in DISK_ERRORS:
                    raise
                self._rest = rest
                return False
        return True


def _descriptor_of_stderr() -> int | None:
    """None for a terminal, which its owner can release, and for what a program has put in its place."""
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, AttributeError, ValueError):
        return None
    return None if os.isatty(descriptor) else descriptor
