"""Which process may write a SQLite store? One at a time, whatever name it opened the file by."""

import fcntl
import os
import struct
import sys
from contextlib import suppress
from errno import EACCES, EAGAIN, EINVAL
from pathlib import Path
from threading import Lock
from typing import Final

from remora.core.errors import StoreBusy, StoreUnavailable
from remora.files import PRIVATE_FILE
from remora.stores.sqlite.database import unusable

LOCK_SUFFIX: Final = ".lock"
PROCESS_ID_BYTES_MAX: Final = 20
# SQLite locks bytes near 1 GiB. This one is beyond the end of any database, so the two never meet.
IDENTITY_BYTE: Final = 1 << 62
# How many descriptors of database files stay open although nobody writes; see `_put_aside`.
SPARE_MAX: Final = 16


class WriterLock:
    """The right to write one store. At most one process holds it; the system frees it when that process ends.

    It consists of two locks. The first is a file beside the real path, so a symbolic link leads to the same lock, and
    the name of a store that was moved or deleted while in use stays taken. The second is on the database file itself,
    so a hard link, a new name or another mount of the same file is refused as well.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name_file: int | None = None
        self._database_file: int | None = None

    def take(self) -> None:
        """Take both locks, or raise `StoreBusy`. Creates an empty database file if there is none."""
        real_path = Path(os.path.realpath(self._path))
        try:
            self._lock_name(real_path)
            self._lock_identity(real_path)
        except OSError as error:
            self.free()
            raise unusable(self._path, error) from error
        except BaseException:
            self.free()
            raise

    def free(self) -> None:
        """Let others write. The lock file stays: if it were removed, two processes could lock two files of one name."""
        if self._database_file is not None:
            _put_aside(self._database_file)
        if self._name_file is not None:
            os.close(self._name_file)
        self._database_file = self._name_file = None

    def _lock_name(self, real_path: Path) -> None:
        file = os.open(
            real_path.with_name(real_path.name + LOCK_SUFFIX), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE
        )
        self._name_file = file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(file, PROCESS_ID_BYTES_MAX).decode("ascii", "replace").strip()
            raise self._busy(f" ({holder})" if holder else "", "") from error
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)

    def _lock_identity(self, real_path: Path) -> None:
        file = self._database_file = _open_database(real_path)
        if not _lock_byte(file):
            raise self._busy("", " under another name")
        if not os.path.samestat(os.fstat(file), real_path.stat()):
            raise StoreUnavailable(f"{self._path} was replaced while it was opened", hint="start again")

    def _busy(self, who: str, how: str) -> StoreBusy:
        return StoreBusy(
            f"another process{who} writes {self._path.name}{how}",
            hint="stop it first, or use PostgreSQL to share a store",
        )


# Descriptors of database files that nobody needs now, the oldest first.
_spare: list[int] = []
_changing_spare = Lock()


def _open_database(path: Path) -> int:
    """A descriptor of this file; it is created if there is none."""
    with _changing_spare:
        for file in _spare:
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), path.stat()):
                    _spare.remove(file)
                    return file
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)


def _put_aside(file: int) -> None:
    """Free the lock without closing the descriptor.

    Closing any descriptor of a file frees all POSIX locks of the process on it. If a reader of this process has the file
    open, SQLite does not notice, and the next writer of this process takes no lock: its log is deleted by the next process
    that closes the file.
    """
    with suppress(OSError):  # the file system has no such locks
        _set_lock(file, fcntl.F_UNLCK)
    with _changing_spare:
        _spare.append(file)
        unused = [spare for spare in _spare if len(_spare) > SPARE_MAX and not _is_open_elsewhere(spare)]
        for spare in unused[: len(_spare) - SPARE_MAX]:
            _spare.remove(spare)
            os.close(spare)


def _is_open_elsewhere(file: int) -> bool:
    """Whether another descriptor of this process is of the same file."""
    wanted = os.fstat(file)
    for other in Path("/dev/fd").iterdir():
        with suppress(OSError):  # the descriptor of the listing itself is closed by now
            if int(other.name) != file and os.path.samestat(os.fstat(int(other.name)), wanted):
                return True
    return False


def _lock_byte(file: int) -> bool:
    """Lock the file's identity byte; False when another open file holds it.

    An open-file-description lock, not `flock`: it cannot collide with SQLite's own locks, and a second store of the same
    process is refused like one of another process. Where the system has none, only the name lock protects.
    """
    try:
        _set_lock(file, fcntl.F_WRLCK)
    except OSError as error:
        if error.errno in {EACCES, EAGAIN}:
            return False
        if error.errno != EINVAL:
            raise
    return True


def _set_lock(file: int, kind: int) -> None:
    if sys.platform == "linux":
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", kind, os.SEEK_SET, IDENTITY_BYTE, 1, 0))
