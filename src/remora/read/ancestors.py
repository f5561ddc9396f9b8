"""Where does an item belong? The items above it, up to its story, and the break if the way up is broken."""

from dataclasses import dataclass
from typing import Final

from remora.contracts.reader import MirroredItem, Reader

ANCESTORS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Ancestors:
    """The items above an item, the story first. At most one of the breaks is given."""

    items: tuple[MirroredItem, ...] = ()
    missing: int | None = None  # the next parent is not in the mirror: the item is outside its story
    cycle: int | None = None  # the next parent is below the item
    is_cut: bool = False  # there are more

    @property
    def root(self) -> MirroredItem | None:
        """The story at the top; None for a story itself and where the way up is broken."""
        whole = self.missing is None and self.cycle is None and not self.is_cut
        return self.items[0] if self.items and whole else None


async def read_ancestors(reader: Reader, item: MirroredItem, *, items_max: int = ANCESTORS_MAX) -> Ancestors:
    """Follow the parents upwards, one short read each."""
    above: list[MirroredItem] = []
    seen, parent = {item.id}, item.parent
    while parent is not None:
        if parent in seen:
            return Ancestors(tuple(reversed(above)), cycle=parent)
        if len(above) == items_max:
            return Ancestors(tuple(reversed(above)), is_cut=True)
        found = await reader.items(item.source, [parent])
        if not found:
            return Ancestors(tuple(reversed(above)), missing=parent)
        above.append(found[0])
        seen.add(parent)
        parent = found[0].parent
    return Ancestors(tuple(reversed(above)))
