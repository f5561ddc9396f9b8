"""How does a store that needs sockets serve a simulated world? Each call runs to its end on a loop outside of simulated time."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, cast

from remora.contracts import Store


class OutsideStore:
    """Passes every call to a store whose loop runs in another thread. Simulated time does not move meanwhile."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            # Called on the store's own loop: a method may bind a future to the loop that runs it.
            async def inside() -> Any:
                result = method(*args, **kwargs)
                return await result if inspect.isawaitable(result) else [value async for value in result]

            told = asyncio.run_coroutine_threadsafe(inside(), self._loop).result()
            return _iterated(told) if inspect.isasyncgenfunction(method) else _answered(told)

        return call


async def _iterated(values: list[Any]) -> AsyncIterator[Any]:
    for value in values:
        yield value


async def _answered(value: Any) -> Any:
    return value


@contextmanager
def outside(store: Store) -> Iterator[Store]:
    """The store, opened, for use in simulated time."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="outside of simulated time")
    thread.start()

    def wait_for(result: Any) -> None:
        asyncio.run_coroutine_threadsafe(result, loop).result()

    try:
        wait_for(store.open())
        yield cast("Store", OutsideStore(store, loop))
        wait_for(store.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
