"""How much of a disk does SQLite leave free? A reserve, so that a full disk never stops it in the middle of its work."""

from pathlib import Path
from typing import Final

from remora.core.errors import StoreUnavailable
from remora.core.quantities import format_size
from remora.files import room_for

# Nothing is written once the disk has less than this.
RESERVE_BYTES: Final = 256 << 20


def check_room(path: Path, reserve_bytes: int) -> None:
    """Refuse to write on a disk that is almost full. A service tries again, and goes on when there is room."""
    try:
        free = room_for(path)
    except OSError:
        return  # unknown: the write itself will tell
    if free < reserve_bytes:
        raise StoreUnavailable(
            f"the disk of {path} is full: {format_size(free)} free, and {format_size(reserve_bytes)} are kept free",
            hint="make room; a service goes on by itself, another command goes on when it is run again (remora store stats, remora store compact)",
        )
