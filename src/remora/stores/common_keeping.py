"""What do both databases do alike to keep a mirror small? Named statements, read and sent in the same way."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from remora.contracts.keeping import NamedReader
from remora.core.units import MILLISECOND_NS


class CommonHousekeeping(ABC):
    """The part of `contracts.Housekeeping` that is the same on both. A store runs statements by their names."""

    # Lower than every place in the tables of earlier contents.
    _before_revisions: Sequence[Any]
    _before_document_revisions: Sequence[Any]

    async def named_readers(self) -> Sequence[NamedReader]:
        """Every named reader."""
        rows = await self._rows("named_readers", {})
        return tuple(NamedReader(name, position, read_at * MILLISECOND_NS) for name, position, read_at in rows)

    async def forget_reader(self, name: str) -> bool:
        """It is waited for no more."""
        return await self._change("forget_reader", {"name": name}) == 1

    async def forget_revisions(self, *, before_ns: int, limit: int) -> int:
        """Delete old contents, step by step through both tables. Old and young ones are side by side in them."""
        before = before_ns // MILLISECOND_NS
        return sum(
            [
                await self._forget_in_steps("revisions", self._before_revisions, before, limit),
                await self._forget_in_steps("document_revisions", self._before_document_revisions, before, limit),
            ]
        )

    async def forget_settled_gaps(self, *, before_ns: int, limit: int) -> int:
        """Delete gaps that were settled long ago, step by step: settled and owed ones are side by side in the table."""
        return await self._forget_in_steps("settled_gaps", ("", "", ""), before_ns // MILLISECOND_NS, limit)

    async def _forget_in_steps(self, name: str, place: Sequence[Any], before: int, limit: int) -> int:
        """`place`: where the table begins. No step reads again what an earlier one has left."""
        deleted = 0
        while rows := await self._rows(f"next_{name}", {**_numbered("k", place), "limit": limit}):
            step = {**_numbered("k", place), **_numbered("e", rows[0]), "before": before}
            deleted += await self._change(f"forget_{name}", step)
            place = rows[0]
        return deleted

    async def changes_since(self, since_ns: int) -> dict[str, int]:
        """How many changes there were."""
        return _by_sort(await self._rows("changes_since", {"since": since_ns // MILLISECOND_NS}))

    async def change_ends(self) -> tuple[int, int] | None:
        """The oldest and the newest."""
        ((first, last),) = await self._rows("change_ends", {})
        return None if first is None else (first, last)

    async def change_moment(self, number: int) -> int | None:
        """When it was recorded."""
        rows = await self._rows("change_moment", {"seq": number})
        return rows[0][0] * MILLISECOND_NS if rows else None

    async def changes_within(self, starts: Sequence[int], size: int, *, since_ns: int) -> dict[str, int]:
        """How many changes there were in some blocks."""
        values = {"starts": self._array(starts), "size": size, "since": since_ns // MILLISECOND_NS}
        return _by_sort(await self._rows("changes_within", values))

    @abstractmethod
    async def _rows(self, name: str, values: Mapping[str, Any]) -> Sequence[Any]:
        """The rows of a statement."""

    @abstractmethod
    async def _change(self, name: str, values: Mapping[str, Any]) -> int:
        """Run a statement that changes rows; how many it changed."""

    @abstractmethod
    def _array(self, numbers: Sequence[int]) -> object:
        """Numbers as one value of a statement."""


def _by_sort(rows: Sequence[tuple[str, str, int]]) -> dict[str, int]:
    return {f"{kind} {change}": count for kind, change, count in rows}


def _numbered(letter: str, values: Sequence[Any]) -> dict[str, Any]:
    return {f"{letter}{at}": value for at, value in enumerate(values)}
