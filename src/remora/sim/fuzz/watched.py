"""How does a process meet its store? It is sometimes away, and every call that succeeds is seen by the judge."""

from collections.abc import Awaitable, Mapping
from random import Random
from typing import Any, Protocol, cast

from remora.contracts import Store
from remora.core.errors import StoreUnavailable


class Witness(Protocol):
    """Whoever looks at what a store did."""

    def seen(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """A call returned this."""


class StoreTrouble:
    """Whether the store answers. `lost_answers`: some calls have their effect, and the caller never hears of it."""

    def __init__(self) -> None:
        self.is_down = False
        self.lost_answers = False
        self.failures = 0
        self._chance = Random(0)

    def begin(self, seed: int, *, lost_answers: bool) -> None:
        """The store is away from now on."""
        self._chance = Random(seed)
        self.is_down, self.lost_answers = True, lost_answers

    def end(self) -> None:
        """It answers again."""
        self.is_down = False

    def fail(self) -> StoreUnavailable:
        """What a caller gets."""
        self.failures += 1
        return StoreUnavailable("the simulated store does not answer", hint="wait")

    def loses_the_answer(self) -> bool:
        """Whether this call has its effect although it fails."""
        return self.lost_answers and self._chance.random() < 0.5


def watched(store: Store, trouble: StoreTrouble, witness: Witness) -> Store:
    """The same store, as unreliable as the trouble says."""
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
        if self._trouble.is_down:
            raise self._trouble.fail()
        return value
