"""How is the mirror of a world used while it is collected? It is searched, followed by named readers, and kept small."""

from random import Random
from typing import Final

import msgspec

_SEARCHED_SHARE: Final = 0.5
_KEPT_SMALL_SHARE: Final = 0.6
_WITHOUT_HISTORY_SHARE: Final = 0.3
_VERIFIED_SHARE: Final = 0.3
_IMPORTED_SHARE: Final = 0.4
_SECOND_SHARE: Final = 0.15


class Dump(msgspec.Struct, frozen=True):
    """What is imported, and when."""

    at_s: float  # 0: before the first process is started
    age_s: float  # how old its contents are
    share: float  # of the items that it has
    damaged: float  # of its lines that cannot be read
    is_shuffled: bool  # its lines are in no order


class Uses(msgspec.Struct, frozen=True):
    """What is done with a mirror beside collecting."""

    searched: bool = False  # an index is built, and kept up to date
    readers: int = 0  # named readers of the change feed
    keeps_s: float = 0.0  # older changes are deleted now and then; 0: never
    forgets_revisions: bool = False  # earlier contents are deleted with them
    verified: bool = False  # a sample is read again once the faults have stopped
    dump: Dump | None = None  # that is imported
    second: bool = False  # a list is another source of the same account, and shares its gate

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
            "verify": self.verified,
            "import": self.dump is not None,
            "second source": self.second,
        }
        return [word for word, is_done in done.items() if is_done]


UNUSED: Final = Uses()


def draw_uses(seed: int, *, store: str, hours: float, is_rescanned: bool, processes: int) -> Uses:
    """With chances of their own: everything else in the world of this seed stays as it was."""
    uses = _draw_programs(seed, hours) if store == "sqlite" else UNUSED  # only a file has readers
    verified = Random(f"verify/{seed}").random() < _VERIFIED_SHARE
    dump = _draw_dump(seed, hours) if store == "sqlite" and is_rescanned else None
    # At a low pace, several processes that wait for turns of one gate use too much of the processor for a long list.
    second = is_rescanned and processes == 1 and Random(f"second/{seed}").random() < _SECOND_SHARE
    return msgspec.structs.replace(uses, verified=verified, dump=dump, second=second)


def _draw_programs(seed: int, hours: float) -> Uses:
    chance = Random(f"uses/{seed}")
    searched, readers = chance.random() < _SEARCHED_SHARE, chance.choice([0, 0, 1, 2, 3])
    keeps_s = round(hours * 3_600.0 * chance.choice([0.01, 0.1, 0.3]), 3)
    is_kept_small = chance.random() < _KEPT_SMALL_SHARE
    forgets = is_kept_small and chance.random() < _WITHOUT_HISTORY_SHARE
    return Uses(searched, readers, keeps_s if is_kept_small else 0.0, forgets)


def _draw_dump(seed: int, hours: float) -> Dump | None:
    chance = Random(f"import/{seed}")
    if chance.random() >= _IMPORTED_SHARE:
        return None
    return Dump(
        at_s=chance.choice([0.0, round(chance.random() * hours * 3_600.0, 3)]),
        age_s=chance.choice([0.0, 600.0, 86_400.0]),
        share=chance.choice([0.2, 0.7, 1.0]),
        damaged=chance.choice([0.0, 0.1, 0.5]),
        is_shuffled=chance.random() < 0.5,
    )
