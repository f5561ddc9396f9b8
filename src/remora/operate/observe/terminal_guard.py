"""Can a stranger's words act on the terminal? What is printed there passes a guard that prints such characters as numbers.

A terminal obeys control characters: they recolour it, rename its window, move the cursor or hide a line. They may come from
a provider, a file or an argument. Only our own sequences pass the guard by, through `terminal_of`. A file or a pipe has no guard.
"""

# ruff: noqa: PLC0415

import codecs
import io
import sys
from typing import TextIO


def guard_terminals() -> None:
    """From now on stdout and stderr are guarded where they are terminals."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.isatty():
        sys.stdout = guarded(sys.stdout)
    if isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr.isatty():
        sys.stderr = guarded(sys.stderr)


def terminal_of(stream: TextIO) -> TextIO:
    """The terminal behind the guard, for words of our own; the stream itself where there is no guard."""
    raw = getattr(stream.buffer, "raw", None) if isinstance(stream, io.TextIOWrapper) else None
    return raw.terminal if isinstance(raw, _Guard) else stream


def guarded(terminal: io.TextIOWrapper) -> io.TextIOWrapper:
    """A stream of text or bytes to this terminal; what the terminal would obey is printed as its number."""
    guard = io.BufferedWriter(_Guard(terminal))
    return io.TextIOWrapper(guard, terminal.encoding, errors="backslashreplace", line_buffering=True)


class _Guard(io.RawIOBase):
    """Where the bytes of both ways to print arrive, those of text and those of a file that is printed as it is."""

    def __init__(self, terminal: io.TextIOWrapper) -> None:
        self.terminal = terminal
        # A character may arrive in pieces.
        self._decoder = codecs.getincrementaldecoder(terminal.encoding)("backslashreplace")

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.terminal.fileno()

    def write(self, piece: object, /) -> int:
        from remora.core.texts import escaped

        data = bytes(memoryview(piece))  # type: ignore[arg-type]
        self.terminal.write(escaped(self._decoder.decode(data)))
        self.terminal.flush()
        return len(data)
