"""How does `remora export --follow` work? It brings a folder up to date, again and again, and is waited for as a reader."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from remora.core.errors import ConfigurationError
from remora.operate.jobs.following import NamedFeed, Patience
from remora.read.export import Wanted
from remora.read.lake import Lake
from remora.read.mirror import MirrorReader
from remora.read.resumable import unwritable

LOOK_EVERY_S: Final = 10.0


async def follow_into(
    mirror: MirrorReader,
    url: str,
    wanted: Wanted,
    folder: Path,
    *,
    tell: Callable[[int], None],
    patience: Patience,
    once: bool = False,
) -> int:
    """Keep a folder fresh until cancelled, or until it has everything; returns how many changes it read."""
    lake, count = Lake(folder, wanted.source, is_listed=wanted.is_listed), 0
    async with NamedFeed(url, reader_name(folder), patience=patience) as feed:
        position = await feed.position()
        is_new = position is None
        if position is None:
            # From here on no change is deleted before the folder has it.
            position = await mirror.newest_position()
            await feed.done(position, now_ns=time.time_ns())
        try:
            opening = lake.open(mirror, position=position, is_known=not is_new, store=wanted.store, tell=tell)
            await _open(opening, feed, is_new=is_new)
            while True:
                while step := await patience.with_answer(lambda: lake.run_once(mirror)):
                    count += step
                    tell(count)
                    assert lake.position is not None, "it has read something"
                    await feed.done(lake.position, now_ns=time.time_ns())
                if once:
                    return count
                await asyncio.sleep(LOOK_EVERY_S)
        except OSError as error:
            raise unwritable(folder, error) from None
        finally:
            lake.close()


async def _open(opening: Awaitable[None], feed: NamedFeed, *, is_new: bool) -> None:
    try:
        await opening
    except ConfigurationError:
        if is_new:  # a folder that was refused must not keep changes for ever
            await feed.forget()
        raise


def reader_name(folder: Path) -> str:
    """The named reader that stands for a folder."""
    return f"lake {folder.absolute()}"
