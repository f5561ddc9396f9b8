"""What did *we* do wrong, and what should the operator do next? Provider behaviour is never an exception.

RemoraError
├── ConfigurationError      exit 2: something the owner wrote cannot work
└── StoreError              exit 1: the local copy cannot be read or written
    ├── StoreUnavailable    retryable: it may work in a moment
    │   └── StoreUnreachable    exit 2: it did not answer when it was to be opened
    ├── StoreBusy           another process holds the store
    └── StoreForeign        the file or database is not ours, or from a newer version; exit 2
"""

from enum import IntEnum


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


class StoreError(RemoraError):
    """The local copy cannot be read or written."""


class StoreUnavailable(StoreError):
    """The store does not answer now; it may in a moment."""

    retryable = True


class StoreUnreachable(StoreUnavailable):
    """The store did not answer when it was to be opened: its address may be wrong."""

    exit_code = Exit.USAGE


class StoreBusy(StoreError):
    """Another process holds the store."""


class StoreForeign(StoreError):
    """The file or database is not a Remora store, or was written by a newer version."""

    exit_code = Exit.USAGE
