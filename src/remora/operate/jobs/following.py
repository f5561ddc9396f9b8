"""How does a named reader follow the change feed? From where it was; what it has worked on is remembered in the store.

Whoever follows until Ctrl-C waits while the store does not answer, as while its server starts again.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from remora.contracts.reader import Change
from remora.core.errors import StoreError
from remora.operate.jobs.startup_checks import naming_store
from remora.read.mirror import FOLLOW_EVERY_S, MirrorReader
from remora.stores.keeping import open_housekeeping

# Stands between a reader's name and the one source that it reads; no name has it.
OF_SOURCE: Final = " --source "
# How long a store that does not answer is left alone.
TRY_AGAIN_S: Final = 2.0

T = TypeVar("T")


class Patience:
    """Waits while the store does not answer, for as long as it takes, and tells once why."""

    def __init__(
        self, tell: Callable[[str], None], *, wait: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._tell = tell
        self._wait = wait
        self._is_told = False

    async def with_answer(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do this until the store answers."""
        while True:
            try:
                done = await work()
            except StoreError as error:
                await self.bear(error)
            else:
                self._is_told = False
                return done

    async def pages(self, mirror: MirrorReader, *, since: str) -> AsyncGenerator[Sequence[Change]]:
        """Pages of changes in order, for ever."""
        while True:
            try:
                async for page in mirror.change_pages(since=since):
                    self._is_told = False
                    yield page
                    since = page[-1].position
            except StoreError as error:
                await self.bear(error)
            else:
                self._is_told = False  # the store answered, perhaps with nothing new
                await asyncio.sleep(FOLLOW_EVERY_S)

    async def bear(self, error: StoreError) -> None:
        """Wait, unless waiting does not help."""
        if not error.retryable:
            raise error
        if not self._is_told:
            self._tell(f"waiting for the store: {error.message}")
        self._is_told = True
        await self._wait(TRY_AGAIN_S)


def name_in_store(name: str, source: str | None) -> str:
    """What a reader is called in the store. One that reads a single source has a position of its own.

    With one position for both, a reader of one source would pass over the changes of the others for good.
    """
    return name if source is None or OF_SOURCE in name else f"{name}{OF_SOURCE}{source}"


class NamedFeed:
    """The changes that a named reader has not worked on yet. Every change is delivered at least once.

    A reader of one source gets all pages, too, and leaves out the rest of them. Without patience a store that does not
    answer ends it.
    """

    def __init__(self, url: str, name: str, *, source: str | None = None, patience: Patience | None = None) -> None:
        self._url = url
        self._patience = patience
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
        if follow and self._patience is not None:
            pages = self._patience.pages(mirror, since=position)
        else:
            pages = mirror.change_pages(since=position, follow=follow)
        async for page in pages:
            yield page

    async def position(self) -> str | None:
        """How far this reader is; None if it is new."""
        known = {reader.name: reader.position for reader in await self._store.named_readers()}
        return known.get(self._name)

    async def done(self, position: str, *, now_ns: int) -> None:
        """Everything up to this position was worked on."""

        def keep() -> Awaitable[None]:
            return self._store.keep_position(self._name, position, now_ns=now_ns)

        await (keep() if self._patience is None else self._patience.with_answer(keep))

    async def forget(self) -> None:
        """No longer keep changes for this reader."""
        await self._store.forget_reader(self._name)
