"""How is a SQLite store backed up while a process writes it? As one snapshot, read step by step into a new file.

A read transaction keeps the state of one moment while the writer continues. Without it, SQLite would begin the copy again
after every commit of another process, and never end beside a busy writer.
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from remora.core.errors import ConfigurationError, StoreUnavailable
from remora.files import PRIVATE_FILE, end_of_links, open_alone, put_in_place, sync_path
from remora.stores.sqlite.database import connect_reader, explained, find_damage
from remora.stores.sqlite.statements import queries

# 16 MiB: a step is short, so that Ctrl-C ends the copy soon.
PAGES_PER_STEP: Final = 4_096
# The longest time that a new backup is checked for damage; a file of tens of gigabytes is checked in part.
CHECK_SECONDS_MAX: Final = 120.0

Progress = Callable[[int, int], None]  # pages that are copied, and all


def back_up(path: Path, target: Path, *, progress: Progress, pages_per_step: int = PAGES_PER_STEP) -> bool:
    """Write a consistent copy of the store to a new file. True if all of it was checked in time.

    The file appears under its name only when it is whole. An interrupted backup leaves nothing behind; what a killed one
    left is replaced.
    """
    target = end_of_links(target)
    _check_target(target)
    part = target.with_name(f"{target.name}.part")
    opened = _begin(part)
    try:
        _copy(path, part, progress, pages_per_step)
        is_whole = _check(part)
        sync_path(part)
        put_in_place(part, target)
    except BaseException:
        _remove(part)
        raise
    finally:
        os.close(opened)
    return is_whole


def _begin(part: Path) -> int:
    """An empty file that no other backup writes, until it is closed."""
    try:
        opened = open_alone(part, os.O_RDWR | os.O_CREAT)
    except BlockingIOError:
        raise ConfigurationError(
            f"another process is writing {part}", hint="wait until it has ended, or name another file"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{part} cannot be written ({error.strerror})", hint="name another file") from None
    os.ftruncate(opened, 0)
    os.fchmod(opened, PRIVATE_FILE)
    _remove_log(part)
    return opened


def _remove(part: Path) -> None:
    _remove_log(part)
    part.unlink(missing_ok=True)


def _remove_log(part: Path) -> None:
    """SQLite would take up what a killed process left beside the file."""
    for suffix in ("-journal", "-wal", "-shm"):
        part.with_name(f"{part.name}{suffix}").unlink(missing_ok=True)


def _check(part: Path) -> bool:
    """Refuse a damaged copy. True if all of it was checked in time."""
    damage, is_whole = find_damage(part, seconds_max=CHECK_SECONDS_MAX)
    if damage is not None:
        raise StoreUnavailable(
            f"the backup is damaged: {damage}", hint="run `remora check`: is the store itself whole?"
        )
    return is_whole


def _check_target(target: Path) -> None:
    if target.exists():
        raise ConfigurationError(
            f"there is already a file {target}", hint="a backup overwrites nothing: name a new file"
        )
    if not target.parent.is_dir():
        raise ConfigurationError(f"there is no folder {target.parent}", hint="create it, or name another file")


def _copy(path: Path, part: Path, progress: Progress, pages_per_step: int) -> None:
    # An older one, too: a backup is wanted before its tables are brought up to date.
    source = connect_reader(path, of_any_version=True)
    try:
        copied = sqlite3.connect(part, isolation_level=None)
        try:
            source.execute("BEGIN")
            source.execute(queries()["begin_snapshot"]).fetchone()
            source.backup(
                copied, pages=pages_per_step, progress=lambda _status, left, whole: progress(whole - left, whole)
            )
            # One file without a log beside it; whoever writes it next begins a log again.
            copied.execute("PRAGMA journal_mode = DELETE")
        finally:
            copied.close()
    except sqlite3.Error as error:
        raise explained(error, path) from error
    finally:
        source.close()
