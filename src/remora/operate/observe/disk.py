"""How much room does the mirror take, how fast does it grow, and how much is left? Known for a file, not for a server."""

from collections import deque
from typing import Final

from remora.core.status.model import Disk
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS
from remora.files import room_for
from remora.stores import sqlite_file
from remora.stores.sqlite.database import search_file, size_with_log
from remora.stores.sqlite.reserve import RESERVE_BYTES

SAMPLE_EVERY_NS: Final = MINUTE_NS
SAMPLES_MAX: Final = HOUR_NS // SAMPLE_EVERY_NS + 1


class DiskGauge:
    """Reads the size of the store's files, and remembers an hour of it to tell the growth."""

    def __init__(self, store_url: str) -> None:
        self._file = sqlite_file(store_url)
        self._samples: deque[tuple[int, int]] = deque(maxlen=SAMPLES_MAX)

    def read(self, *, now_ns: int) -> Disk | None:
        """The room taken and left; None for a store that is not a file here."""
        if self._file is None:
            return None
        try:
            # The search index lies beside the mirror. A backup there, or another file with a longer name, is no part of it.
            size = sum(map(size_with_log, (self._file, search_file(self._file))))
            free = room_for(self._file)
        except OSError:
            return None
        if not self._samples or now_ns - self._samples[-1][0] >= SAMPLE_EVERY_NS:
            self._samples.append((now_ns, size))
        since_ns, was = self._samples[0]
        over_ns = now_ns - since_ns
        # A minute of a backfill says nothing about a day: a rate by the day needs an hour.
        a_day = max(0, (size - was) * DAY_NS // over_ns) if over_ns >= HOUR_NS else None
        is_measured = over_ns >= SAMPLE_EVERY_NS
        return Disk(
            size_bytes=size,
            growth_bytes_per_day=a_day,
            grown_bytes=max(0, size - was) if is_measured else None,
            grown_over_ns=over_ns if is_measured else None,
            free_bytes=free,
            kept_free_bytes=RESERVE_BYTES,
        )
