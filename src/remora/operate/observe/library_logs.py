"""How are warnings of our libraries logged? Each once a minute, with a count and without its traceback.

A thousand half-open connections once wrote 36 MB of tracebacks. The class of the error and where it was raised are enough
to look it up; arguments are left out, because they may hold addresses and headers.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb
from typing import Final

import structlog

log = structlog.get_logger()

LIBRARIES: Final = ("aiohttp", "asyncio", "psycopg")
TOLD_EVERY_S: Final = 60.0
COMPLAINTS_MAX: Final = 64
CHARACTERS_MAX: Final = 120
OTHERS: Final = "others"


class LibraryLogs(logging.Handler):
    """Turns log records of libraries into our events."""

    def __init__(self, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._monotonic_s = monotonic_s
        self._told: dict[str, tuple[float, int]] = {}  # when it was last logged, and how often it came since

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record, or only count it."""
        # The text before its arguments are filled in; asyncio puts details on further lines.
        what = f"{record.name}: {str(record.msg).partition(chr(10))[0][:CHARACTERS_MAX]}"
        if what not in self._told and len(self._told) >= COMPLAINTS_MAX:
            what = OTHERS
        now_s = self._monotonic_s()
        told_s, left_out = self._told.get(what, (now_s - TOLD_EVERY_S, 0))
        if now_s - told_s < TOLD_EVERY_S:
            self._told[what] = (told_s, left_out + 1)
            return
        self._told[what] = (now_s, 0)
        log.warning("library_warning", what=what, error=_error(record), at=_place(record), count=left_out + 1)


def hear_libraries() -> None:
    """Log the records of libraries as our events. Another call replaces the earlier handler."""
    handler = LibraryLogs()
    for name in LIBRARIES:
        logger = logging.getLogger(name)
        for old in [each for each in logger.handlers if isinstance(each, LibraryLogs)]:
            logger.removeHandler(old)
        logger.addHandler(handler)


def _error(record: logging.LogRecord) -> str | None:
    return record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] is not None else None


def _place(record: logging.LogRecord) -> str | None:
    frames = extract_tb(record.exc_info[2], limit=-1) if record.exc_info else None
    return f"{Path(frames[0].filename).name}:{frames[0].lineno}" if frames else None
