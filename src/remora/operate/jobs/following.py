"""How does a named reader follow the change feed? From where it was; what it has worked on is remembered in the store."""

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Final, Self

from remora.contracts.reader import Change
from remora.operate.jobs.startup_checks import naming_store
from remora.read.mirror import MirrorReader
from remora.stores.keeping import open_housekeeping

# Stands between a reader's name and the one source that it reads; no name has it.
OF_SOURCE: Final = " --source "


def name_in_store(name: str, source: str | None) -> str:
    """What a reader is called in the store. One that reads a single source has a position of its own.

    With one position for both, a reader of one source would pass over the changes of the others for good.
    """
    return name if source is None or OF_SOURCE in name else f"{name}{OF_SOURCE}{source}"


class NamedFeed:
    """The changes that a named reader has not worked on yet. Every change is delivered at least once.

    A reader of one source gets all pages, too, and leaves out the rest of them.
    """

    def __init__(self, url: str, name: str, *, source: str | None = None) -> None:
        self._url = url
        self._name = name_in_store(name, source)
        self._store = open_housekeeping(url)

    async def __aenter__(self) -> Self:
        with naming_store(self._url):
            await self._store.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._store.close()

    async def pages(self, mirror: MirrorReader, *, follow: bool) -> AsyncIterator[Sequence[Change]]:
        """Pages of changes in order. A new reader begins at the oldest change, and is waited for from now on."""
        position = await self.position()
        if position is None:
            position = "0"
            await self.done(position, now_ns=0)
        async for page in mirror.change_pages(since=position, follow=follow):
            yield page

    async def position(self) -> str | None:
        """How far this reader is; None if it is new."""
        known = {reader.name: reader.position for reader in await self._store.named_readers()}
        return known.get(self._name)

    async def done(self, position: str, *, now_ns: int) -> None:
        """Everything up to this position was worked on."""
        await self._store.keep_position(self._name, position, now_ns=now_ns)

    async def forget(self) -> None:
        """No longer keep changes for this reader."""
        await self._store.forget_reader(self._name)
