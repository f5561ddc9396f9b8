"""What did *we* do wrong, and what should the operator do next? Provider behaviour is never an exception.

RemoraError
├── ConfigurationError      exit 2: something the owner wrote cannot work
├── SourcePaused            exit 1: an operator paused the source, and nothing is sent for it
└── StoreError              exit 1: the local copy cannot be read or written
    ├── StoreUnavailable    retryable: it may work in a moment
    ├── StoreBusy           another process holds the store
    ├── SourceBusy          another process runs the source, on a store that several may write
    ├── StoreRefused        the database server rejects us until somebody acts; exit 2, but retryable
    └── StoreForeign        the file or database is not ours, or from a newer version; exit 2
        └── StoreEmpty      nothing is there yet, and it was opened to be read
"""

from enum import IntEnum
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from typing import Final

# What a disk says that is full or fails. The same command works when there is room.
DISK_ERRORS: Final = frozenset({ENOSPC, EDQUOT, EFBIG, EIO})


class Exit(IntEnum):
    """What the process tells its caller when it ends."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    BUDGET_USED = 75


class RemoraError(Exception):
    """One sentence about what is wrong, and a hint that says what to do or write instead."""

    exit_code: Exit = Exit.FAILED
    retryable: bool = False

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}"


class ConfigurationError(RemoraError):
    """Something the owner wrote cannot work."""

    exit_code = Exit.USAGE


class PositionLost(ConfigurationError):
    """The feed of changes cannot go on from this position without leaving some out."""


class SourcePaused(RemoraError):
    """An operator paused the source, so nothing is sent for it."""


class StoreError(RemoraError):
    """The local copy cannot be read or written."""


class StoreUnavailable(StoreError):
    """The store does not answer now; it may in a moment."""

    retryable = True


class StoreBusy(StoreError):
    """Another process holds the store."""


class SourceBusy(StoreError):
    """Another process runs this source, on a store that several processes may write."""


class StoreRefused(StoreError):
    """The database server rejects us until somebody corrects the address, the rights or the server.

    At startup that is bad input. A process that was connected before waits: the settings did work, and may again.
    """

    exit_code = Exit.USAGE
    retryable = True


class StoreForeign(StoreError):
    """The file or database is not a Remora store, or was written by a newer version."""

    exit_code = Exit.USAGE


class StoreEmpty(StoreForeign):
    """There is nothing to read yet; opening the store for writing creates it."""
