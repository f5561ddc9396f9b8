"""How does `remora export --follow` work? It brings a folder up to date, again and again, and is waited for as a reader."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from remora.core.errors import ConfigurationError
from remora.operate.jobs.following import NamedFeed
from remora.read.export import Wanted
from remora.read.lake import Lake
from remora.read.mirror import MirrorReader

LOOK_EVERY_S: Final = 10.0


async def follow_into(
    mirror: MirrorReader, url: str, wanted: Wanted, folder: Path, *, tell: Callable[[int], None], once: bool = False
) -> int:
    """Keep a folder fresh until cancelled, or until it has everything; returns how many changes it read."""
    lake, count = Lake(folder, wanted.source, is_listed=wanted.is_listed), 0
    async with NamedFeed(url, reader_name(folder)) as feed:
        is_new = await feed.position() is None
        if is_new:
            # From here on no change is deleted before the folder has it.
            await feed.done(await mirror.newest_position(), now_ns=time.time_ns())
        try:
            await _open(lake, mirror, feed, tell, is_new=is_new)
            while True:
                while step := await lake.run_once(mirror):
                    count += step
                    tell(count)
                    assert lake.position is not None, "it has read something"
                    await feed.done(lake.position, now_ns=time.time_ns())
                if once:
                    return count
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            lake.close()


async def _open(
    lake: Lake, mirror: MirrorReader, feed: NamedFeed, tell: Callable[[int], None], *, is_new: bool
) -> None:
    try:
        await lake.open(mirror, tell=tell)
    except ConfigurationError:
        if is_new:  # a folder that was refused must not keep changes for ever
            await feed.forget()
        raise


def reader_name(folder: Path) -> str:
    """The named reader that stands for a folder."""
    return f"lake {folder.absolute()}"
