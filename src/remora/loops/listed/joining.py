"""How is a document collected that takes several requests? Piece by piece, each durable by itself, then joined.

What was read of a document survives a fault or a kill: the next attempt asks for its detail again and, if that is still
the same version, only for the pieces that are missing. Pieces of different versions are never joined.
"""

from typing import Any, Final

import structlog
from msgspec.structs import replace

from remora.collect import Asked, Collector
from remora.contracts import Json, Outcome, Store
from remora.contracts.allowance import UNBOUNDED, Allowance
from remora.core.item import Piece
from remora.core.ledger.asking import AskPolicy
from remora.core.ledger.discovery import Discovery, fingerprint
from remora.core.ledger.notes import PIECE_NOTE
from remora.core.pieces import Circle, fits, joined, version_of
from remora.core.reasons import GapReason
from remora.core.verdict import Found, Malformed, Missing

log = structlog.get_logger()

# A part that moves while it is read is begun again this often.
TURNS_BACK_MAX: Final = 3


class JoiningCollector(Collector):
    """A collector for sources whose documents may take several requests."""

    def __init__(self, source: Any, store: Store, *args: Any, **kwargs: Any) -> None:
        super().__init__(source, store, *args, **kwargs)
        self._notes = store
        self._name = source.name
        self._asking_for: dict[Discovery, Discovery] = {}  # the piece of a document that is asked for now
        self._kept: dict[str, int] = {}  # how many pieces of a document are kept, by fingerprint

    def is_sent(self, discovery: Discovery) -> bool:
        """Whether a request for it, or for one of its pieces, was sent and is not answered yet."""
        return super().is_sent(self._asking_for.get(discovery, discovery))

    async def ask(
        self, discovery: Discovery, allowance: Allowance = UNBOUNDED, policy: AskPolicy | None = None
    ) -> Asked:
        """Ask for the whole of it. A piece that cannot be had is the verdict on the document."""
        first = await super().ask(discovery, allowance, policy)
        match first.verdict:
            case Found(Piece() as head):
                try:
                    return await self._gather(discovery, head, first, allowance, policy)
                finally:
                    self._asking_for.pop(discovery, None)
            case _:
                return first

    async def record(self, discovery: Discovery, asked: Asked) -> Outcome:
        """Make the result durable. The pieces of a document that is stored are not needed any more."""
        outcome = await super().record(discovery, asked)
        key = fingerprint(self._name, discovery.key)
        if isinstance(asked.verdict, Found) and key in self._kept:
            await self._forget(key, self._kept.pop(key))
        return outcome

    async def _gather(
        self, discovery: Discovery, head: Piece, first: Asked, allowance: Allowance, policy: AskPolicy | None
    ) -> Asked:
        key, version = fingerprint(self._name, discovery.key), version_of(head)
        for _ in range(TURNS_BACK_MAX):
            pieces = [head] if head.part else []
            following, count, circle = head.following, 0, Circle()
            while following is not None:
                piece = _read(await self._notes.note(self._name, _name(key, count)), head.key, version, following)
                if piece is None:
                    wanted = self._asking_for[discovery] = replace(discovery, piece=following)
                    asked = await super().ask(wanted, allowance, policy)
                    if not isinstance(asked.verdict, Found) or not isinstance(asked.verdict.thing, Piece):
                        return _not_gone(asked)
                    piece = asked.verdict.thing
                    await self._notes.keep_note(self._name, _name(key, count), _written(piece, version, following))
                count += 1
                if not fits(piece, pieces):
                    break
                if circle.closes(following, piece):
                    await self._forget(key, count)
                    return self._in_a_circle(piece.part, first)
                pieces.append(piece)
                following = piece.following
            self._kept[key] = count
            if following is None:
                return replace(first, verdict=Found(joined(head, pieces)))
            await self._forget(key, self._kept.pop(key))
        return replace(first, verdict=Malformed(GapReason.MALFORMED))

    def _in_a_circle(self, part: str, first: Asked) -> Asked:
        why = "its pages repeat; check paging and the name of its parameter"
        log.warning("part_contradicts", source=self._name, part=part, why=why)
        return replace(first, verdict=Malformed(GapReason.MALFORMED))

    async def _forget(self, key: str, count: int) -> None:
        """Delete the pieces, the last one first: a rest that is left begins at the first one and is recognized."""
        for at in reversed(range(count)):
            await self._notes.keep_note(self._name, _name(key, at), None)


def _not_gone(asked: Asked) -> Asked:
    """A part that is missing does not mean that its document is: the detail has just answered. The next attempt tells."""
    return replace(asked, verdict=Malformed(GapReason.MALFORMED)) if isinstance(asked.verdict, Missing) else asked


def _name(key: str, at: int) -> str:
    return f"{PIECE_NOTE} {key} {at}"


def _written(piece: Piece, version: str, asked_for: str) -> dict[str, Json]:
    return {
        "of": version,
        "asked_for": asked_for,
        "part": piece.part,
        "lines": [line.decode() for line in piece.lines],
        "keys": list(piece.line_keys),
        "shared": piece.shared,
        "following": piece.following,
    }


def _read(note: Json, key: str, version: str, asked_for: str) -> Piece | None:
    """The piece that is kept; None if there is none, or one of another version."""
    match note:
        case {
            "of": of,
            "asked_for": asked,
            "part": str(part),
            "lines": [*lines],
            "keys": [*keys],
            "shared": int(shared),
            "following": None | str() as following,
        } if of == version and asked == asked_for:
            texts = tuple(str(line).encode() for line in lines)
            return Piece(key, b"", None, part, texts, tuple(map(str, keys)), shared, following)
        case _:
            return None
