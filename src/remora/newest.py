"""Which is the highest id of a source, and do we believe what it says? A far higher one must be proven by an item."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import structlog

from remora.contracts import Clock, Observation
from remora.core.item import Item, Newest
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.newest_id import Doubt, WentBack, doubted, gone_back, needs_proof, probes
from remora.core.verdict import Deferred, Found, Malformed, Missing, NotYet, Pressure, Refused, Trouble, Verdict

log = structlog.get_logger()


class BelievedNewest(ABC):
    """What is known about the newest id of one source."""

    _clock: Clock

    def __init__(self) -> None:
        self.newest_id: int | None = None  # the highest id that we believe
        self.proven_id = 0  # the highest id, not above `newest_id`, whose item was read
        self.doubt: Doubt | None = None  # the source reports a newest id that no item proves
        self.went_back: WentBack | None = None  # the source reports newest ids far below an item that was read
        self.newest_is_malformed = False  # the last answer was complete but held no newest id

    @property
    @abstractmethod
    def _source_name(self) -> str:
        """The source's name."""

    @abstractmethod
    async def _verdict(self, discovery: Discovery) -> Verdict:
        """Ask for it."""

    async def newest(self) -> int | None:
        """Ask for the highest id and remember it; None when there was no answer, or no believable one."""
        told = await self._ask_newest()
        if told is None or (needs_proof(told, proven_id=self.proven_id) and not await self._is_proven(told)):
            return None
        return self.believe(told)

    def believe(self, newest_id: int) -> int:
        """Believe that the source has ids up to this one, or up to a higher one that was believed before."""
        assert not needs_proof(newest_id, proven_id=self.proven_id), "no item proves this newest id"
        self.doubt = None
        self._look_back(newest_id)
        self.newest_id = max(newest_id, self.newest_id or 0, self.proven_id)
        return self.newest_id

    def _look_back(self, told: int) -> None:
        """Tell once that the source has gone back: a frozen cache, a reset, or another API behind the same address."""
        before, now_ns = self.went_back, self._clock.wall_ns()
        self.went_back = gone_back(before, told, proven_id=self.proven_id, now_wall_ns=now_ns)
        is_told = before is not None and before.is_lasting
        if self.went_back is not None and self.went_back.is_lasting and not is_told:
            log.warning("newest_id_went_back", source=self._source_name, told=told, read=self.proven_id)

    async def _is_proven(self, told: int) -> bool:
        """Whether an item near this id can be read. Sends few requests, and less often while the answer is no."""
        now_ns = self._clock.monotonic_ns()
        if self.doubt is not None and self.doubt.covers(told, now_ns=now_ns):
            return False
        for item_id in probes(told, attempt=self.doubt.attempts if self.doubt is not None else 0):
            match await self._verdict(Discovery.item(item_id, via=Lane.LIVE)):
                case Found():
                    self.proven_id = item_id
                    return True
                case NotYet() | Missing() | Malformed() | Refused():
                    continue
                case Trouble() | Pressure() | Deferred():
                    return False  # in trouble or under pressure: the claim is neither proven nor refused
        self.doubt = doubted(self.doubt, told, now_ns=now_ns, now_wall_ns=self._clock.wall_ns())
        log.warning("newest_id_refused", source=self._source_name, told=told, believed=self.newest_id)
        return False

    def _exist(self, seen: Sequence[Observation]) -> None:
        """The items that were found exist: an id up to the highest of them is proven."""
        newest_id = self.newest_id or 0
        for one in seen if self.proven_id < newest_id else ():
            if isinstance(one.verdict, Found) and isinstance(one.verdict.thing, Item):
                item_id = one.verdict.thing.item_id
                if self.proven_id < item_id <= newest_id:
                    self.proven_id = item_id

    async def _ask_newest(self) -> int | None:
        verdict = await self._verdict(Discovery.newest())
        self.newest_is_malformed = isinstance(verdict, Malformed)
        match verdict:
            case Found(Newest(item_id)):
                return item_id
            case _:
                return None
