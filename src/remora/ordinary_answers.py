"""Which answers need nothing but to be remembered? Nearly all: the item, and not a word more. Many are heard together.

They pass the same verbs as any other answer, decode, classify and learn, with one look each. Everything else goes the
general way: see `Collector`.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from remora.contracts import Dialect, Source
from remora.core.item import Readable
from remora.core.ledger.asking import Asked, Refusals
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.known_good import KnownGood
from remora.core.verdict import Found, NoReply, Reply, Verdict, is_plain
from remora.gate.governor import GovernedPermit, Governor
from remora.gate.request_batch import Answer

# At this wall clock, after these failures of earlier requests for the same thing.
HearOther = Callable[[Discovery, GovernedPermit, Reply | NoReply, int, frozenset[type[Verdict]]], Asked]
_NOTHING_MET: Final = frozenset[type[Verdict]]()


class _Ordinary(msgspec.Struct, gc=False):
    """An ordinary answer, and what it means."""

    discovery: Discovery
    permit: GovernedPermit
    reply: Reply
    asked: Asked


class OrdinaryAnswers:
    """The ordinary answers of one source."""

    def __init__(
        self, source: Source, governor: Governor, dialect: Dialect | None, known_good: KnownGood, refusals: Refusals
    ) -> None:
        self._source = source
        self._governor = governor
        self._dialect = dialect
        self._known_good = known_good
        self._refusals = refusals

    def hear(
        self, answers: Sequence[Answer], hear_other: HearOther, *, now_wall_ns: int
    ) -> list[tuple[Discovery, Asked]]:
        """Hear these answers in their order: each run of ordinary ones in one go, every other one by `hear_other`."""
        heard: list[tuple[Discovery, Asked]] = []
        run: list[_Ordinary] = []
        for discovery, permit, reply, was_plain in answers:
            ordinary = self._read(discovery, permit, reply) if was_plain or self.is_plain(reply) else None
            if ordinary is not None:
                run.append(ordinary)
                heard.append((discovery, ordinary.asked))
            else:
                self._learn(run)
                run = []
                heard.append((discovery, hear_other(discovery, permit, reply, now_wall_ns, _NOTHING_MET)))
        self._learn(run)
        return heard

    def is_plain(self, reply: Reply | NoReply) -> bool:
        """Whether it is what was asked for, and not a word more, in its headers and in its body."""
        return is_plain(reply) and (self._dialect is None or self._dialect.is_silent(reply))

    def _read(self, discovery: Discovery, permit: GovernedPermit, reply: Reply | NoReply) -> _Ordinary | None:
        """What a plain answer means; None if it is not ordinary. Changes nothing."""
        if discovery.kind is not Kind.ITEM or isinstance(reply, NoReply):
            return None
        try:
            decoded = self._source.decode(discovery, reply)
        except Exception:  # noqa: BLE001 - met again on the general way, which tells it
            return None
        if not isinstance(decoded, Readable) or permit.departed_wall_ns is None:
            return None
        took_ns = reply.answered_at_ns - reply.departed_at_ns
        return _Ordinary(discovery, permit, reply, Asked(Found(decoded.thing), permit.departed_wall_ns, 1, took_ns))

    def _learn(self, run: Sequence[_Ordinary]) -> None:
        if run:
            discoveries = [one.discovery for one in run]
            self._refusals.answered(*discoveries)
            self._known_good.answered(*discoveries)
            self._governor.learn_found([(one.permit, one.reply, one.asked.verdict) for one in run])
