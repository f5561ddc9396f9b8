"""Is there room to store anything? A disk that is almost full needs a person, whatever else is known."""

import msgspec

from remora.core.quantities import format_size
from remora.core.status.model import Answer, Attention, Disk, Headline, SourceStatus, Standing, Status, YesNo


def full_disk(disk: Disk | None) -> str | None:
    """Why nothing can be stored, and what to do about it; None while there is room or nobody knows."""
    if disk is None or disk.free_bytes is None or disk.kept_free_bytes is None:
        return None
    if disk.free_bytes >= disk.kept_free_bytes:
        return None
    free, kept = format_size(disk.free_bytes), format_size(disk.kept_free_bytes)
    return f"the disk is full: {free} free, and {kept} are kept free; make room, and it goes on by itself"


def with_disk(status: Status, disk: Disk | None) -> Status:
    """The same status with the room on disk. A full disk is told before everything that follows from it."""
    why = full_disk(disk)
    sources = status.sources if why is None else {name: _stopped(one, why) for name, one in status.sources.items()}
    return msgspec.structs.replace(status, disk=disk, sources=sources)


def _stopped(source: SourceStatus, why: str) -> SourceStatus:
    if source.state == "stopped":
        return source  # it ended for a reason of its own, and nothing tries to write
    working = Answer(YesNo.NO, why, Attention.ACT)
    return msgspec.structs.replace(
        source,
        headline=Headline(Standing.ATTENTION, f"Needs attention: {why}"),
        answers=msgspec.structs.replace(source.answers, working=working),
        only_provider_is_down=False,
    )
