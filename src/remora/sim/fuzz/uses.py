"""How is the mirror of a world used while it is collected? It is searched, followed by named readers, and kept small."""

from random import Random
from typing import Final

import msgspec

_SEARCHED_SHARE: Final = 0.5
_KEPT_SMALL_SHARE: Final = 0.6
_WITHOUT_HISTORY_SHARE: Final = 0.3


class Uses(msgspec.Struct, frozen=True):
    """What is done with a mirror beside collecting."""

    searched: bool = False  # an index is built, and kept up to date
    readers: int = 0  # named readers of the change feed
    keeps_s: float = 0.0  # older changes are deleted now and then; 0: never
    forgets_revisions: bool = False  # earlier contents are deleted with them

    @property
    def kept_small(self) -> bool:
        """Whether what is old is deleted."""
        return bool(self.keeps_s)

    def words(self) -> list[str]:
        """What is done, for the record of many worlds."""
        done = {
            "search": self.searched,
            "readers": bool(self.readers),
            "retention": self.kept_small,
        }
        return [word for word, is_done in done.items() if is_done]


UNUSED: Final = Uses()


def draw_uses(seed: int, *, store: str, hours: float) -> Uses:
    """With a chance of its own: everything else in the world of this seed stays as it was. Only a file has readers."""
    chance = Random(f"uses/{seed}")
    if store != "sqlite":
        return UNUSED
    searched, readers = chance.random() < _SEARCHED_SHARE, chance.choice([0, 0, 1, 2, 3])
    keeps_s = round(hours * 3_600.0 * chance.choice([0.01, 0.1, 0.3]), 3)
    is_kept_small = chance.random() < _KEPT_SMALL_SHARE
    forgets = is_kept_small and chance.random() < _WITHOUT_HISTORY_SHARE
    return Uses(searched, readers, keeps_s if is_kept_small else 0.0, forgets)
