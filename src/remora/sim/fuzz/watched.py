"""How does a process see its store? It is sometimes unreachable, and the judge sees every call that has an effect."""

from collections.abc import Awaitable, Mapping
from random import Random
from typing import Any, Protocol, cast

from remora.contracts import Store
from remora.core.errors import StoreUnavailable


class Witness(Protocol):
    """Sees every call of a store that has an effect."""

    def seen(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """A call returned this."""

    async def compare(self, name: str, args: tuple[Any, ...], store: Store) -> None:
        """Compare what a call left in the store with what was seen."""


class StoreTrouble:
    """Whether the store answers. `lost_answers`: some failed calls have an effect that the caller does not learn of."""

    def __init__(self) -> None:
        self.is_down = False
        self.lost_answers = False
        self.failures = 0
        self._chance = Random(0)

    def begin(self, seed: int, *, lost_answers: bool) -> None:
        """Make the store unreachable from now on."""
        self._chance = Random(seed)
        self.is_down, self.lost_answers = True, lost_answers

    def end(self) -> None:
        """Let the store answer again."""
        self.is_down = False

    def fail(self) -> StoreUnavailable:
        """The error that a caller gets."""
        self.failures += 1
        return StoreUnavailable("the simulated store does not answer", hint="wait")

    def loses_the_answer(self) -> bool:
        """Whether this call has its effect although it fails."""
        return self.lost_answers and self._chance.random() < 0.5


def watched(store: Store, trouble: StoreTrouble, witness: Witness) -> Store:
    """The same store, but it fails as `trouble` says, and `witness` sees its calls."""
    return cast("Store", _Watched(store, trouble, witness))


class _Watched:
    def __init__(self, store: Store, trouble: StoreTrouble, witness: Witness) -> None:
        self._store = store
        self._trouble = trouble
        self._witness = witness

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not callable(method):
            return method

        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            return self._awaited(name, result, args, kwargs) if isinstance(result, Awaitable) else result

        return call

    async def _awaited(self, name: str, result: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if self._trouble.is_down and not self._trouble.loses_the_answer():
            result.close()
            raise self._trouble.fail()
        value = await result
        self._witness.seen(name, args, kwargs, value)
        await self._witness.compare(name, args, self._store)
        if self._trouble.is_down:
            raise self._trouble.fail()
        return value
