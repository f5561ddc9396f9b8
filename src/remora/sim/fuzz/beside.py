"""What is a program given that works beside the service, on the same file? Its calls meet the service's at every moment."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar, cast

from remora.contracts.reader import MirroredDocument, MirroredItem, Reader
from remora.core.units import SECOND_NS
from remora.sim.clock import SimClock
from remora.sim.fuzz.judge import Judge
from remora.stores.sqlite import InPlace
from remora.stores.sqlite.keeping import SqliteHousekeeping
from remora.stores.sqlite.reading import SqliteReader
from remora.stores.sqlite.search import SqliteSearchIndex

FIND_SECONDS_MAX: Final = 30.0
_LATER_SHARE: Final = 0.3
_PAGE_ROWS: Final = 500
_LAST_ID: Final = 2**63 - 1

Port = TypeVar("Port")
Thing = tuple[str, str, str]  # source, kind and key


@dataclass(frozen=True, slots=True)
class Beside:
    """A program beside the service. Its chance is its own, so that the world stays as it was without it."""

    path: Path  # of the mirror
    clock: SimClock
    judge: Judge
    chance: Random
    pause_s: float  # between two things that it does

    def wall_ns(self) -> int:
        """What a program that is started now takes for the time."""
        return self.clock.restarted().wall_ns()

    def reader(self) -> SqliteReader:
        """The mirror, to be read."""
        return SqliteReader(self.path, offload=InPlace)

    def index(self) -> SqliteSearchIndex:
        """The search index of the mirror."""
        return SqliteSearchIndex(self.path, seconds_max=FIND_SECONDS_MAX, offload=InPlace)

    def keeping(self) -> SqliteHousekeeping:
        """Housekeeping for the mirror."""
        return SqliteHousekeeping(self.path, offload=InPlace)

    async def rest(self, seconds: float | None = None) -> None:
        """Do nothing for a while."""
        wait_s = self.chance.uniform(0.2, 1.8) * self.pause_s if seconds is None else seconds
        await self.clock.sleep_until(self.clock.monotonic_ns() + round(wait_s * SECOND_NS))

    def slowly(self, port: Port) -> Port:
        """The same port. Some of its calls begin after a pause, so that other programs come in between."""
        return cast("Port", _Slow(port, self))


class _Slow:
    def __init__(self, port: object, beside: Beside) -> None:
        self._port = port
        self._beside = beside

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        return method if not callable(method) else lambda *args, **kwargs: self._later(partial(method, *args, **kwargs))

    async def _later(self, call: Callable[[], Awaitable[Any]]) -> Any:
        if self._beside.chance.random() < _LATER_SHARE:
            await self._beside.rest(self._beside.chance.uniform(0.0, self._beside.pause_s))
        return await call()


async def all_items(reader: Reader, source: str) -> Sequence[MirroredItem]:
    """Every item of a source."""
    found: list[MirroredItem] = []
    while page := await reader.item_page(
        source, first_id=found[-1].id + 1 if found else 0, last_id=_LAST_ID, changed_since_ns=0, limit=_PAGE_ROWS
    ):
        found.extend(page)
    return found


async def all_documents(reader: Reader, source: str) -> Sequence[MirroredDocument]:
    """Every document of a source that has a body."""
    found: list[MirroredDocument] = []
    while page := await reader.document_page(
        source, after=found[-1].key if found else "", fetched_since_ns=0, limit=_PAGE_ROWS
    ):
        found.extend(page)
    return found


async def everything(reader: Reader) -> dict[Thing, bytes | None]:
    """Every item and document that the mirror holds."""
    held: dict[Thing, bytes | None] = {}
    for source in await reader.sources():
        if source.is_listed:
            held |= {(source.name, "document", one.key): one.body for one in await all_documents(reader, source.name)}
        else:
            held |= {(source.name, "item", str(one.id)): one.body for one in await all_items(reader, source.name)}
    return held


async def body_of(reader: Reader, thing: Thing) -> bytes | None:
    """What the mirror holds of one thing now."""
    source, kind, key = thing
    match kind:
        case "item":
            return next((item.body for item in await reader.items(source, [int(key)])), None)
        case "document":
            document = await reader.document(source, key)
            return None if document is None else document.body
        case _:
            profile = await reader.user(source, key)
            return None if profile is None else profile.body
