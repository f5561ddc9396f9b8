"""How does `remora store backup` work? It copies a SQLite file beside its writer, and says what to do for PostgreSQL."""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from remora.core.errors import ConfigurationError
from remora.core.status.answers import iso
from remora.files import end_of_links, room_for
from remora.operate.config.settings import Settings
from remora.operate.jobs.keeping import size_on_disk
from remora.stores import is_shared, sqlite_file
from remora.stores.sqlite.backup import back_up
from remora.stores.sqlite.database import check_place

PagesCopied = Callable[[int, int], None]


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    file: str
    size_bytes: int
    as_of: str  # everything that was recorded until then is in it
    is_checked: bool  # False: it is so large that only a part was checked


def back_up_store(settings: Settings, target: str, *, progress: PagesCopied) -> BackedUp:
    """Write a consistent copy of the configured store to a new file."""
    url = settings.store.url
    if is_shared(url):
        raise ConfigurationError(
            "a PostgreSQL store is backed up by its own tools",
            hint=f"run `pg_dump --format=custom --file={target}` with the address of the store",
        )
    path, new = sqlite_file(url), Path(target)
    if path is None:
        raise ConfigurationError("only a SQLite store has a file to back up", hint="name it with --store")
    check_place(path, read_only=True)
    _check_room(url, end_of_links(new))
    as_of = iso(time.time_ns())
    is_checked = back_up(path, new, progress=progress)
    return BackedUp(file=str(new), size_bytes=new.stat().st_size, as_of=as_of, is_checked=is_checked)


def _check_room(url: str, target: Path) -> None:
    size = size_on_disk(url)
    if size is None or not target.parent.is_dir():
        return
    free = room_for(target)
    if free < size:
        raise ConfigurationError(
            f"the backup needs up to {size:,} bytes; {target.parent} has {free:,} left",
            hint="make room, or name a file on another disk",
        )
