"""How does an export of items into one file go on after an interruption? Its place is remembered beside the unfinished file.

The file gets its name only when it is complete. Until then it ends in `.part`, and `.progress` says which of its bytes are
on the disk and which item comes next. What was written after that is cut off.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from remora.core.errors import DISK_ERRORS, ConfigurationError, RemoraError
from remora.files import PRIVATE_FILE, NotAFile, file_to_write, open_alone, put_in_place, sync_file, write_whole

WRITE_BUFFER_BYTES: Final = 1 << 20
# The place is remembered after this many rows, a few seconds of work: it costs a wait for the disk.
REMEMBER_EVERY_ROWS: Final = 100_000


class Progress(msgspec.Struct, frozen=True):
    """How far a file is: the rows and bytes that are on the disk, and the item that comes next."""

    asked: str = ""
    rows: int = 0
    size: int = 0
    next_id: int = 0


@dataclass
class Target:
    """Where lines are written, and what of it is there already."""

    file: BinaryIO
    rows: int = 0
    next_id: int = 0
    remember: Callable[[int, int], None] | None = None  # the rows in the file, and the item that comes next
    tell: Callable[[int], None] = lambda _: None
    _remembered: int = 0

    def begin(self, first_id: int) -> int:
        """The first item that is still to be written."""
        self._remembered = self.rows
        return max(first_id, self.next_id)

    def wrote(self, rows: int, next_id: int | None) -> None:
        """So many rows are in the file now. Without an item that comes next the place cannot be remembered."""
        self.rows += rows
        self.tell(self.rows)
        if self.remember is not None and next_id is not None and self.rows - self._remembered >= REMEMBER_EVERY_ROWS:
            self.remember(self.rows, next_id)
            self._remembered = self.rows


@contextmanager
def resumable_file(path: Path, asked: str) -> Iterator[Target]:
    """A file that gets its name only when it is complete and on the disk. Only its owner may read it.

    `asked` says what is in it: an unfinished file of something else is begun anew.
    """
    path = check_file(path)
    part, place = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.progress")
    try:
        with _opened(part, path) as file:
            try:
                done = _begin(file, place, asked)

                def remember(rows: int, next_id: int) -> None:
                    sync_file(file)
                    write_whole(place, msgspec.json.encode(Progress(asked, rows, file.tell(), next_id)))

                yield Target(file, done.rows, done.next_id, remember)
                sync_file(file)
                place.unlink(missing_ok=True)
                put_in_place(part, path)
            except BaseException:
                if not place.exists():
                    part.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise unwritable(path, error) from None


def being_written(path: Path) -> ConfigurationError:
    """The error for a file or folder that another process is writing."""
    return ConfigurationError(
        f"another process is writing {path}", hint="wait until it has ended, or name another place"
    )


def check_file(path: Path) -> Path:
    """Where the file is written: a link is followed. Refuses a folder that does not exist, and what is no file."""
    try:
        place = file_to_write(path)
    except NotAFile as error:
        raise ConfigurationError(
            f"{path} is {error.strerror}, not a file",
            hint="name a file, or leave out --out and redirect stdout, as remora export > PATH or remora export | COMMAND",
        ) from None
    except OSError as error:
        raise unwritable(path, error) from None
    if not place.parent.is_dir():
        raise _refused(path, "there is no such folder")
    return place


def unwritable(path: Path, error: OSError) -> RemoraError:
    """The error for a file or folder that cannot be written: a full disk fails the command, a wrong path is refused."""
    if error.errno in DISK_ERRORS:
        return RemoraError(
            f"{path} cannot be written ({error.strerror})", hint="free some space, then run the same command again"
        )
    return _refused(path, error.strerror)


def _refused(path: Path, why: str | None) -> ConfigurationError:
    return ConfigurationError(f"{path} cannot be written ({why})", hint="write a path in an existing folder")


def _opened(part: Path, path: Path) -> BinaryIO:
    try:
        return os.fdopen(open_alone(part, os.O_RDWR | os.O_CREAT), "r+b", WRITE_BUFFER_BYTES)
    except BlockingIOError:
        raise being_written(path) from None


def _begin(file: BinaryIO, place: Path, asked: str) -> Progress:
    """Where to go on in the unfinished file. What comes after that is cut off, or all of it if it is something else."""
    done = _progress(file, place, asked)
    if not done.rows:
        place.unlink(missing_ok=True)
        os.fchmod(file.fileno(), PRIVATE_FILE)
    file.truncate(done.size)
    file.seek(done.size)
    return done


def _progress(file: BinaryIO, place: Path, asked: str) -> Progress:
    try:
        done = msgspec.json.decode(place.read_bytes(), type=Progress)
    except (OSError, msgspec.DecodeError):
        return Progress()  # there is none, or none that can be used
    is_of_this = done.asked == asked and os.fstat(file.fileno()).st_size >= done.size > 0
    return done if is_of_this else Progress()
